# SPDX-License-Identifier: Apache-2.0
"""Actors of Monarch: the peer of `troupe bench actor`.

  V/bin/python tools/peers/monarch_actors.py [NAME,...]
"""
import os
import signal
import time

import figures
import processes

BEGIN = time.perf_counter()
try:
    import monarch
    import monarch.actor
    from monarch.actor import Actor, endpoint, this_host
except ImportError as error:
    figures.cannot(f"{error}; tools/peers/setup monarch installs it")

IN_FLIGHT = 1000
MIB = 1 << 20
monarch.actor.unhandled_fault_hook = lambda fault: None  # A killed process is what is measured.


class Peer(Actor):
    @endpoint
    def add(self, n):
        return n

    @endpoint
    def length(self, data):
        return len(data)

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def hang(self):
        time.sleep(600)


def spawn(count, name):
    """Processes with an actor each, which have answered."""
    mesh = this_host().spawn_procs(per_host={"procs": count})
    peer = mesh.spawn(name, Peer)
    peer.add.call(1).get()
    return mesh, peer


def calls(peer):
    figures.measure("call_sync", "us", lambda: figures.each(0.3, lambda: peer.add.call_one(1).get()))

    def batch():
        for future in [peer.add.call_one(1) for _ in range(IN_FLIGHT)]:
            future.get()
        return IN_FLIGHT

    figures.measure("call_pipelined", "calls/s", lambda: figures.rate(0.5, batch))

    def sends():
        for _ in range(IN_FLIGHT - 1):
            peer.add.broadcast(1)
        peer.add.call_one(1).get()
        return IN_FLIGHT

    figures.measure("send", "msgs/s", lambda: figures.rate(0.5, sends))
    data = b"x" * MIB
    gigabytes = MIB / 1e9
    figures.measure("argument_1MiB_sync", "GB/s", lambda: gigabytes * figures.rate(
        0.5, lambda: peer.length.call_one(data).get() // MIB))

    def large():
        futures = [peer.length.call_one(data) for _ in range(20)]
        return sum(future.get() // MIB for future in futures)

    figures.measure("argument_1MiB_pipelined", "GB/s", lambda: gigabytes * figures.rate(0.5, large))


def lives():
    rounds = iter(range(1000))

    def timed_spawn(count):
        begin = time.perf_counter()
        mesh, _ = spawn(count, f"spawned{next(rounds)}")
        took = (time.perf_counter() - begin) * 1e3
        mesh.stop().get()
        return took

    figures.measure("process_spawn", "ms", lambda: timed_spawn(1), 3)
    figures.measure("process_spawn_8", "ms", lambda: timed_spawn(8), 2)

    def kill_to_error():
        _, peer = spawn(1, f"killed{next(rounds)}")
        pid = peer.pid.call_one().get()
        hangs = peer.hang.call_one()
        time.sleep(0.5)
        begin = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        try:
            hangs.get(timeout=60)
        except Exception:  # pylint: disable=broad-except
            return (time.perf_counter() - begin) * 1e3
        raise RuntimeError("the call to a process that was killed was answered")

    if figures.wanted("kill_to_error"):
        figures.show("kill_to_error", "ms", [kill_to_error() for _ in range(2)])


def main():
    mesh, peer = spawn(1, "peer")
    if figures.wanted("runtime_start"):
        figures.show("runtime_start", "ms", [(time.perf_counter() - BEGIN) * 1e3])
    if figures.wanted("program_size"):
        figures.show("program_size", "MB", [processes.folder_mb(os.path.dirname(monarch.__file__))])
    calls(peer)
    mesh.stop().get()
    lives()


if __name__ == "__main__":
    main()
    os._exit(0)  # Killed processes leave threads that wait for them.
