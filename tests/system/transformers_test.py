# SPDX-License-Identifier: Apache-2.0
"""An exported SmolLM2 in Transformers: the same ids, chat template, end ids and logits (tier full).

TROUPE_PEER_PYTHON names a Python that has torch and transformers; without one this says so and checks nothing.
"""

import json
import os
import subprocess
import sys
import unittest

from harness import SystemTest

PYTHON = os.environ.get("TROUPE_PEER_PYTHON", sys.executable)
HAS_TRANSFORMERS = subprocess.run([PYTHON, "-c", "import torch, transformers"], capture_output=True).returncode == 0

# Prints the worst differences between the folder in argv[1] and the golden cases in argv[2].
COMPARE = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
found = {"tokenize": 0, "chat_template": 0, "logprob": 0.0, "logit": 0.0, "wrong": [], "eos": model.generation_config.eos_token_id}
for case in json.load(open(sys.argv[2]))["cases"]:
    given, expected = case["inputs"], case["outputs"]
    if case["function"] == "tokenize":
        found["tokenize"] += 1
        if tokenizer(given["text"], add_special_tokens=False)["input_ids"] != expected["ids"]: found["wrong"].append(case["case"])
    if case["function"] == "chat_template":
        found["chat_template"] += 1
        text = tokenizer.apply_chat_template(given["messages"], tokenize=False, **case["config"])
        if text != expected["text"]: found["wrong"].append(case["case"])
    if case["function"] == "score":
        ids = torch.tensor([given["ids"]])
        logprobs = torch.log_softmax(model(ids).logits[0].double(), -1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
        worst = (logprobs - torch.tensor(expected["token_logprobs"])).abs().max().item()
        found["logprob"] = max(found["logprob"], worst)
    if case["function"] == "generate":
        logits = model(torch.tensor([given["ids"]])).logits[0, -1]
        worst = (logits[expected["top5_ids"]] - torch.tensor(expected["top5_logits"])).abs().max().item()
        found["logit"] = max(found["logit"], worst)
print(json.dumps(found))
"""


class TransformersTest(SystemTest):
    def compare(self):
        code, _, err = self.home.call("export", self.home.model, "--to", "exported")
        self.assertEqual(code, 0, err)
        golden = os.path.abspath("tests/golden/smollm2.json")
        ran = subprocess.run([PYTHON, "-c", COMPARE, os.path.join(self.home.work, "exported"), golden],
                             capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads(ran.stdout)
        self.assertEqual(found["wrong"], [])
        self.assertGreater(min(found["tokenize"], found["chat_template"]), 5)
        self.assertLess(found["logprob"], 3e-4)
        self.assertLess(found["logit"], 3e-4)
        self.assertEqual(found["eos"], 2)


def skipped(self):
    self.skipTest(f"{PYTHON} has no torch and transformers; set TROUPE_PEER_PYTHON")


if HAS_TRANSFORMERS:
    TransformersTest.test_transformers_loads_an_export = TransformersTest.compare
else:
    TransformersTest.test_without_transformers_nothing_was_compared = skipped

if __name__ == "__main__":
    unittest.main(verbosity=2)
