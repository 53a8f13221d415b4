# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs caf_actors.cc. CAF is Debian's, in the system or unpacked by tools/peers/setup caf.

  python3 tools/peers/caf_actors.py
"""
import os
import subprocess

import figures

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "troupe/peers")


def main():
    roots = [root for root in (os.path.join(PEERS, "caf/usr"), "/usr")
             if os.path.exists(os.path.join(root, "include/caf/all.hpp"))]
    if not roots:
        figures.cannot("CAF is not there; tools/peers/setup caf unpacks Debian's libcaf-dev")
    libraries = os.path.join(roots[0], "lib/x86_64-linux-gnu")
    program = os.path.join(PEERS, "caf_actors")
    os.makedirs(PEERS, exist_ok=True)
    compiled = subprocess.run(
        ["g++", "-std=c++17", "-O2", "-w", "-I", os.path.join(roots[0], "include"), os.path.join(HERE, "caf_actors.cc"),
         "-o", program, "-L", libraries, f"-Wl,-rpath,{libraries}", "-lcaf_core", "-pthread"],
        capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        figures.cannot("caf_actors.cc does not compile with this CAF (0.17 is expected):\n" + compiled.stderr[-3000:])
    raise SystemExit(subprocess.run([program], check=False).returncode)


if __name__ == "__main__":
    main()
