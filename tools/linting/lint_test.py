# SPDX-License-Identifier: Apache-2.0
"""Tests of the lint itself: what the layer table forbids is reported, what it allows is not."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from linting import layers, source  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def includes(path, *headers):
    """How many of the headers the table forbids to a file."""
    return len(list(layers.violations(path, "".join(f"#include {header}\n" for header in headers))))


class LayerTest(unittest.TestCase):
    def test_each_folder_is_refused_what_stands_below_it(self):
        for path, header in (
            ("kernels/softmax/softmax.cc", '"runtime/base/status.h"'),
            ("kernels/softmax/softmax.cc", "<torch/torch.h>"),
            ("kernels/softmax/softmax.cc", '"absl/status/status.h"'),
            ("runtime/actor/mailbox.h", '"scheduler/core/state.h"'),
            ("runtime/actor/mailbox.cc", '"actors/model/llama.h"'),
            ("runtime/actor/mailbox.cc", "<ATen/ATen.h>"),
            ("runtime/actor/mailbox.cc", "<yaml-cpp/yaml.h>"),
            ("runtime/actor/mailbox.cc", "<cuda_runtime.h>"),
            ("runtime/actor/mailbox.cc", "<nccl.h>"),
            ("scheduler/core/state.cc", '"runtime/env/clock.h"'),
            ("scheduler/core/state.cc", '"scheduler/store/log.h"'),
            ("scheduler/core/state.cc", "<grpcpp/grpcpp.h>"),
            ("scheduler/store/log.cc", '"runtime/actor/mailbox.h"'),
            ("scheduler/server/server.cc", '"actors/pipeline.h"'),
            ("scheduler/server/server.cc", "<torch/torch.h>"),
            ("actors/rollout/engine.cc", '"scheduler/core/state.h"'),
            ("tools/cli/main.cc", "<torch/types.h>"),
            ("examples/hello/hello.cc", '"tests/fixture.h"'),
            ("actors/rollout/engine.cc", "<catch2/catch.hpp>"),
            ("actors/rollout/engine.cc", '"tests/golden/golden.h"'),
            ("actors/rollout/engine.cc", "<sys/mman.h>"),
            ("scheduler/core/state.cc", "<fstream>"),
            ("kernels/softmax/softmax.cc", "<unistd.h>"),
            ("runtime/actor/mailbox.cc", "<unistd.h>"),
            ("runtime/stream/row_shard.cc", "<sys/mman.h>"),
            ("runtime/transport/transport.cc", "<poll.h>"),
        ):
            with self.subTest(path=path, header=header):
                self.assertEqual(includes(path, header), 1)

    def test_what_the_table_lists_is_allowed(self):
        for path, header in (
            ("kernels/softmax/softmax.cu", "<cuda_runtime.h>"),
            ("kernels/softmax/softmax_test.cc", "<catch2/catch.hpp>"),
            ("runtime/actor/mailbox.h", '"troupe/v1/actor.pb.h"'),
            ("runtime/actor/mailbox.h", "<boost/asio.hpp>"),
            ("runtime/job/parse.cc", "<yaml-cpp/yaml.h>"),
            ("runtime/group/nccl_collective.cc", "<nccl.h>"),
            ("scheduler/core/state.cc", '"runtime/job/job.h"'),
            ("scheduler/store/log.cc", "<sqlite3.h>"),
            ("scheduler/store/log.cc", '"runtime/env/disk.h"'),
            ("scheduler/server/server.cc", '"runtime/actor/mailbox.h"'),
            ("actors/rollout/engine.cc", "<ATen/ATen.h>"),
            ("actors/rollout/engine.cc", '"kernels/softmax/softmax.h"'),
            ("actors/rollout/engine_test.cc", '"tests/golden/golden.h"'),
            ("tests/faults/kill_test.cc", '"scheduler/core/state.h"'),
            ("runtime/env/clock.cc", "<sys/timerfd.h>"),
            ("runtime/keeper/spawn.cc", "<spawn.h>"),
            ("runtime/transport/ring_fuzz.cc", "<unistd.h>"),
            ("actors/rollout/engine_test.cc", "<fstream>"),
            ("actors/rollout/engine.cc", "<string>"),
        ):
            with self.subTest(path=path, header=header):
                self.assertEqual(includes(path, header), 0)

    def test_a_proto_imports_protos_only(self):
        good = 'import "troupe/v1/common.proto";\nimport "google/protobuf/duration.proto";\n'
        self.assertEqual(list(layers.violations("proto/troupe/v1/a.proto", good)), [])
        self.assertEqual(len(list(layers.violations("proto/troupe/v1/a.proto", 'import "runtime/x.proto";\n'))), 1)


class SourceTest(unittest.TestCase):
    def problems(self, path, text):
        return [sentence for _, sentence in source.problems(path, text)]

    def test_a_missing_licence_line_and_guard_are_reported(self):
        self.assertEqual(len(self.problems("runtime/a.h", "int x;\n")), 2)
        self.assertEqual(self.problems("runtime/a.h", SPDX + "#pragma once\n"), [])

    def test_build_files_use_the_rules_of_the_project(self):
        licence = "# SPDX-License-Identifier: Apache-2.0\n"
        self.assertEqual(len(self.problems("runtime/BUILD.bazel", licence + 'cc_library(name = "a")\n')), 1)
        self.assertEqual(self.problems("runtime/BUILD.bazel", licence + 'troupe_cc_library(name = "a")\n'), [])

    def test_test_names_are_sentences_with_a_tag(self):
        good = SPDX + 'TEST_CASE("Mailbox: a full mailbox answers RESOURCE_EXHAUSTED", "[mailbox]") {}\n'
        self.assertEqual(self.problems("runtime/a_test.cc", good), [])
        split = SPDX + 'TEST_CASE(\n    "Mailbox: a full "\n    "mailbox", "[mailbox][.slow]") {}\n'
        self.assertEqual(self.problems("runtime/a_test.cc", split), [])
        self.assertEqual(len(self.problems("runtime/a_test.cc", SPDX + 'TEST_CASE("mailbox") {}\n')), 2)

    def test_timed_waits_of_abseil_are_refused_but_not_in_comments(self):
        self.assertEqual(len(self.problems("runtime/a.cc", SPDX + "cv.WaitWithTimeout(&mu, d);\n")), 1)
        self.assertEqual(self.problems("runtime/a.cc", SPDX + "// no WaitWithTimeout here\n"), [])

    def test_types_that_differ_from_the_standard_ones_stay_out_of_headers(self):
        line = "absl::string_view Name();\n"
        self.assertEqual(len(self.problems("runtime/a.h", SPDX + "#pragma once\n" + line)), 1)
        self.assertEqual(self.problems("runtime/a.cc", SPDX + line), [])

    def test_long_functions_are_found_with_their_length(self):
        body = "".join(f"  x += {i};\n" for i in range(80))
        text = f"namespace troupe {{\nint Long(int x) {{\n{body}}}\nint Short() {{\n  return 1;\n}}\n}}  // namespace troupe\n"
        self.assertEqual(list(source.long_parts("a.cc", text)), [(82, "a.cc:2 Long")])


class ProgramTest(unittest.TestCase):
    def test_a_bad_file_fails_the_program_and_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(HERE, root / "tools/linting")
            shutil.copy(HERE.parent / "lint", root / "tools/lint")
            (root / "runtime").mkdir()
            (root / "runtime/bad.h").write_text(SPDX + '#pragma once\n#include "scheduler/core/state.h"\n')
            done = subprocess.run(
                [sys.executable, root / "tools/lint", root / "runtime/bad.h"], capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn('runtime/bad.h:3: runtime/ may not include "scheduler/core/state.h"', done.stdout)


if __name__ == "__main__":
    unittest.main()
