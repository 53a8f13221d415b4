# SPDX-License-Identifier: Apache-2.0
"""A head and two nodes in network namespaces of their own, so that nothing but the network joins them.

The tests' names say what they need: root and iproute2 for the namespaces, openssl for certificates.
"""

import json
import os
import shutil
import subprocess
import unittest

from harness import SystemTest, surviving_steps

HOSTS = {"head": "10.77.0.1", "left": "10.77.0.2", "right": "10.77.0.3"}


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")


def namespaces_work():
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("openssl") is None:
        return False
    name = f"troupe-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return made


class Network:
    """A bridge in a namespace of its own, with one namespace for each host."""

    def __init__(self):
        self.prefix = f"troupe-{os.getpid()}"
        call("ip", "netns", "add", self.name("switch"))
        call("ip", "-n", self.name("switch"), "link", "add", "bridge", "type", "bridge")
        call("ip", "-n", self.name("switch"), "link", "set", "bridge", "up")
        for host, address in HOSTS.items():
            call("ip", "netns", "add", self.name(host))
            call("ip", "-n", self.name(host), "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns",
                 self.name("switch"))
            call("ip", "-n", self.name("switch"), "link", "set", host, "master", "bridge", "up")
            call("ip", "-n", self.name(host), "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                call("ip", "-n", self.name(host), "link", "set", device, "up")

    def name(self, host):
        return f"{self.prefix}-{host}"

    def set_link(self, host, state):
        call("ip", "-n", self.name("switch"), "link", "set", host, state)

    def close(self):
        for host in [*HOSTS, "switch"]:
            subprocess.run(["ip", "netns", "delete", self.name(host)], capture_output=True, check=False)


class MachinesTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.network = Network()
        self.addCleanup(self.network.close)
        self.addCleanup(self.home.kill_everything)  # before the namespaces go

    def troupe_on(self, host, *arguments, **options):
        """`troupe ARGUMENTS` on that host: same files, other network, runtime folder of its own."""
        environment = dict(self.home.environment, XDG_RUNTIME_DIR=os.path.join(self.home.root, "run", host))
        os.makedirs(environment["XDG_RUNTIME_DIR"], mode=0o700, exist_ok=True)
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.network.name(host), os.path.join(self.home.bin, "troupe"), *arguments],
            cwd=self.home.work, text=True, env=environment, start_new_session=True, **options)
        self.home.children.append(process)
        return process

    def start(self, host, *arguments):
        with open(os.path.join(self.home.root, f"{host}.log"), "a", encoding="utf-8") as log:
            return self.troupe_on(host, *arguments, stdout=log, stderr=log)

    def ask(self, *arguments, timeout=50):
        process = self.troupe_on("head", *arguments, *self.security, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def make_certificates(self):
        """One authority, one certificate a host; the security options of each host."""
        folder = os.path.join(self.home.root, "tls")
        os.makedirs(folder, mode=0o700)
        path = lambda name: os.path.join(folder, name)  # noqa: E731
        call("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority",
             "-keyout", path("ca.key"), "-out", path("ca.pem"))
        for host, address in HOSTS.items():
            call("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}", "-keyout",
                 path(f"{host}.key"), "-out", path(f"{host}.csr"))
            with open(path(f"{host}.ext"), "w", encoding="utf-8") as extension:
                extension.write(f"subjectAltName=IP:{address}\n")
            call("openssl", "x509", "-req", "-days", "2", "-in", path(f"{host}.csr"), "-CA", path("ca.pem"), "-CAkey",
                 path("ca.key"), "-CAcreateserial", "-extfile", path(f"{host}.ext"), "-out", path(f"{host}.pem"))
        return {host: ["--ca-file", path("ca.pem"), "--cert-file", path(f"{host}.pem"), "--key-file",
                       path(f"{host}.key")] for host in HOSTS}

    def start_cluster(self, security):
        self.security = ["--head", "10.77.0.1:7400", *security["head"]]
        self.start("head", "head", "--listen", "10.77.0.1:7400", *security["head"])
        self.wait_for("the head answers", lambda: self.ask("nodes")[0] == 0)
        for host in ("left", "right"):
            self.start(host, "node", "--head", "10.77.0.1:7400", "--cpus", "1", "--node-id", host, *security[host])
        self.wait_for("both nodes are ready", lambda: self.ask("nodes", "-o", "json")[1].count('"ready"') == 2)

    def submit(self, *overrides):
        """even_digits with rollout and actor that do not fit on one node together."""
        self.run_folder = os.path.join(self.home.work, "out")
        code, out, err = self.ask("submit", self.home.copy_example("even_digits"), "placement=disaggregated",
                                  "roles.reward.resources.cpu=0", f"trainer.output_dir={self.run_folder}", *overrides)
        self.assertEqual(code, 0, err)
        return out.strip()

    def state(self, job):
        jobs = json.loads(self.ask("jobs", "-o", "json")[1] or "{}").get("jobs", [])
        return next((j["state"] for j in jobs if j["job_id"] == job), None)

    def nodes_of(self, job):
        actors = json.loads(self.ask("actors", "--job", job, "-o", "json")[1])["actors"]
        return {actor["address"].get("node_id") for actor in actors}

    def finish(self, job, steps):
        ended = ("JOB_SUCCEEDED", "JOB_FAILED", "JOB_CANCELLED")
        self.wait_for("the job is done", lambda: self.state(job) in ended, 50)
        self.assertEqual(self.state(job), "JOB_SUCCEEDED", self.ask("explain", f"job/{job}"))
        self.assertEqual(sorted(surviving_steps(self.run_folder)), list(range(1, steps + 1)))

    @unittest.skipUnless(namespaces_work(), "needs root, iproute2 and openssl")
    def test_a_job_spans_two_machines_over_tls_where_root_makes_namespaces(self):
        self.start_cluster(self.make_certificates())
        job = self.submit("trainer.total_steps=6", "trainer.save_freq=3")
        self.wait_for("it trains", lambda: surviving_steps(self.run_folder), 40)
        self.assertEqual(self.nodes_of(job) & {"left", "right"}, {"left", "right"})
        self.finish(job, 6)

    @unittest.skipUnless(namespaces_work(), "needs root, iproute2 and openssl")
    def test_a_machine_that_vanishes_is_replaced_by_its_return_where_root_makes_namespaces(self):
        insecure = {host: ["--insecure"] for host in HOSTS}
        self.start_cluster(insecure)
        job = self.submit("trainer.total_steps=40", "trainer.save_freq=5")
        self.wait_for("some steps", lambda: len(surviving_steps(self.run_folder)) >= 3, 40)
        self.network.set_link("right", "down")
        self.wait_for("the head takes it for lost",
                      lambda: self.ask("nodes", "-o", "json")[1].count('"ready"') == 1, 40)
        self.network.set_link("right", "up")
        self.finish(job, 40)

    @unittest.skipUnless(namespaces_work(), "needs root, iproute2 and openssl")
    def test_nothing_listens_off_loopback_without_tls_where_root_makes_namespaces(self):
        process = self.troupe_on("head", "head", "--listen", "10.77.0.1:7400", stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 2, err)
        self.assertIn("--insecure", err)
        self.security = ["--head", "10.77.0.1:7400", "--insecure"]
        self.start("head", "head", "--listen", "10.77.0.1:7400", "--insecure")
        self.wait_for("the head answers", lambda: self.ask("nodes")[0] == 0)
        process = self.troupe_on("left", "node", "--head", "10.77.0.1:7400", stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 2, err)
        self.assertIn("--insecure", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
