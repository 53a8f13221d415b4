# SPDX-License-Identifier: Apache-2.0
"""The project's build rules. Compiler and linker options stand here and in .bazelrc, nowhere else.

Own code is compiled with -Werror. Libraries carry no system libraries; each final link gets the list of
system_libraries.bzl, shared for tests and for programs with LibTorch, static for what starts often.
"""

load("//tools/bazel:protoc.bzl", "protoc")
load("//tools/bazel:system_libraries.bzl", "DYNAMIC_LINKOPTS", "STATIC_LINKOPTS")

_WARNINGS = [
    "-Wall",
    "-Wextra",
    # Options structs are initialised by the fields that matter: {.cpus = 1}.
    "-Wno-missing-field-initializers",
]

# g++ 12 reports these falsely in inlined standard library code.
_NEVER_ERRORS = [
    "-Wno-error=maybe-uninitialized",
    "-Wno-error=restrict",
    "-Wno-error=array-bounds",
    "-Wno-error=stringop-overflow",
    "-Wno-error=stringop-overread",
    "-Wno-error=dangling-pointer",
    "-Wno-error=free-nonheap-object",
]

TROUPE_COPTS = _WARNINGS + select({
    "//tools/bazel:werror_off": [],
    "//conditions:default": ["-Werror"] + _NEVER_ERRORS,
})

# Test code is compiled once and runs once: a fifth less time to compile. The code it tests is fully optimised.
_TEST_COPTS = TROUPE_COPTS + select({
    "//tools/bazel:optimised": ["-O1"],
    "//conditions:default": [],
})

def troupe_cc_library(name, copts = [], **kwargs):
    """A library. `copts` are added to the project's (a kernel's instruction set, for example)."""
    native.cc_library(
        name = name,
        copts = TROUPE_COPTS + copts,
        **kwargs
    )

def troupe_cc_binary(name, static_grpc = True, copts = [], linkopts = [], **kwargs):
    """A program.

    Args:
      name: the program's name.
      static_grpc: gRPC, protobuf, Abseil and the other system libraries that have archives are linked statically. False
        for programs with LibTorch.
      copts: further compiler options.
      linkopts: further linker options.
      **kwargs: as of cc_binary.
    """
    native.cc_binary(
        name = name,
        copts = TROUPE_COPTS + copts,
        linkopts = linkopts + (STATIC_LINKOPTS if static_grpc else DYNAMIC_LINKOPTS),
        linkstatic = True,
        **kwargs
    )

def troupe_cc_shared_library(name, soname, exports, deps):
    """All of `deps` as one shared library on the system's shared gRPC, protobuf and Abseil, for programs outside this
    repository: these link the same ones, so that a process holds one copy.

    Args:
      name: libNAME.so.
      soname: the name by which programs ask for it.
      exports: a version script: the names that programs see.
      deps: its libraries, whole, so that what registers itself is there.
    """
    native.cc_binary(
        name = name,
        additional_linker_inputs = [exports],
        linkopts = ["-Wl,-soname=" + soname, "-Wl,--version-script=$(location %s)" % exports, "-Wl,-z,defs"] + DYNAMIC_LINKOPTS,
        linkshared = True,
        linkstatic = True,
        deps = deps,
    )

def troupe_cc_plugin(name, srcs):
    """A shared library lib`name`.so for a test that loads it at run time, in place of a vendor's."""
    native.cc_binary(
        name = "lib%s.so" % name,
        testonly = True,
        srcs = srcs,
        copts = TROUPE_COPTS,
        linkshared = True,
    )

def _headers_impl(ctx):
    headers = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps])
    return [DefaultInfo(files = headers, runfiles = ctx.runfiles(transitive_files = headers))]

troupe_headers = rule(
    doc = "The headers of libraries and of all that these depend on, generated ones too, as files.",
    implementation = _headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def troupe_cc_test(name, size = "small", copts = [], linkopts = [], deps = [], **kwargs):
    """A Catch2 test; the main function is linked in. CONTRIBUTING.md lists the tags in use."""
    native.cc_test(
        name = name,
        size = size,
        copts = _TEST_COPTS + copts,
        linkopts = linkopts + DYNAMIC_LINKOPTS,
        linkstatic = True,
        deps = deps + ["//third_party:catch2_main"],
        **kwargs
    )

def troupe_cc_fuzz_test(name, srcs, corpus, deps = []):
    """A fuzz target, run on damaged copies of the corpus: `name` briefly, `name`_long for a while in tools/test --full.

    Args:
      name: ends in _fuzz.
      srcs: with libFuzzer's entry point LLVMFuzzerTestOneInput; `clang++ -fsanitize=fuzzer` takes them, too.
      corpus: small files that are right, or nearly.
      deps: of srcs.
    """
    files = ["$(location %s)" % file for file in corpus]
    for test, effort, tags in [(name, "--runs=10000", []), (name + "_long", "--seconds=20", ["fuzz"])]:
        native.cc_test(
            name = test,
            size = "small",
            srcs = srcs,
            copts = _TEST_COPTS,
            linkopts = DYNAMIC_LINKOPTS,
            linkstatic = True,
            data = corpus,
            args = [effort] + files,
            tags = tags,
            deps = deps + ["//tests/mutations:fuzz_main"],
        )

def troupe_cc_benchmark(name, copts = [], linkopts = [], deps = [], tags = [], **kwargs):
    """A google-benchmark program; its main function is linked in. Run with `bazel run`."""
    native.cc_binary(
        name = name,
        testonly = True,
        copts = TROUPE_COPTS + copts,
        linkopts = linkopts + ["-lbenchmark_main", "-lbenchmark"] + DYNAMIC_LINKOPTS,
        linkstatic = True,
        tags = tags + ["benchmark"],
        deps = deps + ["//third_party:benchmark"],
        **kwargs
    )

def troupe_proto_library(name, srcs, deps = [], grpc = False, **kwargs):
    """Protocol messages and services as one C++ library.

    The import root is the folder `proto/`: proto/troupe/v1/x.proto is imported as "troupe/v1/x.proto" and included as
    "troupe/v1/x.pb.h" and "troupe/v1/x.grpc.pb.h".

    Args:
      name: the C++ library.
      srcs: the .proto files.
      deps: other troupe_proto_library targets that the files import.
      grpc: whether services are generated too.
      **kwargs: as of cc_library.
    """
    kinds = ["pb"] + (["grpc.pb"] if grpc else [])
    bases = [src[:-len(".proto")] for src in srcs]
    headers = ["%s.%s.h" % (base, kind) for base in bases for kind in kinds]
    sources = ["%s.%s.cc" % (base, kind) for base in bases for kind in kinds]
    protoc(
        name = name + "_protoc",
        srcs = srcs,
        outs = headers + sources,
        grpc = grpc,
        deps = [dep + "_protoc" for dep in _full_names(deps)],
        visibility = ["//visibility:public"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        deps = deps + ["//tools/bazel:proto_import_root", "//third_party:protobuf"] + (["//third_party:grpc"] if grpc else []),
        **kwargs
    )

def _full_names(labels):
    return [label if ":" in label else label + ":" + label.split("/")[-1] for label in labels]
