# SPDX-License-Identifier: Apache-2.0
"""The unpacked PyTorch wheel as a repository.

The folder (made by tools/setup) holds `torch/` and `nvidia/` side by side. Programs load the libraries from there by a
run path, never through Bazel's `_solib` links: the wheel's own run path is relative to where a library was loaded from.
"""

# Header folders shown to the compiler. `google` is not one of them: the wheel's old protobuf headers would shadow the
# system's and break every generated file.
_HEADERS = ["ATen", "c10", "caffe2", "torch"]

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "libtorch",
    hdrs = glob(["include/**"]),
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
    linkopts = [
        "-L{root}/torch/lib",
        "-Wl,-rpath,{root}/torch/lib",
        "-Wl,-rpath,{root}/nvidia/cu13/lib",
        "-ltorch_cpu",
        "-lc10",
        "{root}/torch/lib/libgomp.so.1",
    ],
)
"""

def _root(repository_ctx):
    env = repository_ctx.os.environ
    if env.get("TROUPE_LIBTORCH"):
        return env["TROUPE_LIBTORCH"]
    cache = env.get("XDG_CACHE_HOME") or env.get("HOME", "") + "/.cache"
    return cache + "/troupe/libtorch"

def _libtorch_repository_impl(repository_ctx):
    root = _root(repository_ctx)
    if not repository_ctx.path(root + "/torch/lib/libtorch_cpu.so").exists:
        fail("LibTorch is not in %s. Run tools/setup." % root)
    for folder in _HEADERS:
        repository_ctx.symlink(root + "/torch/include/" + folder, "include/" + folder)
    repository_ctx.file("BUILD.bazel", _BUILD.replace("{root}", root))

libtorch_repository = repository_rule(
    implementation = _libtorch_repository_impl,
    local = True,
    environ = ["TROUPE_LIBTORCH", "XDG_CACHE_HOME", "HOME"],
)
