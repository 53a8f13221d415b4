# SPDX-License-Identifier: Apache-2.0
"""What a peer's processes cost, as /proc tells it."""
import glob
import os
import time

TICKS = os.sysconf("SC_CLK_TCK")


def tree(root):
    """{pid: its processor time in seconds} of root and all below it."""
    parents, seconds = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        pid = int(path.split("/")[2])
        parents[pid] = int(fields[1])
        seconds[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return {pid: seconds.get(pid, 0.0) for pid in found}


def memory_mib(pids):
    """Proportional set size of all of them."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1024


def processor_percent(root, seconds):
    """Of one processor, over that time: of the processes below `root` that live throughout, without it."""
    before = tree(root)
    time.sleep(seconds)
    after = tree(root)
    return 100 * sum(after[pid] - before[pid] for pid in after if pid in before and pid != root) / seconds


def folder_mb(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            if not os.path.islink(file):
                total += os.path.getsize(file)
    return total / 1e6
