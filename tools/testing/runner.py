# SPDX-License-Identifier: Apache-2.0
"""Runs the steps and suites, and hands their outcomes to the report."""

import pathlib
import subprocess
import sys
import tempfile
import time

from testing import events

_BAZEL_BUILD_FAILED, _BAZEL_TESTS_FAILED, _BAZEL_NO_TESTS = 1, 3, 4


class Runner:
    """Runs commands in the repository's root; their output goes to the terminal."""

    def __init__(self, root):
        self._root = root

    def step(self, name, command):
        """Runs one command; whether it ended well."""
        self._say(name, " ".join(command))
        start = time.monotonic()
        done = subprocess.run([str(self._root / command[0]), *command[1:]], cwd=self._root)
        self._say(name, f"{'done' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s")
        return done.returncode == 0

    def run(self, suite, report):
        """Runs one suite with Bazel."""
        targets = [target for target in suite.targets if (self._root / target[2:].removesuffix("...")).is_dir()]
        if not targets:
            return
        with tempfile.TemporaryDirectory(prefix="troupe-test-") as folder:
            event_file, profile = pathlib.Path(folder, "events.json"), pathlib.Path(folder, "profile.gz")
            command = ["bazel", "test", "--keep_going", *suite.options, f"--build_event_json_file={event_file}"]
            command += [f"--profile={profile}", *self._progress(), "--", *targets]
            self._say(suite.name, " ".join(suite.options + suite.targets))
            start = time.monotonic()
            code = subprocess.run(command, cwd=self._root).returncode
            seconds = time.monotonic() - start
            found = events.outcomes(event_file) if event_file.exists() else []
            report.add_actions(events.actions(profile), suite.name)
        for label, outcome, test_seconds, cached in found:
            report.add(label, suite.name, outcome == "passed", outcome, test_seconds, cached)
        failed = sum(outcome != "passed" for _, outcome, _, _ in found)
        self._check_exit(suite, report, code, failed)
        self._say(suite.name, f"{len(found) - failed} passed, {failed} failed in {seconds:.0f} s")

    @staticmethod
    def _check_exit(suite, report, code, failed):
        """No failure of Bazel goes unnoticed, whatever it wrote of it."""
        explained = (_BAZEL_BUILD_FAILED, _BAZEL_TESTS_FAILED) if failed else (_BAZEL_NO_TESTS,)
        if code != 0 and code not in explained:
            report.add("bazel", suite.name, False, f"ended with status {code}")

    @staticmethod
    def _progress():
        return [] if sys.stdout.isatty() else ["--show_progress_rate_limit=60", "--noshow_loading_progress"]

    @staticmethod
    def _say(name, text):
        print(f"test: [{name}] {text}", flush=True)
