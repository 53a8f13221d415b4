# SPDX-License-Identifier: Apache-2.0
"""What each tier of tools/test runs: Bazel targets, configuration and tag filter."""

from typing import NamedTuple

# Not in tier `ci`. `gpu` needs a device, `manual` a person.
_SLOW = "-slow,-full,-curve,-fuzz,-slurm,-gpu,-manual"


class Suite(NamedTuple):
    """One `bazel test`."""

    name: str
    targets: tuple
    options: tuple


def ci_suites():
    return [
        # Everything is compiled here, benchmarks and slow tests too, so that nothing rots.
        Suite("optimised", ("//...",), (f"--test_tag_filters={_SLOW}", "--nobuild_tests_only")),
        Suite("asan", ("//runtime/...", "//scheduler/..."), ("--config=asan", f"--test_tag_filters={_SLOW},-noasan")),
    ]


def full_suites(slurm):
    suites = [
        Suite("slow", ("//...",), ("--test_tag_filters=slow,full,curve,-slurm,-gpu,-manual",)),
        Suite("tsan", ("//...",), ("--config=tsan", "--test_tag_filters=tsan,-gpu,-manual")),
        Suite(
            "ubsan",
            ("//kernels/...", "//runtime/...", "//scheduler/..."),
            ("--config=ubsan", f"--test_tag_filters={_SLOW},-noubsan"),
        ),
        Suite("fuzz", ("//...",), ("--config=asan", "--test_tag_filters=fuzz,-gpu,-manual")),
    ]
    if slurm:
        suites.append(Suite("slurm", ("//...",), ("--test_tag_filters=slurm,-gpu,-manual",)))
    return suites
