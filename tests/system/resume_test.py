# SPDX-License-Identifier: Apache-2.0
"""On-policy, one thread: a run that was stopped, or killed with everything, and resumed is bit-identical to one that was not."""

import os
import signal
import unittest

from harness import SystemTest, surviving_steps

STEPS = 24
# Metrics that measure the machine or name the attempt, not what was learned.
OF_THE_MACHINE = ("timing_s/", "perf/", "time", "attempt")


class ResumeTest(SystemTest):
    def start(self, name):
        job = self.home.copy_example("even_digits")
        return self.home.troupe("run", job, f"trainer.output_dir={self.folder(name)}", f"trainer.total_steps={STEPS}",
                                "trainer.save_freq=4", "trainer.resume=auto")

    def folder(self, name):
        return os.path.join(self.home.work, name)

    def finish(self, process, status=0):
        _, err = process.communicate(timeout=55)
        self.assertEqual(process.returncode, status, err)
        self.assert_nothing_left()

    def wait_for_step(self, name, step):
        self.wait_for(f"step {step} of {name}", lambda: len(surviving_steps(self.folder(name))) >= step, 40)

    def learned(self, name):
        """What a run learned: its metrics by step and the bytes of its last model."""
        metrics = {step: {key: value for key, value in line.items() if not key.startswith(OF_THE_MACHINE)}
                   for step, line in surviving_steps(self.folder(name)).items()}
        with open(os.path.join(self.folder(name), f"checkpoints/step_{STEPS}/model.safetensors"), "rb") as file:
            return metrics, file.read()

    def assert_same(self, name, expected):
        metrics, model = self.learned(name)
        self.assertEqual(metrics, expected[0])
        self.assertEqual(model == expected[1], True, "the bytes of model.safetensors differ")

    def test_a_stopped_and_a_killed_run_end_as_an_undisturbed_one(self):
        self.finish(self.start("straight"))
        straight = self.learned("straight")
        self.assertEqual(sorted(straight[0]), list(range(1, STEPS + 1)))

        stopped = self.start("stopped")
        self.wait_for_step("stopped", 4)
        os.kill(stopped.pid, signal.SIGINT)
        self.finish(stopped, 130)
        self.assertLess(len(surviving_steps(self.folder("stopped"))), STEPS, "it was stopped too late")
        code, _, err = self.home.call("resume", self.folder("stopped"))
        self.assertEqual(code, 0, err)
        self.assert_same("stopped", straight)

        killed = self.start("killed")
        self.wait_for_step("killed", 6)
        self.home.kill_everything()
        killed.communicate(timeout=10)
        self.assertLess(len(surviving_steps(self.folder("killed"))), STEPS, "it was killed too late")
        self.finish(self.start("killed"))
        self.assert_same("killed", straight)


if __name__ == "__main__":
    unittest.main(verbosity=2)
