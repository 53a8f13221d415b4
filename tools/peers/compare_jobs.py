# SPDX-License-Identifier: Apache-2.0
"""Runs an example with Troupe and with TRL in turn: seconds a step, reward curves and their ratio."""
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
    script = os.path.join(ROOT, "tools/peers", f"trl_{options.what}.py")
    command = [options.python, script, "--steps", str(options.steps), "--seed", str(options.seed)]
    if options.what == "addition":
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
        command = [os.path.join(ROOT, "bin/troupe"), "run", os.path.join(ROOT, "examples", options.what, "job.yaml"),
                   "--quiet", f"trainer.output_dir={folder}/run", f"trainer.total_steps={options.steps}",
                   "trainer.val_before_train=false", "trainer.test_freq=0", "trainer.save_freq=0",
                   f"data.seed={options.seed}", f"rollout.seed={options.seed}"]
        if options.what == "addition":
            command += [f"trainer.train_batch_size={options.prompts}", f"actor.ppo_mini_batch_size={options.prompts}"]
            if options.beta:
                command += ["actor.use_kl_loss=true", f"actor.kl_loss_coef={options.beta}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"troupe failed:\n{result.stderr[-2000:]}")
        with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as lines:
            steps = [line for line in json_lines(lines.read()) if "critic/score/mean" in line]
        return [s["timing_s/step"] for s in steps], [s["critic/score/mean"] for s in steps]


def run(options):
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
    print(json.dumps({"example": options.what, "ratio_median": round(statistics.median(ratios), 3),
                      "ratio_min": round(min(ratios), 3), "ratio_max": round(max(ratios), 3), "rounds": options.rounds}))
    return 0
