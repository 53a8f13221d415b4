# SPDX-License-Identifier: Apache-2.0
"""GRPO by TRL on the data and the model's shape of examples/even_digits: the peer of that job. A JSON object a step."""
import argparse
import json
import time

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

CHARACTERS = "0123456789abcdefghijklmnopqrst"


def make_tokenizer():
    words = {"<pad>": 0, "<eos>": 1, **{character: i + 2 for i, character in enumerate(CHARACTERS)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>",
                                   unk_token="<pad>", padding_side="left")


def reward(completions, **columns):
    return [sum(character in "02468" for character in text) / 8 for text in completions]


class StepLog(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.begin

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "reward" in logs:
            print(json.dumps({"step": state.global_step, "reward": logs["reward"], "seconds": round(self.seconds, 4)}),
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="examples/even_digits/train.jsonl")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=32, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, pad_token_id=0, bos_token_id=None, eos_token_id=1,
        tie_word_embeddings=True))
    with open(options.data, encoding="utf-8") as lines:
        rows = [{"prompt": json.loads(line)["prompt"]} for line in lines]
    config = GRPOConfig(
        output_dir="/tmp/trl_even_digits", use_cpu=True, bf16=False, seed=options.seed, learning_rate=1e-2,
        lr_scheduler_type="constant", per_device_train_batch_size=128, num_generations=8, max_completion_length=8,
        max_steps=options.steps, beta=0.0, gradient_checkpointing=False, logging_steps=1, save_strategy="no",
        report_to=[], disable_tqdm=True)
    GRPOTrainer(model=model, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(rows),
                processing_class=make_tokenizer(), callbacks=[StepLog()]).train()


if __name__ == "__main__":
    main()
