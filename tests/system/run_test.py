# SPDX-License-Identifier: Apache-2.0
"""`troupe run` on the tiny example: it learns, shows what it does, and leaves nothing behind."""

import json
import os
import signal
import unittest

from harness import SystemTest, surviving_steps


class RunTest(SystemTest):
    def run_folder(self):
        return os.path.join(self.home.work, "out")

    def start(self, *overrides, **options):
        job = self.home.copy_example("even_digits")
        return self.home.troupe("run", job, f"trainer.output_dir={self.run_folder()}", *overrides, **options)

    def test_the_tiny_model_learns_and_nothing_is_left(self):
        process = self.start("--json-summary")
        workers = self.wait_for("every role has a process", lambda: self.all_roles())
        self.assertEqual(len(set(workers.values())), len(workers), "one process a role")
        out, err = process.communicate(timeout=55)
        self.assertEqual(process.returncode, 0, err)
        summary = json.loads(out)
        self.assertEqual(summary["state"], "succeeded")
        steps = surviving_steps(self.run_folder())
        self.assertEqual(sorted(steps), list(range(1, 21)))
        self.assertLess(steps[1]["critic/score/mean"], 0.4)
        self.assertGreater(steps[20]["critic/score/mean"], 0.85)
        self.assertEqual(steps[20]["reward/score"], steps[20]["critic/score/mean"])
        self.assertIn("step 20/20", err)
        for name in ("job.yaml", "metrics.jsonl", "events.jsonl", "logs", "checkpoints/step_20"):
            self.assertTrue(os.path.exists(os.path.join(self.run_folder(), name)), name)
        self.assert_nothing_left()

    def all_roles(self):
        workers = self.home.workers()
        return workers if {"controller/0", "rollout/0", "reward/0", "actor/0"} <= set(workers) else None

    def test_asynchronous_runs_train_every_group_once_within_the_bound(self):
        for bound in (1, 2):
            process = self.start(f"algorithm.max_staleness={bound}")
            _, err = process.communicate(timeout=55)
            self.assertEqual(process.returncode, 0, err)
            steps = surviving_steps(self.run_folder())
            groups = [(line["training/first_group"], line["training/last_group"], line["training/rows"])
                      for _, line in sorted(steps.items())]
            self.assertEqual(groups, [(16 * step, 16 * step + 15, 128) for step in range(20)])
            self.assertIn(max(line["staleness/max"] for line in steps.values()), range(1, bound + 1))
            self.assertGreater(steps[20]["critic/score/mean"], 0.85)
            self.assert_nothing_left()
            os.rename(self.run_folder(), f"{self.run_folder()}-{bound}")

    def test_keys_of_sampling_reach_the_engine(self):
        process = self.start("rollout.min_p=1", "trainer.total_steps=1")
        _, err = process.communicate(timeout=55)
        self.assertEqual(process.returncode, 0, err)
        step = surviving_steps(self.run_folder())[1]
        self.assertEqual(step["frac_reward_zero_std"], 1, "the samples of a prompt differ")

    def test_a_kl_in_the_reward_starts_a_reference_and_lowers_the_reward(self):
        process = self.start("algorithm.use_kl_in_reward=true", "algorithm.kl_penalty=low_var_kl",
                             "algorithm.kl_ctrl.kl_coef=0.1", "trainer.total_steps=3")
        _, err = process.communicate(timeout=55)
        self.assertEqual(process.returncode, 0, err)
        step = surviving_steps(self.run_folder())[3]
        self.assertGreater(step["actor/reward_kl_penalty"], 0)
        self.assertEqual(step["actor/reward_kl_penalty_coeff"], 0.1)
        self.assertLess(step["critic/rewards/mean"], step["critic/score/mean"])

    def test_interrupted_once_it_checkpoints_and_the_next_run_goes_on(self):
        process = self.start("trainer.total_steps=100000", "trainer.resume=auto", "trainer.save_freq=0")
        self.wait_for("three steps", lambda: len(surviving_steps(self.run_folder())) >= 3, 40)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 130, err)
        done = max(surviving_steps(self.run_folder()))
        self.assertTrue(os.path.exists(os.path.join(self.run_folder(), f"checkpoints/step_{done}")), err)
        self.assert_nothing_left()
        again = self.start("trainer.resume=auto", f"trainer.total_steps={done + 2}", "trainer.save_freq=0")
        out, err = again.communicate(timeout=55)
        self.assertEqual(again.returncode, 0, err)
        self.assertEqual(sorted(surviving_steps(self.run_folder())), list(range(1, done + 3)))

    def test_interrupted_twice_it_ends_now(self):
        process = self.start("trainer.total_steps=100000")
        self.wait_for("every role has a process", lambda: self.all_roles())
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)
        self.wait_for("a second signal is seen", lambda: os.kill(process.pid, signal.SIGINT) is None)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assert_nothing_left()

    def test_killed_outright_everything_ends(self):
        process = self.start("trainer.total_steps=100000")
        self.wait_for("every role has a process", lambda: self.all_roles())
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        self.wait_for("every process is gone", lambda: not self.home.processes(), 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
