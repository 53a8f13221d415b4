# SPDX-License-Identifier: Apache-2.0
"""The layer table: what each folder may include. Bazel visibility enforces the same between targets.

A file is judged by the longest matching path of LAYERS. A library that is not named there may be used only where
LIBRARY_FOLDERS (the table of docs/dependencies.md) says.
"""

import fnmatch
import re
from typing import NamedTuple

ALL = ("proto", "kernels", "runtime", "scheduler", "actors", "tools", "examples", "tests")


class Layer(NamedTuple):
    """What the files below a path may include: folders of the repository, and libraries."""

    path: str
    folders: tuple
    libraries: tuple = ()


LAYERS = (
    Layer("proto", ()),
    Layer("kernels", ("kernels",), ("cuda",)),
    Layer("runtime", ("proto", "runtime"), ("absl", "asio", "grpc", "protobuf")),
    Layer("scheduler/core", ("proto", "runtime/base", "runtime/job", "scheduler/core"), ("absl", "protobuf")),
    Layer(
        "scheduler/store",
        ("proto", "runtime/base", "runtime/job", "runtime/env", "scheduler/core", "scheduler/store"),
        ("absl", "protobuf", "grpc", "sqlite"),
    ),
    Layer("scheduler", ("proto", "runtime", "scheduler"), ("absl", "protobuf", "grpc", "asio")),
    Layer("actors", ("proto", "kernels", "runtime", "actors"), ("absl", "protobuf", "grpc", "torch")),
    Layer("tools", ("proto", "runtime", "scheduler", "actors", "tools"), ("absl", "protobuf", "grpc", "asio")),
    Layer("tools/golden_runner", ("proto", "kernels", "runtime", "actors", "tools"), ("absl",)),
    Layer("examples", ("proto", "runtime", "actors", "examples"), ("absl", "protobuf", "torch")),
    Layer("tests", ALL, ("absl", "asio", "cuda", "grpc", "json", "protobuf", "sqlite", "torch", "yaml")),
)

# Further places where a library may be used (patterns over the whole path). Keep docs/dependencies.md in step.
LIBRARY_FOLDERS = {
    "yaml": ("runtime/job/*", "tools/cli/*"),
    "json": ("runtime/*", "scheduler/server/*", "actors/*", "tools/*", "*_test.cc"),
    "spdlog": ("runtime/*", "scheduler/server/*", "actors/*", "tools/*"),
    "cli11": ("tools/*", "actors/worker/*", "examples/*"),
    "openssl": ("runtime/*", "actors/*", "tools/*"),
    "torch": ("tools/golden_runner/*",),
    "cuda": ("runtime/group/nccl_*", "runtime/weights/*cuda*", "runtime/device/*cuda*"),
    "pcre2": ("actors/*",),
    "utf8proc": ("actors/*",),
    "zlib": ("actors/*", "runtime/*", "scheduler/store/*", "tools/*"),
    "zstd": ("actors/*", "runtime/*", "tools/*"),
    "catch2": ("*_test.cc", "*/testing/*", "tests/*", "third_party/*"),
    "benchmark": ("*_benchmark.cc",),
}

# Test code of every folder may use these; nothing that is shipped may.
TEST_SUPPORT = ("tests/golden/", "tests/mutations/")

# Who asks the operating system: runtime/env; keeper and agent for processes, object for memory files; tools/; tests.
# Whoever else needs it asks runtime/env. A file that is named here stands at the rim and has its reason beside it.
SYSTEM_HEADERS = r"(sys/|netinet/|arpa/)|(fcntl|unistd|dirent|poll|spawn|fstream)(\.h)?$"
SYSTEM_FOLDERS = ("runtime/env/", "runtime/keeper/", "runtime/agent/", "runtime/object/", "tools/", "tests/", "examples/")
SYSTEM_FILES = (
    "runtime/embed/runtime.cc",  # ends the process where it was a worker
    "runtime/job/job_config.cc",  # reads the job file, from a pipe too
    "runtime/rpc/server.cc",  # the mode of its socket's file
    "runtime/rpc/token.cc",  # whose the token's file and descriptor are
    "runtime/transport/ring_hub.cc",  # whose the other process is
    "runtime/transport/ring_watch.cc",  # when the other process ends
    "runtime/worker/agent_link.cc",  # tells its process id
    "runtime/worker/worker_main.cc",  # is the process' main function
    "scheduler/server/job_logs.cc",  # reads files that grow meanwhile
    "*_test.cc",
    "*_benchmark.cc",
    "*_fuzz.cc",
    "*/testing/*",
)

# How an included header names its library.
LIBRARIES = (
    ("absl", r"absl/"),
    ("asio", r"boost/"),
    ("grpc", r"(grpcpp|grpc)/"),
    ("protobuf", r"google/protobuf/"),
    ("yaml", r"yaml-cpp/"),
    ("json", r"nlohmann/"),
    ("spdlog", r"(spdlog|fmt)/"),
    ("cli11", r"CLI/"),
    ("sqlite", r"sqlite3\.h"),
    ("openssl", r"openssl/"),
    ("torch", r"(torch|ATen|c10|caffe2|gloo)/"),
    ("cuda", r"(cuda|cublas|cudnn|nccl|cupti|nvtx)[a-z_0-9A-Z]*(/|\.h)"),
    ("pcre2", r"pcre2\.h"),
    ("utf8proc", r"utf8proc\.h"),
    ("zlib", r"zlib\.h"),
    ("zstd", r"zstd\.h"),
    ("catch2", r"catch2/"),
    ("benchmark", r"benchmark/"),
)

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"')


def layer_of(path):
    """The layer a file belongs to, or None (build rules, documents)."""
    below = [layer for layer in LAYERS if path.startswith(layer.path + "/")]
    return max(below, key=lambda layer: len(layer.path), default=None)


def violations(path, text):
    """Each include that the table forbids, as (line number, sentence)."""
    layer = layer_of(path)
    if layer is None:
        return
    pattern = _IMPORT if path.endswith(".proto") else _INCLUDE
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.match(line)
        if match and not _allowed(path, layer, match.group(1)):
            yield number, f'{layer.path}/ may not include "{match.group(1)}" (layer table in tools/linting/layers.py)'


def _allowed(path, layer, header):
    if path.endswith(".proto"):
        return header.startswith(("troupe/", "google/protobuf/"))
    if header.startswith("troupe/v1/") or re.search(r"\.pb\.h$", header) and not header.startswith("google/"):
        return "proto" in layer.folders
    library = next((name for name, prefix in LIBRARIES if re.match(prefix, header)), None)
    if library is not None:
        places = LIBRARY_FOLDERS.get(library, ())
        return library in layer.libraries or any(fnmatch.fnmatch(path, place) for place in places)
    folder = header.split("/")[0]
    if "/" in header and folder in ALL:
        if path.endswith("_test.cc") and header.startswith(TEST_SUPPORT):
            return True
        return any(header.startswith(allowed + "/") for allowed in layer.folders)
    if re.match(SYSTEM_HEADERS, header) and not path.startswith(SYSTEM_FOLDERS):
        return any(fnmatch.fnmatch(path, place) for place in SYSTEM_FILES)
    return True  # The standard library.
