# SPDX-License-Identifier: Apache-2.0
"""Runs `troupe bench` and the peers' programs in turn: each figure beside the peer's, as how many times ours is better."""
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TROUPE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "bin/troupe")
KINDS = ("actor", "objects")
# Plain gRPC is a part of our own benchmark: its works have this before their names.
BARE = "bare_grpc_"
TARGETS = {"caf": 1.2}


def json_lines(text):
    return {line["name"]: line for line in map(json.loads, filter(lambda line: line.startswith('{"'), text.splitlines()))}


def run_program(command):
    """Its figures by name; None (and why, on stderr) when it cannot be measured here."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode == 0:
        return json_lines(result.stdout)
    print(f"compare: {' '.join(command)} ended with {result.returncode}: {result.stderr.strip()[-2000:]}", file=sys.stderr)
    return None


def run_troupe(names, seconds):
    figures = {}
    for kind in KINDS:
        command = [TROUPE, "bench", kind, "--json", "--seconds", str(seconds)] + (["--only", names] if names else [])
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        figures.update(json_lines(result.stdout))
        if "not clean" in result.stderr:
            print(f"compare: {result.stderr.strip()}", file=sys.stderr)
    return figures


def run_peer(peer, options):
    if peer == "grpc":
        figures = run_troupe(BARE, options.seconds)
        # The same work goes through the runtime's gRPC transport under grpc_*.
        return {name.replace(BARE, "grpc_"): figure for name, figure in figures.items()} or None
    python = sys.executable if peer == "caf" else options.python
    if not os.path.exists(python):
        print(f"compare: {python} is not there; tools/peers/setup {peer.split('_')[0]} makes it", file=sys.stderr)
        return None
    only = [options.only] if options.only else []
    return run_program([python, "-B", os.path.join(HERE, f"{peer}_actors.py")] + only)


def times_better(ours, theirs):
    if ours["median"] == 0 or theirs["median"] == 0:
        return None
    ratio = ours["median"] / theirs["median"]
    return ratio if ours["more_is_better"] else 1 / ratio


def run(options):
    if not os.path.exists(TROUPE):
        sys.exit(f"compare: {TROUPE} is not there; tools/build makes it")
    rounds = {}  # {(peer, name): [(ours, theirs)]}
    missing = set()
    for _ in range(options.rounds):
        for peer in options.peers.split(","):
            theirs = None if peer in missing else run_peer(peer, options)
            if theirs is None:
                missing.add(peer)
                continue
            ours = run_troupe(",".join(theirs), options.seconds)
            for name in theirs:
                if name in ours:
                    rounds.setdefault((peer, name), []).append((ours[name], theirs[name]))
    show(rounds, options)
    return 1 if missing else 0


def show(rounds, options):
    if not options.json:
        print("| work | unit | Troupe | peer | | times better (min to max) |\n|---|---|---|---|---|---|")
    for (peer, name), pairs in rounds.items():
        ratios = [ratio for ratio in (times_better(*pair) for pair in pairs) if ratio is not None]
        ours, theirs = (statistics.median(pair[side]["median"] for pair in pairs) for side in (0, 1))
        line = {"peer": peer, "name": name, "unit": pairs[0][0]["unit"], "troupe": ours, "theirs": theirs,
                "times_better": statistics.median(ratios) if ratios else None, "min": min(ratios, default=None),
                "max": max(ratios, default=None), "rounds": len(pairs),
                "clean": all(pair[0]["clean"] for pair in pairs)}
        if peer in TARGETS:
            line["target"] = TARGETS[peer]
        if options.json:
            print(json.dumps(line), flush=True)
        else:
            times = f"{line['times_better']:.3g} ({line['min']:.3g} to {line['max']:.3g})" if ratios else ""
            target = f", target {TARGETS[peer]}" if peer in TARGETS else ""
            print(f"| {name} | {line['unit']} | {ours:.4g} | {theirs:.4g} | {peer} | {times}{target} |", flush=True)
