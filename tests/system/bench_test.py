# SPDX-License-Identifier: Apache-2.0
"""`troupe bench`: every work of its table is measured, with its limit and target, and nothing is left behind."""

import json
import os
import unittest

from harness import SystemTest

# Work: (unit, has a limit, has a target).
ACTOR = {
    "program_size": ("MB", False, True),
    "idle_memory": ("MiB", False, True),
    "idle_processes": ("", False, True),
    "idle_processor": ("%", False, True),
    "runtime_start": ("ms", True, True),
    "process_spawn": ("ms", True, True),
    "process_spawn_8": ("ms", True, False),
    "kill_to_error": ("ms", True, True),
    "kill_to_answer": ("ms", True, True),
    "run_to_first_line": ("ms", True, True),
    "run_to_done": ("ms", True, True),
    "gang_1_client": ("gangs/s", True, True),
    "gang_64_clients": ("gangs/s", True, True),
    "local_call_sync": ("us", True, True),
    "local_call_pipelined": ("calls/s", False, False),
    "local_send": ("msgs/s", False, False),
    "local_spawn": ("actors/s", False, False),
    "actor_memory": ("B", False, False),
    "call_sync": ("us", True, True),
    "call_pipelined": ("calls/s", True, True),
    "send": ("msgs/s", True, False),
    "call_2_to_2": ("calls/s", True, True),
    "string_1KiB_sync": ("GB/s", True, False),
    "string_1KiB_pipelined": ("GB/s", True, False),
    "string_1MiB_sync": ("GB/s", True, False),
    "string_1MiB_pipelined": ("GB/s", True, False),
    "argument_1KiB_sync": ("GB/s", True, False),
    "argument_1KiB_pipelined": ("GB/s", True, False),
    "argument_1MiB_sync": ("GB/s", True, True),
    "argument_1MiB_pipelined": ("GB/s", True, True),
    "grpc_call_sync": ("us", True, True),
    "grpc_call_pipelined": ("calls/s", True, True),
    "grpc_argument_1MiB_pipelined": ("GB/s", True, True),
    "call_sync_spinning": ("us", True, True),
    "bare_grpc_call_sync": ("us", True, False),
    "bare_grpc_stream_sync": ("us", True, False),
    "bare_grpc_call_pipelined": ("calls/s", False, False),
    "bare_grpc_argument_1MiB_pipelined": ("GB/s", True, False),
}

SCHEDULER = {
    "placements_100_nodes": ("/s", False, True),
    "placements_1000_nodes": ("/s", True, True),
    "placements_10000_nodes": ("/s", True, True),
    "placement_slowest_in_100": ("ms", False, True),
    "lives_10000_nodes": ("/s", False, False),
    "wait_100_nodes": ("us", False, False),
    "wait_1000_nodes": ("us", False, False),
    "wait_10000_nodes": ("us", False, False),
    "gang_of_1000_replaced": ("ms", False, True),
    "scheduler_memory": ("MiB", False, True),
}

OBJECTS = {
    "put_64MiB": ("GB/s", True, True),
    "put_1MiB": ("GB/s", True, False),
    "get_64MiB": ("us", True, True),
    "put_small": ("puts/s", False, True),
    "get_small": ("gets/s", False, True),
    "object_1MiB_sync": ("GB/s", True, True),
    "object_1MiB_pipelined": ("GB/s", True, True),
    "object_64MiB_sync": ("GB/s", True, False),
    "object_64MiB_to_8": ("ms", True, False),
}


class BenchTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.home.root, "tmp")
        os.makedirs(self.folder)
        self.home.environment["TMPDIR"] = self.folder

    def bench(self, *arguments):
        code, out, err = self.home.call("bench", *arguments, timeout=55)
        self.assertEqual(code, 0, err)
        self.assert_nothing_left()
        self.assertEqual(os.listdir(self.folder), [])
        return out

    def check(self, kind, expected, *arguments):
        lines = [json.loads(line) for line in self.bench(kind, "--quick", "--json", *arguments).splitlines()]
        self.assertEqual(sorted(line["name"] for line in lines), sorted(expected))
        for line in lines:
            with self.subTest(line["name"]):
                unit, limit, target = expected[line["name"]]
                self.assertEqual(line["unit"], unit)
                self.assertGreater(line["n"], 0)
                self.assertLessEqual(line["min"], line["median"])
                self.assertLessEqual(line["median"], line["max"])
                self.assertIsInstance(line["clean"], bool)
                self.assertEqual("reached" in line, target)
                self.assertEqual(bool(line["limit_name"]), limit)
                if unit != "%":
                    self.assertGreater(line["min"], 0)
                if limit:
                    self.assertGreater(line["limit"], 0)
                    self.assertGreater(line["ratio"], 0)

    def test_every_work_of_actors_is_measured(self):
        self.check("actor", ACTOR, "--payload", "1KiB,1MiB")

    def test_every_work_of_objects_is_measured(self):
        self.check("objects", OBJECTS)

    def test_every_work_of_the_scheduler_is_measured(self):
        self.check("scheduler", SCHEDULER, "--simulate")

    def test_a_table_shows_what_was_asked_for(self):
        lines = self.bench("actor", "--quick", "--only", "local_call,program", "--repeats", "3").splitlines()
        self.assertEqual([line.split()[0] for line in lines[1:]],
                         ["work", "program_size", "local_call_sync", "local_call_pipelined"])
        self.assertIn("futex round trip of threads", lines[3])

    def test_wrong_use_is_told(self):
        for status, expected, arguments in [
                (2, "WHAT", ("bench",)),
                (2, "acter", ("bench", "acter")),
                (2, "--repeats", ("bench", "actor", "--repeats", "0")),
                (2, "--payload", ("bench", "actor", "--payload", "1GiB")),
                (2, "begins with what --only names", ("bench", "actor", "--json", "--only", "nosuch"))]:
            code, out, err = self.home.call(*arguments)
            self.assertEqual((code, out), (status, ""), err)
            self.assertIn(expected, err)
        self.assertIn("Example: troupe bench", self.home.call("bench", "--help")[1])


if __name__ == "__main__":
    unittest.main()
