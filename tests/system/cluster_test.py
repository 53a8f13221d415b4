# SPDX-License-Identifier: Apache-2.0
"""`troupe head` and `troupe node` as processes of their own: submit, look, kill -9 the head, cancel."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from harness import SystemTest, surviving_steps


class ClusterTest(SystemTest):
    secure = ()  # how commands reach the head

    def start_head(self, port=0, *options):
        # Its output goes to a file: the head outlives the test's attention.
        path = os.path.join(self.home.root, "head.log")
        with open(path, "w", encoding="utf-8") as log:
            head = self.home.troupe("head", "--listen", f"127.0.0.1:{port}", *options, stdout=log, stderr=log)

        def address():
            with open(path, encoding="utf-8") as text:
                found = re.search(r"127\.0\.0\.1:(\d+)", text.read())
            return found and int(found.group(1))

        self.port = self.wait_for("the head says where it listens", address)
        self.home.environment["TROUPE_HEAD"] = f"127.0.0.1:{self.port}"
        return head

    def start_node(self, *options):
        with open(os.path.join(self.home.root, "node.log"), "w", encoding="utf-8") as log:
            node = self.home.troupe("node", "--cpus", "2", *options, *self.secure, stdout=log, stderr=log)
        self.wait_for("the node is ready",
                      lambda: '"state": "ready"' in self.home.call("nodes", "-o", "json", *self.secure)[1])
        return node

    def submit(self, *overrides):
        job = self.home.copy_example("even_digits")
        self.run_folder = os.path.join(self.home.work, "out")
        code, out, err = self.home.call("submit", job, f"trainer.output_dir={self.run_folder}", *self.secure, *overrides)
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

    def test_the_folder_of_a_live_job_is_refused_to_another(self):
        self.start_head()
        self.start_node()
        job = self.submit("trainer.total_steps=100000")
        self.wait_for("it trains", lambda: len(surviving_steps(self.run_folder)) >= 1, 40)
        for command in ("submit", "run"):
            code, _, err = self.home.call(command, self.home.copy_example("even_digits"), "trainer.resume=auto",
                                          "trainer.total_steps=100000", f"trainer.output_dir={self.run_folder}")
            self.assertEqual(code, 2, err)
            self.assertIn("a job ('troupe jobs')", err)
        seen = len(surviving_steps(self.run_folder))
        self.wait_for("it goes on", lambda: len(surviving_steps(self.run_folder)) > seen, 20)
        self.assertEqual(self.state(job), "JOB_RUNNING")
        self.assertEqual(self.home.call("cancel", job, "--grace", "5s")[0], 0)

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
        wide = self.home.call("actors", "--job", job, "-o", "wide")[1]
        rollout = next(line for line in wide.splitlines() if "/rollout/0#" in line.split()[0])
        self.assertRegex(rollout, r"from \S+: shared-memory rings", "who calls it, and how")
        self.assertNotIn("cannot be asked", wide)
        self.assertEqual(self.home.call("logs", job)[0], 0)
        for _ in range(2):
            code, _, err = self.home.call("cancel", job, "--grace", "5s")
            self.assertEqual(code, 0, err)
        self.assertEqual(self.state(job), "JOB_CANCELLED")
        self.assertEqual(self.home.workers(), {})

    def test_devices_are_listed_with_their_health(self):
        self.start_head()
        folder = os.path.join(self.home.root, "run", "simulated")
        self.start_node("--devices", "sim:4,memory=80GiB,island=2,numa=2", "--resource", "licence=2",
                        "--data-dir", folder)
        table = self.home.call("devices")[1].splitlines()
        self.assertEqual(table[0].split(), ["NODE", "DEVICE", "KIND", "MODEL", "MEMORY", "ISLAND", "HEALTH", "USED",
                                            "HOLDERS", "WHY"])
        self.assertEqual(len(table), 5)
        self.assertEqual(table[4].split()[1:], ["3", "sim", "simulated", "80.0", "GiB", "1", "healthy", "0%", "-", "-"])
        self.assertIn("sim-3", self.home.call("devices", "-o", "wide")[1])
        with open(os.path.join(folder, "sim_devices"), "w", encoding="utf-8") as file:
            file.write("1 xid 13\n3 xid 79\n")  # a program's fault, and the device's
        self.wait_for("device 3 has failed", lambda: "Xid 79" in self.home.call("devices")[1], 20)
        node = json.loads(self.home.call("devices", "-o", "json")[1])["nodes"][0]
        self.assertEqual([d["health"]["state"] for d in node["devices"]], ["HEALTHY"] * 3 + ["FAILED"])
        self.assertEqual(node["device_use"][0]["index"], 3)
        self.assertEqual(node["device_use"][0]["quarantined"], "Xid 79: the GPU has fallen off the bus")
        listed = json.loads(self.home.call("nodes", "-o", "json")[1])["nodes"][0]
        self.assertEqual(listed["total"]["custom"], {"licence": 2.0})

    def test_workers_have_processors_of_their_own_where_the_node_isolates_them(self):
        self.start_head()
        self.start_node("--cpu-isolation", "set")
        self.submit("trainer.total_steps=100000", "roles.rollout.resources.cpu=1", "roles.actor.resources.cpu=1")
        self.wait_for("it trains", lambda: len(surviving_steps(self.run_folder)) >= 1, 40)
        allowed = {}
        for name, pid in self.home.workers().items():
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                line = next(line for line in status if line.startswith("Cpus_allowed_list:"))
            allowed[name.split("/")[0]] = line.split()[1]
        # They take turns, so they share one; the controller asks for a part of one and runs on all.
        self.assertRegex(allowed["rollout"], r"^\d+$")
        self.assertEqual(allowed["rollout"], allowed["actor"])
        if len(os.sched_getaffinity(0)) > 1:
            self.assertNotEqual(allowed["rollout"], allowed["controller"])

    def test_wrong_devices_and_resources_of_a_node_are_named(self):
        self.start_head()
        for option, value, said in (("--devices", "sim:4,memory=x", "'memory=x'"), ("--devices", "gpu", "'gpu'"),
                                    ("--devices", "rocm:x", "rocm"), ("--resource", "licence", "'licence'"),
                                    ("--resource", "licence=-1", "'licence'"), ("--cpu-isolation", "all", "all")):
            code, _, err = self.home.call("node", option, value)
            self.assertNotEqual(code, 0)
            self.assertIn(said, err)

    def test_logs_follow_a_job_to_its_end(self):
        self.start_head()
        self.start_node()
        with open("examples/even_digits/reward.py", encoding="utf-8") as file:
            speaking = file.read() + "\nimport sys\nprint('the reward speaks', file=sys.stderr, flush=True)\n"
        job_file = self.home.copy_example("even_digits")
        self.home.write("even_digits/reward.py", speaking)
        self.run_folder = os.path.join(self.home.work, "out")
        code, job, err = self.home.call("submit", job_file, f"trainer.output_dir={self.run_folder}",
                                        "trainer.total_steps=60", "trainer.save_freq=20")
        self.assertEqual(code, 0, err)
        job = job.strip()
        following = self.home.troupe("logs", job, "-f")
        first = following.stdout.readline()
        self.assertIsNone(following.poll(), "it ended before the job")
        self.assertRegex(first, r"^\d\d:\d\d:\d\d\.\d+ \w+/0 ")
        out, err = following.communicate(timeout=50)
        self.assertEqual(following.returncode, 0, err)
        self.assertIn(self.state(job), ("JOB_SUCCEEDED", "JOB_STOPPING"))
        self.assertIn("reward/0 ! the reward speaks", first + out)
        self.assertIn("step 60 is saved", first + out)
        times = [line.split()[0] for line in (first + out).splitlines()]
        self.assertEqual(times, sorted(times), "lines of several processes are merged by time")
        code, out, _ = self.home.call("logs", job, "reward/0")
        self.assertEqual({line.split()[1] for line in out.splitlines()}, {"reward/0"})
        code, _, err = self.home.call("logs", "nojob")
        self.assertEqual(code, 2)
        self.assertIn("nojob", err)

    def make_certificate(self, name):
        """A certificate of 127.0.0.1 that is its own authority: (certificate, key)."""
        paths = [os.path.join(self.home.root, f"{name}.{kind}") for kind in ("pem", "key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0],
                        "-keyout", paths[1]], check=True, capture_output=True)
        return paths

    @unittest.skipIf(shutil.which("openssl") is None, "no openssl to make certificates with")
    def test_everything_works_over_tls_and_others_are_refused(self):
        certificate, key = self.make_certificate("head")
        stranger, _ = self.make_certificate("stranger")
        self.secure = ("--ca-file", certificate)
        self.start_head(0, "--cert-file", certificate, "--key-file", key)
        self.start_node()
        self.submit("--follow", "trainer.total_steps=3")
        self.assertEqual(sorted(surviving_steps(self.run_folder)), [1, 2, 3])
        for options in ((), ("--ca-file", stranger)):
            code, _, err = self.home.call("jobs", *options)
            self.assertEqual(code, 3, err)
            self.assertIn("--ca-file", err)
        code, _, err = self.home.call("jobs", "--ca-file", "nowhere.pem")
        self.assertEqual(code, 2, err)
        self.assertIn("nowhere.pem", err)
        code, _, err = self.home.call("head", "--listen", "127.0.0.1:0", "--cert-file", certificate)
        self.assertEqual(code, 2, err)
        self.assertIn("key", err)

    def test_a_wrong_token_is_refused(self):
        self.start_head()
        other = self.home.write("token", "f" * 64)
        os.chmod(other, 0o600)
        code, _, err = self.home.call("jobs", "--token-file", other)
        self.assertEqual(code, 3, err)
        self.assertIn("token", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
