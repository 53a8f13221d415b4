# SPDX-License-Identifier: Apache-2.0
"""GRPO by TRL on the data of examples/addition: the peer of `troupe run examples/addition/job.yaml`.

Prints one JSON object a step (reward, seconds, seconds of generation) and one with the held-out accuracies at the end.
"""
import argparse
import json
import re
import resource
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def reward(completions, answer, **columns):
    """1 when the first number of the completion is the answer."""
    firsts = [re.search(r"[0-9]+", text) for text in completions]
    return [float(first is not None and first.group(0) == right) for first, right in zip(firsts, answer)]


def accuracy(model, tokenizer, rows, samples, new_tokens):
    """Mean reward on held-out rows: greedy when samples is 0."""
    prompts = [row["prompt"] for row in rows for _ in range(max(samples, 1))]
    answers = [row["answer"] for row in rows for _ in range(max(samples, 1))]
    scores = []
    for begin in range(0, len(prompts), 160):
        inputs = tokenizer(prompts[begin:begin + 160], return_tensors="pt", padding=True, add_special_tokens=False)
        how = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0) if samples else dict(do_sample=False)
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=new_tokens, **how)
        texts = tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
        scores += reward(texts, answers[begin:begin + 160])
    return sum(scores) / len(scores)


class StepLog(TrainerCallback):
    """One JSON line a step; the time of generation is taken from the trainer's own method."""

    def __init__(self):
        self.generation_seconds = 0.0
        generate = GRPOTrainer._generate

        def timed(trainer, *args, **kwargs):
            begin = time.perf_counter()
            try:
                return generate(trainer, *args, **kwargs)
            finally:
                self.generation_seconds += time.perf_counter() - begin

        GRPOTrainer._generate = timed

    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = time.perf_counter()
        self.generation_begin = self.generation_seconds

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.begin

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "reward" in logs:
            print(json.dumps({"step": state.global_step, "reward": logs["reward"], "kl": logs.get("kl"),
                              "seconds": round(self.seconds, 3),
                              "generation_seconds": round(self.generation_seconds - self.generation_begin, 3)}),
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="Hugging Face folder (troupe export writes one)")
    parser.add_argument("--data", default="examples/addition")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--beta", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--evaluate", type=int, default=64, help="samples a held-out prompt; 0: no evaluation")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    config = GRPOConfig(
        output_dir="/tmp/trl_addition", use_cpu=True, bf16=False, fp16=False, seed=options.seed, learning_rate=1e-5,
        lr_scheduler_type="constant", per_device_train_batch_size=options.prompts * options.samples,
        num_generations=options.samples, max_completion_length=8, max_steps=options.steps, temperature=1.0, top_p=1.0,
        top_k=0, beta=options.beta, num_iterations=1, loss_type="dapo", scale_rewards="group", max_grad_norm=1.0,
        weight_decay=0.0, gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
        disable_tqdm=True)
    trainer = GRPOTrainer(model=model, reward_funcs=reward, args=config, processing_class=tokenizer,
                          train_dataset=Dataset.from_list(read_rows(f"{options.data}/train.jsonl")),
                          callbacks=[StepLog()])
    trainer.train()
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    summary = {"peak_rss_gib": round(peak_gib, 2)}
    if options.evaluate:
        held_out = read_rows(f"{options.data}/val.jsonl")
        summary["greedy"] = accuracy(model, tokenizer, held_out, 0, 8)
        summary["sampled"] = accuracy(model, tokenizer, held_out, options.evaluate, 8)
    print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
