#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
exec python3 -B tools/linting/lint_test.py
