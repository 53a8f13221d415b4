# SPDX-License-Identifier: Apache-2.0
"""The system libraries a program may be linked with, given to every final link.

A link takes only what it uses: an archive member that nothing refers to is left out, and `--as-needed` drops a shared
library that nothing refers to. So one list serves programs with and without gRPC. The order is free: mold resolves
archives regardless of it.
"""

_GRPC = [
    "grpc++",
    "grpc++_reflection",
    "grpc",
    "gpr",
    "address_sorting",
    "upb",
    "re2",
    "cares",
    "protobuf",
    "ssl",
    "crypto",
]

_ABSL = [
    "absl_bad_any_cast_impl",
    "absl_bad_optional_access",
    "absl_bad_variant_access",
    "absl_base",
    "absl_city",
    "absl_civil_time",
    "absl_cord",
    "absl_cord_internal",
    "absl_cordz_functions",
    "absl_cordz_handle",
    "absl_cordz_info",
    "absl_cordz_sample_token",
    "absl_debugging_internal",
    "absl_demangle_internal",
    "absl_examine_stack",
    "absl_exponential_biased",
    "absl_failure_signal_handler",
    "absl_flags_commandlineflag",
    "absl_flags_commandlineflag_internal",
    "absl_flags_config",
    "absl_flags_internal",
    "absl_flags_marshalling",
    "absl_flags_parse",
    "absl_flags_private_handle_accessor",
    "absl_flags_program_name",
    "absl_flags_reflection",
    "absl_flags_usage",
    "absl_flags_usage_internal",
    "absl_graphcycles_internal",
    "absl_hash",
    "absl_hashtablez_sampler",
    "absl_int128",
    "absl_leak_check",
    "absl_log_severity",
    "absl_low_level_hash",
    "absl_malloc_internal",
    "absl_periodic_sampler",
    "absl_random_distributions",
    "absl_random_internal_platform",
    "absl_random_internal_pool_urbg",
    "absl_random_internal_randen",
    "absl_random_internal_randen_hwaes",
    "absl_random_internal_randen_hwaes_impl",
    "absl_random_internal_randen_slow",
    "absl_random_internal_seed_material",
    "absl_random_seed_gen_exception",
    "absl_random_seed_sequences",
    "absl_raw_hash_set",
    "absl_raw_logging_internal",
    "absl_spinlock_wait",
    "absl_stacktrace",
    "absl_status",
    "absl_statusor",
    "absl_str_format_internal",
    "absl_strerror",
    "absl_strings",
    "absl_strings_internal",
    "absl_symbolize",
    "absl_synchronization",
    "absl_throw_delegate",
    "absl_time",
    "absl_time_zone",
]

_OTHERS = [
    "sqlite3",
    "yaml-cpp",
    "pcre2-8",
    "utf8proc",
    "z",
    "zstd",
]

# Debian has no archives of these.
_SHARED_ONLY = [
    "spdlog",
    "fmt",
    "atomic",
    "dl",
    "rt",
]

def _flags(libraries):
    return ["-l" + library for library in libraries]

_SHARED = ["-Wl,--as-needed"] + _flags(_SHARED_ONLY) + ["-pthread"]

DYNAMIC_LINKOPTS = _SHARED + _flags(_GRPC + _ABSL + _OTHERS)

# The C++ library, too: relocations of the shared one are a third of a program's start. It is taken whole because the
# toolchain names the shared one after it, which mold would prefer; --gc-sections leaves out what nothing uses.
_CXX = ["-Wl,--whole-archive", "-l:libstdc++.a", "-Wl,--no-whole-archive", "-static-libgcc"]

STATIC_LINKOPTS = _SHARED + ["-Wl,-Bstatic"] + _flags(_GRPC + _ABSL + _OTHERS) + ["-Wl,-Bdynamic"] + _CXX
