# SPDX-License-Identifier: Apache-2.0
"""Tests of how tools/test counts: from Bazel's event file to the report."""

import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from testing import events  # noqa: E402
from testing.report import Report  # noqa: E402
from testing.runner import Runner  # noqa: E402
from testing.tiers import Suite  # noqa: E402


def summary(label, status, cached=0):
    body = {"overallStatus": status, "totalRunDurationMillis": "1500", "totalNumCached": cached}
    return {"id": {"testSummary": {"label": label}}, "testSummary": body}


def completed(label, success):
    return {"id": {"targetCompleted": {"label": label}}, "completed": {"success": True} if success else {}}


def aborted(label, reason):
    return {"id": {"targetCompleted": {"label": label}}, "aborted": {"reason": reason}}


class EventsTest(unittest.TestCase):
    def outcomes(self, *lines):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
            file.flush()
            return {label: outcome for label, outcome, _, _ in events.outcomes(file.name)}

    def test_each_status_of_a_test_counts_as_it_should(self):
        found = self.outcomes(
            summary("//a:good", "PASSED"), summary("//a:bad", "FAILED"), summary("//a:late", "TIMEOUT"),
            summary("//a:unbuilt", "NO_STATUS"), summary("//a:flaky", "FLAKY"),
        )  # fmt: skip
        expected = {"//a:good": "passed", "//a:bad": "failed", "//a:late": "timeout", "//a:unbuilt": "no status"}
        self.assertEqual(found, {**expected, "//a:flaky": "passed"})

    def test_a_target_that_does_not_build_is_a_failure_and_a_built_library_is_nothing(self):
        found = self.outcomes(completed("//a:library", True), completed("//a:broken", False))
        self.assertEqual(found, {"//a:broken": "did not build"})

    def test_a_target_that_cannot_be_analysed_is_a_failure_and_one_left_out_is_not(self):
        found = self.outcomes(aborted("//a:x", "ANALYSIS_FAILURE"), aborted("//a:y", "SKIPPED"))
        self.assertEqual(found, {"//a:x": "did not build"})

    def test_a_file_that_was_cut_short_gives_what_it_holds(self):
        self.assertEqual(self.outcomes(summary("//a:good", "PASSED"), '{"id": {"testSumm'), {"//a:good": "passed"})

    def test_times_and_cache_hits_are_read(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(summary("//a:good", "PASSED", cached=1)))
            file.flush()
            self.assertEqual(events.outcomes(file.name), [("//a:good", "passed", 1.5, True)])


class ReportTest(unittest.TestCase):
    def test_one_target_counts_once_in_each_configuration(self):
        report = Report()
        report.add("//a:t", "optimised", True)
        report.add("//a:t", "asan", False, "timeout")
        self.assertEqual((report.passed, report.failed), (1, 1))

    def test_an_exit_status_that_no_target_explains_is_a_failure(self):
        suite = Suite("optimised", ("//...",), ())
        for code, failed_targets, expected in ((0, 0, 0), (4, 0, 0), (3, 2, 0), (1, 1, 0), (1, 0, 1), (37, 0, 1), (37, 1, 1), (-9, 0, 1)):
            with self.subTest(code=code, failed_targets=failed_targets):
                report = Report()
                Runner._check_exit(suite, report, code, failed_targets)
                self.assertEqual(report.failed, expected)


if __name__ == "__main__":
    unittest.main()
