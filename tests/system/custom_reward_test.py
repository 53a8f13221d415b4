# SPDX-License-Identifier: Apache-2.0
"""A class of the user's own behind the reward role, in a program of its own: examples/custom_reward."""

import os
import unittest

from harness import SystemTest, read_json_lines, surviving_steps


class CustomRewardTest(SystemTest):
    def test_the_job_learns_what_the_class_rewards(self):
        self.home.copy_example("even_digits")
        job = self.home.copy_example("custom_reward")
        out = os.path.join(self.home.work, "out")
        program = os.path.abspath("examples/custom_reward/custom_reward")
        code, _, err = self.home.call("run", job, f"trainer.output_dir={out}", f"roles.reward.worker_binary={program}")
        self.assertEqual(code, 0, err)
        steps = surviving_steps(out)
        self.assertLess(steps[1]["critic/score/mean"], 0.4)
        self.assertGreater(steps[20]["critic/score/mean"], 0.8)
        learnt = [sample for sample in read_json_lines(f"{out}/samples.jsonl") if sample["step"] == 20]
        odd = [sum(c in "13579" for c in sample["response"]) / 8 for sample in learnt]
        self.assertEqual(odd, [sample["score"] for sample in learnt])  # args: [1]
        self.assertTrue(odd)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
