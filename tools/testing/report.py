# SPDX-License-Identifier: Apache-2.0
"""Collects the outcomes of all suites and prints what a person wants to know of them."""

from typing import NamedTuple

_SHOWN_MAX = 20


class Outcome(NamedTuple):
    label: str
    suite: str
    passed: bool
    word: str
    seconds: float
    cached: bool


class Report:
    """Outcomes in the order in which they came."""

    def __init__(self):
        self._outcomes = []
        self._actions = []

    def add(self, label, suite, passed, word="", seconds=0.0, cached=False):
        self._outcomes.append(Outcome(label, suite, passed, word or ("passed" if passed else "failed"), seconds, cached))

    def add_actions(self, actions, suite):
        self._actions += [(seconds, what, suite) for what, seconds in actions]

    @property
    def passed(self):
        return sum(outcome.passed for outcome in self._outcomes)

    @property
    def failed(self):
        return len(self._outcomes) - self.passed

    def print_failures(self):
        for outcome in self._outcomes:
            if not outcome.passed:
                print(f"test: [{outcome.suite}] {outcome.label}: {outcome.word}")

    def print_times(self):
        print("test: slowest tests (seconds; cached ones show their last run)")
        slowest = sorted(self._outcomes, key=lambda outcome: -outcome.seconds)[:_SHOWN_MAX]
        for outcome in slowest:
            print(f"  {outcome.seconds:7.1f}  {outcome.label} [{outcome.suite}]{' cached' if outcome.cached else ''}")
        totals = {}
        for seconds, what, suite in self._actions:
            key = (suite, what.split(" ", 1)[0])
            totals[key] = totals.get(key, 0.0) + seconds
        print("test: build and test actions (seconds of work, summed)")
        for (suite, kind), seconds in sorted(totals.items(), key=lambda item: -item[1])[:_SHOWN_MAX]:
            print(f"  {seconds:7.1f}  {kind} [{suite}]")
        print("test: slowest actions")
        for seconds, what, suite in sorted(self._actions, reverse=True)[:_SHOWN_MAX]:
            print(f"  {seconds:7.1f}  {what} [{suite}]")
