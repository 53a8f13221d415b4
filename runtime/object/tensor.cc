// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/tensor.h"

#include <cstring>

#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr uint32_t kMagic = 0x31545254;  // "TRT1"
// No tensor is larger, so that sizes never overflow.
constexpr int64_t kElementsMax = int64_t{1} << 48;

struct Header {
  uint32_t magic = kMagic;
  uint8_t dtype = 0;
  uint8_t rank = 0;
  uint16_t zero = 0;
  int64_t shape[TensorSpan::kRankMax] = {};
};
static_assert(sizeof(Header) <= kTensorHeaderBytes);

// -1: no tensor has that shape.
int64_t ElementsOf(std::span<const int64_t> shape) {
  if (shape.size() > TensorSpan::kRankMax) return -1;
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0 || size > kElementsMax) return -1;
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kElementsMax) return -1;
  }
  return elements;
}

}  // namespace

size_t BytesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

std::string_view NameOf(DType dtype) {
  static constexpr std::string_view kNames[] = {"no type", "float32", "float64", "float16", "bfloat16", "int8",
                                                "int16",   "int32",   "int64",   "uint8",   "bool"};
  auto index = static_cast<size_t>(dtype);
  return kNames[index < std::size(kNames) ? index : 0];
}

int64_t TensorSpan::elements() const {
  int64_t elements = 1;
  for (int64_t size : shape_) elements *= size;
  return elements;
}

std::string TensorSpan::ToString() const {
  std::string text(NameOf(dtype_));
  text += "[";
  for (size_t i = 0; i < shape_.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape_[i]);
  return text + "]";
}

absl::StatusOr<int64_t> TensorObjectBytes(DType dtype, std::span<const int64_t> shape) {
  int64_t elements = ElementsOf(shape);
  if (BytesOf(dtype) == 0 || elements < 0) {
    return absl::InvalidArgumentError(
        "a tensor has a type of DType, at most 8 dimensions, none negative, and at most 2^48 numbers");
  }
  return kTensorHeaderBytes + elements * static_cast<int64_t>(BytesOf(dtype));
}

void WriteTensorHeader(DType dtype, std::span<const int64_t> shape, std::span<std::byte> out) {
  Header header;
  header.dtype = static_cast<uint8_t>(dtype);
  header.rank = static_cast<uint8_t>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) header.shape[i] = shape[i];
  std::memset(out.data(), 0, kTensorHeaderBytes);
  std::memcpy(out.data(), &header, sizeof(header));
}

absl::StatusOr<TensorSpan> ReadTensor(std::span<const std::byte> object) {
  Header header;
  if (object.size() < kTensorHeaderBytes) return absl::DataLossError("the object is too short for a tensor");
  std::memcpy(&header, object.data(), sizeof(header));
  if (header.magic != kMagic || header.zero != 0 || header.rank > TensorSpan::kRankMax) {
    return absl::DataLossError("the object is no tensor");
  }
  std::vector<int64_t> shape(header.shape, header.shape + header.rank);
  auto dtype = static_cast<DType>(header.dtype);
  absl::StatusOr<int64_t> bytes = TensorObjectBytes(dtype, shape);
  if (!bytes.ok() || *bytes != static_cast<int64_t>(object.size())) {
    return absl::DataLossError("the tensor's header does not fit its object of " + std::to_string(object.size()) +
                               " bytes");
  }
  return TensorSpan(dtype, std::move(shape), object.data() + kTensorHeaderBytes);
}

absl::StatusOr<Tensor> Tensor::Of(ObjectPin pin) {
  Tensor tensor;
  TROUPE_ASSIGN_OR_RETURN(tensor.view_, ReadTensor(pin.bytes()));
  tensor.pin_ = std::move(pin);
  return tensor;
}

absl::StatusOr<TensorBuffer> TensorBuffer::Create(ObjectStore& store, DType dtype, std::span<const int64_t> shape) {
  TROUPE_ASSIGN_OR_RETURN(int64_t bytes, TensorObjectBytes(dtype, shape));
  TROUPE_ASSIGN_OR_RETURN(ObjectBuffer buffer, store.Allocate(bytes));
  WriteTensorHeader(dtype, shape, buffer.bytes());
  return TensorBuffer(std::move(buffer), dtype);
}

}  // namespace troupe
