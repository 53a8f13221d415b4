# SPDX-License-Identifier: Apache-2.0
"""No space on the disk of the output folder: the job stops with one clear error, and goes on once there is space."""

import os
import subprocess
import unittest

from harness import SystemTest, surviving_steps


class FullDiskTest(SystemTest):
    def test_a_full_disk_stops_the_job_and_after_space_is_freed_it_goes_on(self):
        disk = os.path.join(self.home.work, "disk")
        os.makedirs(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", disk], capture_output=True,
                                 check=False)
        if mounted.returncode != 0:
            self.skipTest("only root may mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        with open(os.path.join(disk, "ballast"), "wb") as file:
            file.write(b"x" * (1 << 20))
        out = os.path.join(disk, "out")
        arguments = ("run", self.home.copy_example("even_digits"), f"trainer.output_dir={out}",
                     "trainer.save_freq=2", "trainer.resume=auto", "trainer.total_steps=400")
        code, _, err = self.home.call(*arguments, timeout=100)
        self.assertEqual(code, 1, err)
        self.assertIn(out, err.split("failed after")[1].split("everything of it")[0])
        self.assertIn("No space left on device", err)
        self.assert_nothing_left()
        kept = os.listdir(os.path.join(out, "checkpoints"))
        self.assertTrue(kept and not [name for name in kept if name.endswith(".tmp")], kept)
        done = max(surviving_steps(out))
        os.remove(os.path.join(disk, "ballast"))
        code, _, err = self.home.call(*arguments[:-1], f"trainer.total_steps={done + 2}",
                                      "trainer.max_checkpoints=1", timeout=50)
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(surviving_steps(out)), list(range(1, done + 3)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
