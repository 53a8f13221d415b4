// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/frame_wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

namespace troupe {
namespace {

using google::protobuf::internal::WireFormatLite;

// Frames up to it are copied, which costs less than to keep them.
constexpr size_t kCopiedBytes = 4096;

// The beginning of a field of bytes.
std::string FieldHead(int number, size_t bytes) {
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint32(static_cast<uint32_t>(bytes));
  out.Trim();
  return head;
}

// `bytes` are the frame's.
grpc::Slice Lend(const std::shared_ptr<const v1::Frame>& frame, const std::string& bytes) {
  auto* held = new std::shared_ptr<const v1::Frame>(frame);
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* frame_held) { delete static_cast<std::shared_ptr<const v1::Frame>*>(frame_held); }, held);
}

}  // namespace

grpc::ByteBuffer ToWire(const std::shared_ptr<const v1::Frame>& frame) {
  if (const size_t bytes = frame->ByteSizeLong(); bytes <= kCopiedBytes) {
    grpc::Slice slice(bytes);
    frame->SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
    return grpc::ByteBuffer(&slice, 1);
  }
  v1::Frame others;
  others.set_sequence(frame->sequence());
  others.set_acknowledges(frame->acknowledges());
  others.set_ends_session(frame->ends_session());
  if (frame->has_hello()) *others.mutable_hello() = frame->hello();
  std::string head = others.SerializeAsString();
  std::vector<grpc::Slice> slices;
  if (!frame->records().empty()) {
    slices.emplace_back(head + FieldHead(v1::Frame::kRecordsFieldNumber, frame->records().size()));
    slices.push_back(Lend(frame, frame->records()));
    head.clear();
  }
  if (!frame->tail().empty()) {
    slices.emplace_back(head + FieldHead(v1::Frame::kTailFieldNumber, frame->tail().size()));
    slices.push_back(Lend(frame, frame->tail()));
    head.clear();
  }
  if (slices.empty()) slices.emplace_back(head);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status FromWire(grpc::ByteBuffer& bytes, v1::Frame& frame) {
  bool parsed = false;
  if (grpc::Slice whole; bytes.TrySingleSlice(&whole).ok()) {
    parsed = frame.ParseFromArray(whole.begin(), static_cast<int>(whole.size()));
  } else {
    grpc::ProtoBufferReader reader(&bytes);
    parsed = reader.status().ok() && frame.ParseFromZeroCopyStream(&reader);
  }
  bytes.Clear();
  return parsed ? absl::OkStatus() : absl::InvalidArgumentError("a frame that is no protobuf of one");
}

}  // namespace troupe
