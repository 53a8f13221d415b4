#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
exec python3 -B tools/testing/testing_test.py
