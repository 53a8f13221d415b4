# SPDX-License-Identifier: Apache-2.0
"""Reads what Bazel wrote of a run: the build event file (outcomes) and the profile (times)."""

import gzip
import json

_PASSED = ("PASSED", "FLAKY")
_NOT_A_FAILURE = ("SKIPPED", "NO_BUILD", "NO_ANALYZE")


def outcomes(path):
    """(label, "passed" or a failure in a word, seconds, cached) of each test, and of each target that did not build."""
    tests, broken = {}, {}
    for event in _events(path):
        kind, identity = next(iter(event["id"].items()))
        label = identity.get("label")
        if kind == "testSummary":
            tests[label] = _test(event["testSummary"])
        elif kind == "targetCompleted" and not event.get("completed", {}).get("success") and "completed" in event:
            broken[label] = ("did not build", 0.0, False)
        elif "aborted" in event and label and event["aborted"].get("reason") not in _NOT_A_FAILURE:
            broken[label] = ("did not build", 0.0, False)
    tests.update(broken)
    return [(label, *outcome) for label, outcome in sorted(tests.items())]


def _test(summary):
    status = summary.get("overallStatus", "NO_STATUS")
    seconds = int(summary.get("totalRunDurationMillis", 0)) / 1000
    cached = summary.get("totalNumCached", 0) > 0
    return ("passed" if status in _PASSED else status.lower().replace("_", " "), seconds, cached)


def _events(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return  # Cut short: Bazel was killed.


def actions(path):
    """(what, seconds) of each action that ran, such as ("Compiling runtime/base/status.cc", 2.5)."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    except (OSError, EOFError, ValueError):
        return []
    return [
        (event["name"], event["dur"] / 1e6)
        for event in events
        if event.get("cat") == "action processing" and event.get("dur", 0) > 0
    ]
