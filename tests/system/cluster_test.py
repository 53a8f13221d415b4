# SPDX-License-Identifier: Apache-2.0
"""`troupe head` and `troupe node` as processes of their own: submit, look, kill -9 the head, cancel."""

import json
import os
import re
import signal
import unittest

from harness import SystemTest, surviving_steps


class ClusterTest(SystemTest):
    def start_head(self, port=0):
        # Its output goes to a file: the head outlives the test's attention.
        path = os.path.join(self.home.root, "head.log")
        with open(path, "w", encoding="utf-8") as log:
            head = self.home.troupe("head", "--listen", f"127.0.0.1:{port}", stdout=log, stderr=log)

        def address():
            with open(path, encoding="utf-8") as text:
                found = re.search(r"127\.0\.0\.1:(\d+)", text.read())
            return found and int(found.group(1))

        self.port = self.wait_for("the head says where it listens", address)
        self.home.environment["TROUPE_HEAD"] = f"127.0.0.1:{self.port}"
        return head

    def start_node(self):
        with open(os.path.join(self.home.root, "node.log"), "w", encoding="utf-8") as log:
            node = self.home.troupe("node", "--cpus", "2", stdout=log, stderr=log)
        self.wait_for("the node is ready", lambda: '"state": "ready"' in self.home.call("nodes", "-o", "json")[1])
        return node

    def submit(self, *overrides):
        job = self.home.copy_example("even_digits")
        self.run_folder = os.path.join(self.home.work, "out")
        code, out, err = self.home.call("submit", job, f"trainer.output_dir={self.run_folder}", *overrides)
        self.assertEqual(code, 0, err)
        return out.strip()

    def state(self, job):
        _, out, _ = self.home.call("jobs", "-o", "json")
        return next((j["state"] for j in json.loads(out or "{}").get("jobs", []) if j["job_id"] == job), None)

    def test_a_killed_head_is_replaced_and_the_job_goes_on(self):
        head = self.start_head()
        self.start_node()
        job = self.submit("trainer.total_steps=120", "trainer.save_freq=0")
        self.wait_for("some steps", lambda: len(surviving_steps(self.run_folder)) >= 3, 40)
        before = self.home.workers()
        os.kill(head.pid, signal.SIGKILL)
        head.wait(timeout=10)
        seen = len(surviving_steps(self.run_folder))
        self.wait_for("steps without a head", lambda: len(surviving_steps(self.run_folder)) >= seen + 3, 30)
        self.start_head(self.port)
        self.wait_for("the job is known again", lambda: self.state(job) == "JOB_RUNNING", 20)
        self.assertEqual(self.home.workers(), before, "workers were disturbed")
        self.wait_for("the job is done", lambda: self.state(job) == "JOB_SUCCEEDED", 50)
        self.assertEqual(sorted(surviving_steps(self.run_folder)), list(range(1, 121)))
        self.wait_for("its workers are gone", lambda: not self.home.workers(), 15)

    def test_cancel_works_in_every_state_and_is_safe_to_repeat(self):
        self.start_head()
        job = self.submit("trainer.total_steps=100000")  # no node: it waits
        self.assertEqual(self.state(job), "JOB_PENDING")
        self.assertIn("node", self.home.call("explain", f"job/{job}")[1])
        self.assertEqual(self.home.call("cancel", job)[0], 0)
        self.assertEqual(self.state(job), "JOB_CANCELLED")
        self.start_node()
        os.rename(self.run_folder, self.run_folder + "-first")
        job = self.submit("trainer.total_steps=100000")
        self.wait_for("it trains", lambda: len(surviving_steps(self.run_folder)) >= 1, 40)
        self.assertIn("rollout/0", self.home.call("actors", "--job", job)[1])
        self.assertEqual(self.home.call("logs", job)[0], 0)
        for _ in range(2):
            code, _, err = self.home.call("cancel", job, "--grace", "5s")
            self.assertEqual(code, 0, err)
        self.assertEqual(self.state(job), "JOB_CANCELLED")
        self.assertEqual(self.home.workers(), {})

    def test_a_wrong_token_is_refused(self):
        self.start_head()
        other = self.home.write("token", "f" * 64)
        os.chmod(other, 0o600)
        code, _, err = self.home.call("jobs", "--token-file", other)
        self.assertEqual(code, 3, err)
        self.assertIn("token", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
