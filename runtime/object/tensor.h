// SPDX-License-Identifier: Apache-2.0
// TensorSpan: numbers of one type in row-major order, without gaps, somewhere in memory. Tensor: an immutable one that
// lies in an object, and holds it. No arithmetic; actors/model/object_tensor.h makes a LibTorch tensor over one.
//
// As an object: a header of 128 bytes (magic, type, rank, up to eight dimensions), then the numbers. What comes from
// another process is checked: a header that is broken or does not fit the object's size is DATA_LOSS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/object/object_store.h"

namespace troupe {

// The numbers are those of the header: never changed.
enum class DType : uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBFloat16 = 4,
  kInt8 = 5,
  kInt16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUInt8 = 9,
  kBool = 10,
};

// Of one number; 0 for what is no type.
size_t BytesOf(DType dtype);
// "float32", "bfloat16", ...: the names of NumPy and LibTorch.
std::string_view NameOf(DType dtype);

namespace internal {
template <typename T>
inline constexpr DType kDTypeOf = static_cast<DType>(0);
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kInt8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kInt16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUInt8;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
}  // namespace internal

class TensorSpan {
 public:
  static constexpr size_t kRankMax = 8;

  TensorSpan() = default;
  // `data`: BytesOf(dtype) times the product of `shape`; it outlives the view.
  TensorSpan(DType dtype, std::vector<int64_t> shape, const void* data)
      : dtype_(dtype), shape_(std::move(shape)), data_(static_cast<const std::byte*>(data)) {}
  // One that `values` are the numbers of: as many as the product of `shape`. They outlive the view.
  template <typename T>
  TensorSpan(std::span<const T> values, std::vector<int64_t> shape)
      : TensorSpan(internal::kDTypeOf<T>, std::move(shape), values.data()) {
    static_assert(internal::kDTypeOf<T> != static_cast<DType>(0), "numbers of this type have no tensors");
  }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::byte* data() const { return data_; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(BytesOf(dtype_)); }
  // Empty when T is another type than the tensor's.
  template <typename T>
  std::span<const T> values() const {
    if (internal::kDTypeOf<T> != dtype_) return {};
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(elements())};
  }
  // "float32[2, 3]"
  std::string ToString() const;

 private:
  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> shape_{0};
  const std::byte* data_ = nullptr;
};

inline constexpr int64_t kTensorHeaderBytes = 128;

// INVALID_ARGUMENT: a type, a rank or a size that no tensor has. The size of the object with its header.
absl::StatusOr<int64_t> TensorObjectBytes(DType dtype, std::span<const int64_t> shape);
// `out`: kTensorHeaderBytes; what TensorObjectBytes has let pass.
void WriteTensorHeader(DType dtype, std::span<const int64_t> shape, std::span<std::byte> out);
// The view is into `object`. DATA_LOSS: it is no tensor.
absl::StatusOr<TensorSpan> ReadTensor(std::span<const std::byte> object);

// A tensor that lies in an object, zero-copy; copying one shares it.
class Tensor {
 public:
  Tensor() = default;
  // DATA_LOSS: the object is no tensor.
  static absl::StatusOr<Tensor> Of(ObjectPin pin);

  const TensorSpan& view() const { return view_; }
  DType dtype() const { return view_.dtype(); }
  const std::vector<int64_t>& shape() const { return view_.shape(); }
  const std::byte* data() const { return view_.data(); }
  int64_t elements() const { return view_.elements(); }
  template <typename T>
  std::span<const T> values() const {
    return view_.values<T>();
  }
  const ObjectPin& pin() const { return pin_; }

 private:
  ObjectPin pin_;
  TensorSpan view_;
};

// One that is being written, in place.
class TensorBuffer {
 public:
  // Errors as of TensorObjectBytes and ObjectStore::Allocate. The numbers are not set.
  static absl::StatusOr<TensorBuffer> Create(ObjectStore& store, DType dtype, std::span<const int64_t> shape);
  std::byte* data() const { return buffer_.bytes().data() + kTensorHeaderBytes; }
  // Empty when T is another type than the tensor's.
  template <typename T>
  std::span<T> values() const {
    if (internal::kDTypeOf<T> != dtype_) return {};
    return {reinterpret_cast<T*>(data()), (buffer_.bytes().size() - kTensorHeaderBytes) / sizeof(T)};
  }
  ObjectHandle Seal() && { return std::move(buffer_).Seal(); }

 private:
  TensorBuffer(ObjectBuffer buffer, DType dtype) : buffer_(std::move(buffer)), dtype_(dtype) {}
  ObjectBuffer buffer_;
  DType dtype_;
};

}  // namespace troupe
