// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/tensor.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "runtime/env/clock.h"

namespace troupe {
namespace {

std::vector<std::byte> ObjectOf(DType dtype, const std::vector<int64_t>& shape) {
  std::vector<std::byte> object(static_cast<size_t>(TensorObjectBytes(dtype, shape).value()));
  WriteTensorHeader(dtype, shape, object);
  return object;
}

TEST_CASE("Tensor: type, shape and numbers come back, aligned and without a copy", "[tensor]") {
  auto store = ObjectStore::Create({.name = "test"});
  for (int64_t rows : {2, 3000}) {
    TensorBuffer buffer = TensorBuffer::Create(*store, DType::kInt32, std::vector<int64_t>{rows, 3}).value();
    REQUIRE(buffer.values<int32_t>().size() == static_cast<size_t>(3 * rows));
    CHECK(buffer.values<float>().empty());
    for (size_t i = 0; i < buffer.values<int32_t>().size(); ++i) buffer.values<int32_t>()[i] = static_cast<int>(i);
    const std::byte* written = buffer.data();
    ObjectHandle handle = std::move(buffer).Seal();
    Tensor tensor = Tensor::Of(store->Get(handle, MonotonicNow()).value()).value();
    handle = nullptr;
    CHECK(tensor.data() == written);
    CHECK(reinterpret_cast<uintptr_t>(tensor.data()) % 64 == 0);
    CHECK(tensor.view().ToString() == "int32[" + std::to_string(rows) + ", 3]");
    CHECK(tensor.values<int32_t>()[5] == 5);
    CHECK(tensor.values<int64_t>().empty());
  }
}

TEST_CASE("Tensor: scalars and empty ones are tensors; wrong shapes and types are not", "[tensor]") {
  CHECK(ReadTensor(ObjectOf(DType::kFloat64, {})).value().elements() == 1);
  CHECK(ReadTensor(ObjectOf(DType::kBool, {4, 0})).value().elements() == 0);
  CHECK(TensorObjectBytes(DType::kBFloat16, std::vector<int64_t>{2, 5}).value() == 128 + 20);
  for (std::vector<int64_t> shape : {std::vector<int64_t>{-1}, std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40},
                                     std::vector<int64_t>(9, 1), std::vector<int64_t>{0, -5}}) {
    CHECK(TensorObjectBytes(DType::kFloat32, shape).status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(TensorObjectBytes(static_cast<DType>(11), {}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Tensor: a damaged header is DATA_LOSS or still lies inside its object", "[tensor]") {
  const std::vector<std::byte> good = ObjectOf(DType::kFloat32, {16, 4});
  std::mt19937_64 random(7);
  int refused = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> bad = good;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      bad[random() % 80] = static_cast<std::byte>(random());
    }
    if (random() % 8 == 0) bad.resize(random() % bad.size());
    absl::StatusOr<TensorSpan> view = ReadTensor(bad);
    if (!view.ok()) {
      ++refused;
      if (view.status().code() != absl::StatusCode::kDataLoss) FAIL(view.status());
    } else if (view->data() != bad.data() + kTensorHeaderBytes ||
               view->bytes() != static_cast<int64_t>(bad.size()) - kTensorHeaderBytes) {
      FAIL(view->ToString());
    }
  }
  CHECK(refused > 100'000);
}

}  // namespace
}  // namespace troupe
