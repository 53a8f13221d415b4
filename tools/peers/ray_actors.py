# SPDX-License-Identifier: Apache-2.0
"""Actors and objects of Ray (Python): the peer of `troupe bench actor` and `troupe bench objects`.

  V/bin/python tools/peers/ray_actors.py [NAME,...]
"""
import logging
import os
import shutil
import signal
import tempfile
import time

import figures
import processes

try:
    import numpy
    import ray
except ImportError as error:
    figures.cannot(f"{error}; tools/peers/setup ray installs it")

IN_FLIGHT = 1000
MIB = 1 << 20


@ray.remote(num_cpus=0)
class Peer:
    def add(self, n):
        return n

    def length(self, array):
        return array.nbytes

    def look(self, array):
        return int(array[::4096].sum())

    def pid(self):
        return os.getpid()

    def hang(self):
        time.sleep(600)

    def call(self, others, count):
        ray.get([other.add.remote(1) for other in others for _ in range(count)])

    def get_us(self, refs):
        return figures.elapsed_ms(lambda: ray.get(refs[0])) * 1e3


def start(folder):
    ray.init(_temp_dir=folder, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)


def calls():
    peer = Peer.remote()
    figures.measure("call_sync", "us", lambda: figures.each(0.3, lambda: ray.get(peer.add.remote(1))))

    def batch():
        ray.get([peer.add.remote(1) for _ in range(IN_FLIGHT)])
        return IN_FLIGHT

    figures.measure("call_pipelined", "calls/s", lambda: figures.rate(0.5, batch))
    if figures.wanted("call_2_to_2"):
        callers, called = [[Peer.remote() for _ in range(2)] for _ in range(2)]

        def pairs():
            ray.get([caller.call.remote(called, 500) for caller in callers])
            return 2 * 2 * 500

        figures.measure("call_2_to_2", "calls/s", lambda: figures.rate(0.5, pairs))
        for one in callers + called:
            ray.kill(one)
    array = numpy.ones(MIB, numpy.uint8)
    gigabytes = MIB / 1e9
    figures.measure("argument_1MiB_sync", "GB/s", lambda: gigabytes * figures.rate(
        0.5, lambda: ray.get(peer.length.remote(array)) // MIB))
    figures.measure("argument_1MiB_pipelined", "GB/s", lambda: gigabytes * figures.rate(
        0.5, lambda: len(ray.get([peer.length.remote(array) for _ in range(50)]))))
    ray.kill(peer)


def objects():
    large = numpy.ones(64 * MIB, numpy.uint8)

    def put_large():
        ref = ray.put(large)
        del ref
        return large.nbytes / 1e9

    figures.measure("put_64MiB", "GB/s", lambda: figures.rate(0.5, put_large))
    if figures.wanted("get_64MiB"):
        # In another process, of an object that it has not seen.
        peer = Peer.remote()
        figures.measure("get_64MiB", "us", lambda: ray.get(peer.get_us.remote([ray.put(large)])))
        ray.kill(peer)

    if figures.wanted("object"):
        peer, medium = Peer.remote(), numpy.ones(MIB, numpy.uint8)
        for name, array, in_flight in [("object_1MiB_sync", medium, 1), ("object_1MiB_pipelined", medium, 8),
                                       ("object_64MiB_sync", large, 1)]:
            def passed(array=array, in_flight=in_flight):
                ray.get([peer.look.remote(ray.put(array)) for _ in range(in_flight)])
                return in_flight * array.nbytes / 1e9

            figures.measure(name, "GB/s", lambda passed=passed: figures.rate(0.5, passed))
        holders = [Peer.remote() for _ in range(8)]

        def to_all():
            ref = ray.put(large)
            ray.get([holder.look.remote(ref) for holder in holders])

        figures.measure("object_64MiB_to_8", "ms", lambda: figures.elapsed_ms(to_all))
        for one in [peer, *holders]:
            ray.kill(one)

    def put_small():
        for _ in range(200):
            ray.put(0)
        return 200

    figures.measure("put_small", "puts/s", lambda: figures.rate(0.3, put_small))
    small = ray.put(0)

    def get_small():
        for _ in range(500):
            ray.get(small)
        return 500

    figures.measure("get_small", "gets/s", lambda: figures.rate(0.3, get_small))


def lives():
    def spawn(count):
        begin = time.perf_counter()
        actors = [Peer.remote() for _ in range(count)]
        ray.get([actor.add.remote(1) for actor in actors])
        took = (time.perf_counter() - begin) * 1e3
        for actor in actors:
            ray.kill(actor)
        time.sleep(0.5)
        return took

    figures.measure("process_spawn", "ms", lambda: spawn(1), 3)
    if figures.wanted("process_spawn_8"):
        figures.show("process_spawn_8", "ms", [spawn(8)])

    def kill_to_error():
        peer = Peer.remote()
        pid = ray.get(peer.pid.remote())
        hangs = peer.hang.remote()
        time.sleep(0.3)
        begin = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        try:
            ray.get(hangs)
        except ray.exceptions.RayActorError:
            return (time.perf_counter() - begin) * 1e3
        raise RuntimeError("the call to a process that was killed was answered")

    def kill_to_answer():
        peer = Peer.options(max_restarts=-1, max_task_retries=-1).remote()
        pid = ray.get(peer.pid.remote())
        time.sleep(0.3)
        begin = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        ray.get(peer.add.remote(1))
        took = (time.perf_counter() - begin) * 1e3
        ray.kill(peer)
        return took

    figures.measure("kill_to_error", "ms", kill_to_error, 3)
    figures.measure("kill_to_answer", "ms", kill_to_answer, 3)


def footprint():
    if figures.wanted("idle"):
        time.sleep(3)
        pids = [pid for pid in processes.tree(os.getpid()) if pid != os.getpid()]
        figures.show("idle_memory", "MiB", [processes.memory_mib(pids)])
        figures.show("idle_processes", "", [len(pids)])
        figures.show("idle_processor", "%", [processes.processor_percent(os.getpid(), 5)])
    if figures.wanted("program_size"):
        figures.show("program_size", "MB", [processes.folder_mb(os.path.dirname(ray.__file__))])


def main():
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        took = figures.elapsed_ms(lambda: start(folder))
        if figures.wanted("runtime_start"):
            figures.show("runtime_start", "ms", [took])
        footprint()
        calls()
        objects()
        lives()
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
