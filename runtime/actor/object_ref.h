// SPDX-License-Identifier: Apache-2.0
// ObjectRef<T>: a counted, copyable reference to an immutable object: bytes, a tensor, or any value that can travel. It
// may be an argument, a result, an item of a stream, and a field of a struct; only the reference travels (objects of a
// few kilobytes within it), and the object lives while a ref or what Get gave of it is anywhere, also on other nodes:
// these fetch a copy of their own at the first Get.
//
//   ObjectRef<Tensor> ref = runtime.Put(TensorSpan(std::span(weights), {1000, 1000})).value();
//   trainer.Call<&Trainer::Load>(ref);
//   absl::StatusOr<Tensor> tensor = context.Get(ref);         // in the trainer: the same memory, without a copy
//
// When the process that made an object dies, who holds a ref and has used it, or was told of it while the process
// lived, keeps the object. Nothing is computed again: a Get that cannot be served is NOT_FOUND and names the owner and
// why it ended. An object holds no refs itself. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/codec.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/object/object_store.h"
#include "runtime/object/tensor.h"
#include "runtime/object/transit_scope.h"

namespace troupe {

// Of a Get that names none.
inline constexpr absl::Duration kGetTimeoutDefault = absl::Seconds(30);

// The bytes of an object, zero-copy; copying one shares it.
class ObjectBytes {
 public:
  ObjectBytes() = default;
  explicit ObjectBytes(ObjectPin pin) : pin_(std::move(pin)) {}
  std::span<const std::byte> span() const { return pin_.bytes(); }
  std::string_view text() const { return {reinterpret_cast<const char*>(span().data()), span().size()}; }
  size_t size() const { return span().size(); }
  const ObjectPin& pin() const { return pin_; }

 private:
  ObjectPin pin_;
};

template <typename T>
class ObjectRef {
 public:
  // Names nothing.
  ObjectRef() = default;
  explicit ObjectRef(ObjectHandle handle) : handle_(std::move(handle)) {}
  // What lies in an object already.
  explicit ObjectRef(const T& zero_copy) requires std::is_same_v<T, ObjectBytes> || std::is_same_v<T, Tensor>
      : handle_(zero_copy.pin().handle()) {}

  bool valid() const { return handle_ != nullptr; }
  ObjectId id() const { return valid() ? handle_->id() : ObjectId(); }
  int64_t bytes() const { return valid() ? handle_->bytes() : 0; }
  const ObjectHandle& handle() const { return handle_; }
  // Of the same object; a small one is copied when its ref travels.
  friend bool operator==(const ObjectRef& a, const ObjectRef& b) { return a.id() == b.id(); }

