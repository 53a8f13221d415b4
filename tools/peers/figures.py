# SPDX-License-Identifier: Apache-2.0
"""Figures of a peer, printed as `troupe bench --json` prints ours: one object a line, the same names for the same work."""
import json
import statistics
import sys
import time

REPEATS = 5


def only():
    """Names (their beginnings) that were asked for on the command line; empty: all."""
    return [name for argument in sys.argv[1:] for name in argument.split(",")]


def wanted(name):
    return not only() or any(name.startswith(prefix) for prefix in only())


def show(name, unit, samples):
    print(json.dumps({"name": name, "unit": unit, "median": statistics.median(samples), "min": min(samples),
                      "max": max(samples), "n": len(samples)}), flush=True)


def measure(name, unit, sample, repeats=REPEATS):
    """sample() gives one figure; the first is a warm-up."""
    if wanted(name):
        sample()
        show(name, unit, [sample() for _ in range(repeats)])


def each(seconds, once, scale=1e6):
    """The mean time of once(), in microseconds."""
    begin = time.perf_counter()
    count = 0
    while True:
        once()
        count += 1
        took = time.perf_counter() - begin
        if took >= seconds:
            return took / count * scale


def rate(seconds, batch):
    """What batch() counts, a second."""
    begin = time.perf_counter()
    count = 0
    while True:
        count += batch()
        took = time.perf_counter() - begin
        if took >= seconds:
            return count / took


def elapsed_ms(run):
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


def cannot(why):
    """This peer cannot be measured here."""
    print(f"{sys.argv[0]}: {why}", file=sys.stderr)
    sys.exit(3)
