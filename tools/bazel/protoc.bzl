# SPDX-License-Identifier: Apache-2.0
"""Runs the system's protoc and gRPC plugin."""

_ROOT = "proto"

ProtoSources = provider(
    doc = "The .proto files of a target and of everything it imports.",
    fields = {"files": "depset of .proto files"},
)

def _protoc_impl(ctx):
    sources = depset(ctx.files.srcs, transitive = [dep[ProtoSources].files for dep in ctx.attr.deps])
    out_root = ctx.bin_dir.path + "/" + _ROOT
    args = ctx.actions.args()
    args.add("--proto_path=" + _ROOT)
    args.add("--cpp_out=" + out_root)
    if ctx.attr.grpc:
        args.add("--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin")
        args.add("--grpc_out=" + out_root)
    args.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = "/usr/bin/protoc",
        arguments = [args],
        inputs = sources,
        outputs = ctx.outputs.outs,
        mnemonic = "Protoc",
        progress_message = "Generating C++ of %s" % ctx.label,
        use_default_shell_env = True,
    )
    return [ProtoSources(files = sources), DefaultInfo(files = depset(ctx.outputs.outs))]

protoc = rule(
    implementation = _protoc_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"]),
        "outs": attr.output_list(mandatory = True),
        "deps": attr.label_list(providers = [ProtoSources]),
        "grpc": attr.bool(),
    },
)

def _proto_import_root_impl(ctx):
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        system_includes = depset([_ROOT, ctx.bin_dir.path + "/" + _ROOT]),
    ))]

proto_import_root = rule(
    doc = "Lets generated headers be included from the import root, as protoc writes their includes.",
    implementation = _proto_import_root_impl,
)
