# SPDX-License-Identifier: Apache-2.0
"""Runs the real programs as a user would, finds their processes, kills them, and checks that nothing stays behind."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAMS = ("tools/cli/troupe", "tools/keeper/troupe_keeper", "actors/worker/troupe_worker")


class Home:
    """A user's machine in a folder: programs, home, runtime folder and a place to stand."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="troupe-", dir="/tmp")
        self.bin = os.path.join(self.root, "bin")
        self.work = os.path.join(self.root, "work")
        for folder in (self.bin, self.work, os.path.join(self.root, "home"), os.path.join(self.root, "run")):
            os.makedirs(folder, mode=0o700)
        for program in PROGRAMS:
            shutil.copy(program, os.path.join(self.bin, os.path.basename(program)))
        # The example model is looked for in the real home; everything else stays in this folder.
        self.model = os.path.expanduser("~/.cache/troupe/SmolLM2-135M-Instruct.gguf")
        self.environment = {"PATH": os.environ["PATH"], "HOME": os.path.join(self.root, "home"), "LANG": "C.UTF-8",
                            "XDG_RUNTIME_DIR": os.path.join(self.root, "run")}
        self.children = []

    def troupe(self, *arguments, **options):
        """Starts `troupe ARGUMENTS`; the process with its output as text pipes."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([os.path.join(self.bin, "troupe"), *map(str, arguments)], cwd=self.work, text=True,
                                   env=self.environment, start_new_session=True, **options)
        self.children.append(process)
        return process

    def call(self, *arguments, timeout=50):
        """Runs `troupe ARGUMENTS` to its end: (exit status, stdout, stderr)."""
        process = self.troupe(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill_everything()
            out, err = process.communicate()
            raise AssertionError(f"troupe {arguments} did not end in {timeout} s\n{out}\n{err}") from None
        return process.returncode, out, err

    def write(self, name, text):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def copy_example(self, name):
        """The example's folder in the work folder; the path of its job file."""
        target = os.path.join(self.work, name)
        shutil.copytree(os.path.join("examples", name), target, dirs_exist_ok=True)
        return os.path.join(target, "job.yaml")

    def processes(self):
        """{pid: environment} of every live process of this home."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    entries = file.read().split(b"\0")
                with open(path.replace("environ", "cmdline"), "rb") as file:
                    command = file.read().decode(errors="replace")
                with open(path.replace("environ", "stat"), encoding="utf-8") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            variables = dict(entry.decode(errors="replace").split("=", 1) for entry in entries if b"=" in entry)
            # A keeper has no environment; its command line names the runtime folder.
            mine = variables.get("HOME") == self.environment["HOME"] or self.root in command
            if mine and state != "Z":
                found[int(path.split("/")[2])] = variables
        return found

    def workers(self):
        """{"role/replica": pid} of the live workers."""
        found = {}
        for pid, variables in self.processes().items():
            life = variables.get("TROUPE_WORKER", "")
            try:
                name = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if life and name.endswith("troupe_worker"):
                found["/".join(life.split("#")[0].split("/")[-2:])] = pid
        return found

    def kill_everything(self):
        for _ in range(50):
            pids = list(self.processes())
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not pids:
                return
            time.sleep(0.05)

    def close(self):
        self.kill_everything()
        for child in self.children:
            child.wait(timeout=10)
            for pipe in (child.stdout, child.stderr):
                if pipe:
                    pipe.close()
        shutil.rmtree(self.root, ignore_errors=True)


class SystemTest(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def wait_for(self, what, condition, seconds=30):
        """The first true value of condition()."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what}; processes: {self.home.processes().keys()}")

    def assert_nothing_left(self):
        """No process, no socket and no runtime folder of this home remains."""
        self.wait_for("every process is gone", lambda: not self.home.processes(), 15)
        left = [path for path in glob.glob(os.path.join(self.home.root, "run", "**"), recursive=True)
                if not os.path.isdir(path)]
        self.assertEqual(left, [], "files left in the runtime folder")


def read_json_lines(path):
    """The complete lines of a file that may still grow."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line.strip()]


def surviving_steps(run):
    """{step: metrics} of a run's metrics.jsonl: of each step the line of the last attempt counts."""
    steps = {}
    for line in read_json_lines(os.path.join(run, "metrics.jsonl")):
        if "critic/score/mean" in line:
            steps[int(line["training/global_step"])] = line
    return steps
