# SPDX-License-Identifier: Apache-2.0
"""Checks of one source file that need no compiler: licence line, test names, forbidden words, lengths."""

import re

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

_TEST_CASE = re.compile(r'\b(?:TEST_CASE|SCENARIO|TEMPLATE_TEST_CASE)\(\s*"((?:[^"\\]|\\.)*)"\s*(?:"(?:[^"\\]|\\.)*"\s*)*(,\s*"([^"]*)")?')

# (pattern, why not)
_FORBIDDEN = (
    (r"^\s*#\s*define\s+D?(CHECK|LOG)\b", "Catch2 and LibTorch define it; use TROUPE_CHECK"),
    (
        r"\b(WaitWithTimeout|WaitWithDeadline|AwaitWithTimeout|AwaitWithDeadline|WaitForNotificationWith(Timeout|Deadline))\b",
        "this Abseil's timed waits follow the wall clock; use runtime/base/mutex.h",
    ),
)

# In headers only: a .cc file converts where it calls Abseil.
_FORBIDDEN_IN_HEADERS = ((r"\babsl::(string_view|optional|variant|any)\b", "it is not the standard type in this Abseil; use std::"),)


def problems(path, text):
    """What fails the lint, as (line number, sentence)."""
    lines = text.splitlines()
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        yield 1, "the file does not start with 'SPDX-License-Identifier: Apache-2.0'"
    if path.endswith("BUILD.bazel") and not path.startswith("third_party/"):
        for number, line in enumerate(lines, 1):
            if re.match(r"\s*(native\.)?(cc_library|cc_binary|cc_test|genrule)\(", line):
                yield number, "use the rules of tools/bazel/rules.bzl, which hold the project's options"
    if not path.endswith((".h", ".cc", ".cu", ".cuh")):
        return
    if path.endswith((".h", ".cuh")) and "#pragma once" not in text:
        yield 1, "the header has no #pragma once"
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for pattern, why in _FORBIDDEN + (_FORBIDDEN_IN_HEADERS if path.endswith(".h") else ()):
            if re.search(pattern, code):
                yield number, why
    if path.endswith("_test.cc"):
        yield from _bad_test_names(text)


def _bad_test_names(text):
    for match in _TEST_CASE.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        name, tags = match.group(1), match.group(3)
        if not re.match(r"[A-Za-z0-9_][^:]*: \S.*\S", name):
            yield number, f'test "{name}" is not named "Thing: a sentence"'
        if not tags or not re.match(r"(\[[^\]]+\])+$", tags):
            yield number, f'test "{name}" has no tag'


def long_parts(path, text):
    """What is only reported: (lines, what) of a long file and of each long function."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield len(lines), path
    if path.endswith((".h", ".cc", ".cu", ".cuh")):
        yield from _long_functions(path, lines)


def _long_functions(path, lines):
    """Relies on the formatting: a body ends with a brace at the column where its first line starts."""
    open_at = {}
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        stripped = line.strip()
        if stripped.startswith("}") and indent in open_at:
            first, head = open_at.pop(indent)
            if number - first > FUNCTION_LINES_MAX and _is_function(head):
                yield number - first + 1, f"{path}:{first} {_name(head)}"
        if stripped.endswith("{"):
            head, first = stripped, number
            while first > 1 and not _starts_statement(lines[first - 2]) and number - first < 12:
                first -= 1
                head = lines[first - 1].strip() + " " + head
            start = len(lines[first - 1]) - len(lines[first - 1].lstrip())
            open_at[min(indent, start)] = (first, head)


def _starts_statement(previous):
    previous = previous.strip()
    return not previous or previous.endswith((";", "{", "}", ":")) or previous.startswith(("//", "#"))


def _is_function(head):
    return "(" in head and not re.match(r"(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|case|return|TEST_CASE|SECTION)\b", head)


def _name(head):
    match = re.search(r"([~\w:<>]+)\s*\(", head)
    return match.group(1) if match else head[:40]
