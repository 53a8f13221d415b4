// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/object_ref.h"

#include <cstring>

namespace troupe {
namespace {

absl::Status NoObjects() { return absl::FailedPreconditionError("this process has no objects"); }

// Of what a call's arguments wait for; the call's own deadline ends it for its caller.
constexpr absl::Duration kArgumentTimeout = absl::Seconds(30);

void WriteFixed(uint64_t value, std::string& out) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

}  // namespace

namespace internal {

void WriteObject(ObjectKind kind, const ObjectHandle& handle, std::string& out) {
  WriteTag(CodecTag::kObject, out);
  out.push_back(static_cast<char>(kind));
  if (handle == nullptr) return out.push_back(0);
  TransitScope* scope = TransitScope::Current();
  ObjectWire wire = handle->store().Describe(handle, out.size(), scope != nullptr);
  if (scope != nullptr) scope->Keep(handle);
  out.push_back(wire.is_inline ? 1 : 2);
  WriteFixed(wire.id.process, out);
  WriteVarint(wire.id.sequence, out);
  if (wire.is_inline) return WriteBytes(wire.content, out);
  WriteVarint(static_cast<uint64_t>(wire.bytes), out);
  WriteFixed(wire.place.process, out);
  WriteVarint(wire.place.file, out);
  WriteVarint(wire.place.block, out);
  WriteVarint(static_cast<uint64_t>(wire.place.offset), out);
  WriteBytes(wire.owner, out);
  WriteBytes(wire.node_id, out);
  WriteBytes(wire.endpoint, out);
  WriteFixed(wire.sender, out);
  WriteVarint(wire.transit, out);
}

bool ReadObject(CodecReader& reader, ObjectKind kind, ObjectHandle& handle) {
  uint8_t found, form;
  handle = nullptr;
  if (!reader.ExpectTag(CodecTag::kObject, "an object") || !reader.ReadFixed(&found, 1)) return false;
  if (found != static_cast<uint8_t>(kind)) return reader.Fail("a ref of another kind of object");
  if (!reader.ReadFixed(&form, 1)) return false;
  if (form == 0) return true;
  if (form > 2) return reader.Fail("a ref of an object in an unknown form");
  ObjectWire wire;
  wire.is_inline = form == 1;
  if (!reader.ReadFixed(&wire.id.process, 8) || !reader.ReadVarint(wire.id.sequence)) return false;
  if (wire.is_inline) {
    if (!reader.ReadBytes(wire.content)) return false;
    wire.bytes = static_cast<int64_t>(wire.content.size());
  } else {
    uint64_t bytes, file, block, offset;
    bool read = reader.ReadVarint(bytes) && reader.ReadFixed(&wire.place.process, 8) && reader.ReadVarint(file) &&
                reader.ReadVarint(block) && reader.ReadVarint(offset) && reader.ReadBytes(wire.owner) &&
                reader.ReadBytes(wire.node_id) && reader.ReadBytes(wire.endpoint) &&
                reader.ReadFixed(&wire.sender, 8) && reader.ReadVarint(wire.transit);
    if (!read) return false;
    if (bytes > INT64_MAX || offset > INT64_MAX || file > UINT32_MAX || block > UINT32_MAX || wire.id.process == 0) {
      return reader.Fail("a ref of an object that cannot be");
    }
    wire.bytes = wire.place.bytes = static_cast<int64_t>(bytes);
    wire.place.offset = static_cast<int64_t>(offset);
    wire.place.file = static_cast<uint32_t>(file);
    wire.place.block = static_cast<uint32_t>(block);
  }
  if (reader.router() == nullptr || reader.router()->objects() == nullptr) {
    return reader.Fail("a ref of an object in a process that has none");
  }
  handle = reader.router()->objects()->Adopt(wire);
  return true;
}

bool ReadPinned(CodecReader& reader, ObjectKind kind, ObjectPin& pin) {
  ObjectHandle handle;
  if (!ReadObject(reader, kind, handle)) return false;
  pin = ObjectPin();
  if (handle == nullptr) return true;
  absl::StatusOr<ObjectPin> got = handle->store().Get(handle, MonotonicNow() + kArgumentTimeout);
  if (!got.ok()) return reader.Fail(MessageOf(got.status()));
  pin = *std::move(got);
  return true;
}

}  // namespace internal

absl::StatusOr<ObjectRef<ObjectBytes>> Objects::Put(std::span<const std::byte> bytes) const {
  TROUPE_ASSIGN_OR_RETURN(ObjectHandle handle, PutBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return ObjectRef<ObjectBytes>(std::move(handle));
}

absl::StatusOr<ObjectRef<Tensor>> Objects::Put(const TensorSpan& tensor) const {
  TROUPE_ASSIGN_OR_RETURN(TensorBuffer buffer, NewTensor(tensor.dtype(), tensor.shape()));
  if (tensor.bytes() > 0) std::memcpy(buffer.data(), tensor.data(), static_cast<size_t>(tensor.bytes()));
  return ObjectRef<Tensor>(std::move(buffer).Seal());
}

absl::StatusOr<TensorBuffer> Objects::NewTensor(DType dtype, std::span<const int64_t> shape) const {
  if (store_ == nullptr) return NoObjects();
  return TensorBuffer::Create(*store_, dtype, shape);
}

absl::StatusOr<v1::NodeObjectFigures> Objects::NodeFigures() const {
  if (store_ == nullptr) return NoObjects();
  return store_->NodeFigures();
}

absl::StatusOr<ObjectHandle> Objects::PutBytes(std::string_view bytes) const {
  if (store_ == nullptr) return NoObjects();
  return store_->Put(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

absl::StatusOr<ObjectPin> Objects::GetPin(const ObjectHandle& handle, absl::Duration timeout) {
  if (handle == nullptr) return absl::InvalidArgumentError("the ref names no object");
  return handle->store().Get(handle, MonotonicNow() + timeout);
}

}  // namespace troupe
