# SPDX-License-Identifier: Apache-2.0
"""The names of rules_cc that Debian's Bazel rule sets load, as Bazel 4.2.3's native rules."""

cc_library = native.cc_library
cc_binary = native.cc_binary
cc_test = native.cc_test
cc_import = native.cc_import
cc_proto_library = native.cc_proto_library
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
cc_flags_supplier = None
compiler_flag = None
