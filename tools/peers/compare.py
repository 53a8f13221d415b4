# SPDX-License-Identifier: Apache-2.0
"""Runs an example with Troupe and with TRL in turn on this machine and prints seconds a step, reward curves and the ratio.

  tools/peers/compare.py addition --python V/bin/python --model HF_FOLDER [--rounds 3] [--steps 6] [--prompts 4]
  tools/peers/compare.py even_digits --python V/bin/python
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"')]


def run_peer(options):
    script = os.path.join(ROOT, "tools/peers", f"trl_{options.example}.py")
    command = [options.python, script, "--steps", str(options.steps), "--seed", str(options.seed)]
    if options.example == "addition":
        command += ["--model", options.model, "--prompts", str(options.prompts), "--beta", str(options.beta),
                    "--evaluate", "0", "--data", os.path.join(ROOT, "examples/addition")]
    else:
        command += ["--data", os.path.join(ROOT, "examples/even_digits/train.jsonl")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"the peer failed:\n{result.stderr[-2000:]}")
    steps = [line for line in json_lines(result.stdout) if "seconds" in line]
    return [s["seconds"] for s in steps], [s["reward"] for s in steps]


def run_troupe(options):
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(ROOT, "bin/troupe"), "run", os.path.join(ROOT, "examples", options.example, "job.yaml"),
                   "--quiet", f"trainer.output_dir={folder}/run", f"trainer.total_steps={options.steps}",
                   "trainer.val_before_train=false", "trainer.test_freq=0", "trainer.save_freq=0",
                   f"data.seed={options.seed}", f"rollout.seed={options.seed}"]
        if options.example == "addition":
            command += [f"trainer.train_batch_size={options.prompts}", f"actor.ppo_mini_batch_size={options.prompts}"]
            if options.beta:
                command += ["actor.use_kl_loss=true", f"actor.kl_loss_coef={options.beta}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"troupe failed:\n{result.stderr[-2000:]}")
        with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as lines:
            steps = [line for line in json_lines(lines.read()) if "critic/score/mean" in line]
        return [s["timing_s/step"] for s in steps], [s["critic/score/mean"] for s in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=["addition", "even_digits"])
    parser.add_argument("--python", required=True, help="the peer's Python")
    parser.add_argument("--model", help="Hugging Face folder of the model (addition)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--beta", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ratios = []
    for i in range(options.rounds):
        ours, our_rewards = run_troupe(options)
        theirs, their_rewards = run_peer(options)
        # The first step warms up (pages, thread pools): it is left out on both sides.
        a, b = statistics.median(ours[1:]), statistics.median(theirs[1:])
        ratios.append(a / b)
        print(json.dumps({"round": i, "troupe_s": round(a, 3), "trl_s": round(b, 3), "ratio": round(a / b, 3),
                          "troupe_reward": [round(r, 2) for r in our_rewards],
                          "trl_reward": [round(r, 2) for r in their_rewards]}), flush=True)
    print(json.dumps({"example": options.example, "ratio_median": round(statistics.median(ratios), 3),
                      "ratio_min": round(min(ratios), 3), "ratio_max": round(max(ratios), 3), "rounds": options.rounds}))


if __name__ == "__main__":
    main()