 private:
  ObjectHandle handle_;
};

namespace internal {

// Refs, and bytes and tensors of an object (as arguments), travel the same way.
enum class ObjectKind : uint8_t { kBytes = 'b', kTensor = 't', kValue = 'v' };
template <typename T>
inline constexpr ObjectKind kObjectKind = std::is_same_v<T, ObjectBytes> ? ObjectKind::kBytes
                                          : std::is_same_v<T, Tensor>    ? ObjectKind::kTensor
                                                                         : ObjectKind::kValue;

// Tag, kind, and the wire form (codec.h). Null: names nothing.
void WriteObject(ObjectKind kind, const ObjectHandle& handle, std::string& out);
bool ReadObject(CodecReader& reader, ObjectKind kind, ObjectHandle& handle);
// The same, and its bytes at once; waits for those of another node.
bool ReadPinned(CodecReader& reader, ObjectKind kind, ObjectPin& pin);

template <typename T>
struct Codec<ObjectRef<T>> {
  static void Write(const ObjectRef<T>& ref, std::string& out) { WriteObject(kObjectKind<T>, ref.handle(), out); }
  static bool Read(CodecReader& reader, ObjectRef<T>& ref) {
    ObjectHandle handle;
    if (!ReadObject(reader, kObjectKind<T>, handle)) return false;
    ref = ObjectRef<T>(std::move(handle));
    return true;
  }
};

template <>
struct Codec<ObjectBytes> {
  static void Write(const ObjectBytes& bytes, std::string& out) {
    WriteObject(ObjectKind::kBytes, bytes.pin().handle(), out);
  }
  static bool Read(CodecReader& reader, ObjectBytes& bytes) {
    ObjectPin pin;
    if (!ReadPinned(reader, ObjectKind::kBytes, pin)) return false;
    bytes = ObjectBytes(std::move(pin));
    return true;
  }
};

template <>
struct Codec<Tensor> {
  static void Write(const Tensor& tensor, std::string& out) {
    WriteObject(ObjectKind::kTensor, tensor.pin().handle(), out);
  }
  static bool Read(CodecReader& reader, Tensor& tensor) {
    ObjectPin pin;
    if (!ReadPinned(reader, ObjectKind::kTensor, pin)) return false;
    tensor = Tensor();
    if (pin.handle() == nullptr) return true;
    absl::StatusOr<Tensor> read = Tensor::Of(std::move(pin));
    if (!read.ok()) return reader.Fail(MessageOf(read.status()));
    tensor = *std::move(read);
    return true;
  }
};

}  // namespace internal

// What Runtime and ActorContext have in common: objects of their process.
class Objects {
 public:
  // Null: this process has none.
  explicit Objects(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  // Copies into an object. Errors as of ObjectStore::Allocate; INVALID_ARGUMENT: the value holds refs of objects.
  absl::StatusOr<ObjectRef<ObjectBytes>> Put(std::span<const std::byte> bytes) const;
  absl::StatusOr<ObjectRef<Tensor>> Put(const TensorSpan& tensor) const;
  template <Encodable T>
  requires(!std::is_same_v<T, TensorSpan> && !std::is_same_v<T, Tensor> &&
           !std::is_same_v<T, ObjectBytes>) absl::StatusOr<ObjectRef<T>> Put(const T& value)
  const {
    TransitScope scope;
    std::string encoded = Encode(value);
    if (!scope.Take().empty()) return absl::InvalidArgumentError("an object holds no refs of other objects");
    TROUPE_ASSIGN_OR_RETURN(ObjectHandle handle, PutBytes({encoded.data(), encoded.size()}));
    return ObjectRef<T>(std::move(handle));
  }
  // To be filled in place, then sealed: ObjectRef<Tensor>(std::move(buffer).Seal()).
  absl::StatusOr<TensorBuffer> NewTensor(DType dtype, std::span<const int64_t> shape) const;

  // The object: ObjectBytes and Tensor without a copy, values decoded. Errors as of ObjectStore::Get.
  template <typename T>
  absl::StatusOr<T> Get(const ObjectRef<T>& ref, absl::Duration timeout = kGetTimeoutDefault) const {
    TROUPE_ASSIGN_OR_RETURN(ObjectPin pin, GetPin(ref.handle(), timeout));
    if constexpr (std::is_same_v<T, ObjectBytes>) {
      return ObjectBytes(std::move(pin));
    } else if constexpr (std::is_same_v<T, Tensor>) {
      return Tensor::Of(std::move(pin));
    } else {
      return Decode<T>({reinterpret_cast<const char*>(pin.bytes().data()), pin.bytes().size()});
    }
  }

  // For people: whose it is, how large, and where its bytes are now.
  template <typename T>
  std::string Explain(const ObjectRef<T>& ref) const {
    return store_ == nullptr ? "this process has no objects" : store_->Explain(ref.handle());
  }
  // Of the whole node: memory used, and what came from other nodes and went to them. Errors as of Get.
  absl::StatusOr<v1::NodeObjectFigures> NodeFigures() const;

  const std::shared_ptr<ObjectStore>& store() const { return store_; }

 private:
  absl::StatusOr<ObjectHandle> PutBytes(std::string_view bytes) const;
  static absl::StatusOr<ObjectPin> GetPin(const ObjectHandle& handle, absl::Duration timeout);

  std::shared_ptr<ObjectStore> store_;
};

}  // namespace troupe
