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

# LibTorch defines macros named CHECK and DCHECK, which would silently replace Catch2's CHECK wherever a header of it
# comes later. Its own headers do not use them, so this one header is shown without them.
_LOGGING = "c10/util/logging_is_not_google_glog.h"

def _libtorch_repository_impl(repository_ctx):
    root = _root(repository_ctx)
    include = root + "/torch/include/"
    if not repository_ctx.path(root + "/torch/lib/libtorch_cpu.so").exists:
        fail("LibTorch is not in %s. Run tools/setup." % root)
    for folder in _HEADERS:
        if not _LOGGING.startswith(folder + "/"):
            repository_ctx.symlink(include + folder, "include/" + folder)
    _link_without_logging(repository_ctx, include)
    logging = repository_ctx.read(include + _LOGGING)
    for macro in ["CHECK", "DCHECK"]:
        logging = logging.replace("#define %s(" % macro, "#define C10_UNUSED_%s(" % macro)
    repository_ctx.file("include/" + _LOGGING, logging)
    repository_ctx.file("BUILD.bazel", _BUILD.replace("{root}", root))

def _link_without_logging(repository_ctx, include):
    """Links the folders on the way to the logging header entry by entry, so that it can be left out."""
    parts = _LOGGING.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        for entry in repository_ctx.path(include + folder).readdir():
            if entry.basename != parts[depth]:
                repository_ctx.symlink(entry, "include/%s/%s" % (folder, entry.basename))

libtorch_repository = repository_rule(
    implementation = _libtorch_repository_impl,
    local = True,
    environ = ["TROUPE_LIBTORCH", "XDG_CACHE_HOME", "HOME"],
)
