#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one of this folder's Python tests under Bazel: python_test.sh tests/system/x_test.py
exec python3 -B "$@"
