# SPDX-License-Identifier: Apache-2.0
"""The learning curve of examples/addition: 8 prompts a step, held-out accuracy over 64 samples a prompt (tier full).

TROUPE_CURVE_SEEDS names the seeds ("0 1 2"); each must reach 0.78 at step 12 and 0.85 at step 40.
"""

import os
import unittest

from harness import SystemTest, read_json_lines


class AdditionCurveTest(SystemTest):
    def test_held_out_accuracy(self):
        self.assertTrue(os.path.exists(self.home.model), "tools/setup fetches the model")
        job = self.home.copy_example("addition")
        for seed in os.environ.get("TROUPE_CURVE_SEEDS", "0 1 2").split():
            folder = os.path.join(self.home.work, f"seed-{seed}")
            code, _, err = self.home.call(
                "run", job, f"model.path={self.home.model}", f"trainer.output_dir={folder}", f"data.seed={seed}",
                f"rollout.seed={seed}", "trainer.val_before_train=false", "trainer.test_freq=12", "trainer.val_n=64",
                "trainer.save_freq=0", timeout=3000)
            self.assertEqual(code, 0, err)
            sampled = {line["training/global_step"]: value
                       for line in read_json_lines(os.path.join(folder, "metrics.jsonl"))
                       for key, value in line.items() if key.startswith("val-core/") and key.endswith("mean@64")}
            print(f"seed {seed}: {sampled}", flush=True)
            self.assertGreaterEqual(sampled[12], 0.78, f"seed {seed}: {sampled}")
            self.assertGreaterEqual(sampled[40], 0.85, f"seed {seed}: {sampled}")
            self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
