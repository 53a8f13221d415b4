# SPDX-License-Identifier: Apache-2.0
"""Runs Troupe and its peers in turn on this machine and prints both sides' figures and their ratios.

  tools/peers/compare.py actors [--peers ray,ray_cpp,monarch,caf,grpc] [--rounds 3] [--seconds 1] [--only NAME,...]
  tools/peers/compare.py addition --model HF_FOLDER [--rounds 3] [--steps 6] [--prompts 4]
  tools/peers/compare.py even_digits [--rounds 3] [--steps 20]

tools/peers/setup fetches the peers. bin/troupe is what tools/build makes.
"""
import argparse
import os
import sys

import compare_actors
import compare_jobs

PYTHON = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "troupe/peers/bin/python")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["actors", "addition", "even_digits"])
    parser.add_argument("--python", default=PYTHON, help="the peers' Python (of tools/peers/setup)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="ray,ray_cpp,monarch,caf,grpc", help="actors: whom to measure")
    parser.add_argument("--seconds", type=float, default=1.0, help="actors: of each of our figures")
    parser.add_argument("--only", default="", help="actors: work whose name begins with one of these")
    parser.add_argument("--json", action="store_true", help="actors: one object a line instead of a table")
    parser.add_argument("--model", help="Hugging Face folder of the model (addition)")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--beta", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "addition" and not options.model:
        parser.error("addition needs --model, a Hugging Face folder (troupe export writes one)")
    sys.exit(compare_actors.run(options) if options.what == "actors" else compare_jobs.run(options))


if __name__ == "__main__":
    main()
