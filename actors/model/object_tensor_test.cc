// SPDX-License-Identifier: Apache-2.0
#include "actors/model/object_tensor.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/base/monotonic.h"

namespace troupe {
namespace {

TEST_CASE("TensorOver: an object's numbers are a LibTorch tensor without a copy, which holds the object", "[tensor]") {
  auto store = ObjectStore::Create({.name = "test"});
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
    const at::Tensor original = at::arange(6000, at::TensorOptions().dtype(type)).view({3, 2000});
    const TensorSpan view = SpanOf(original).value();
    TensorBuffer buffer = TensorBuffer::Create(*store, view.dtype(), view.shape()).value();
    std::memcpy(buffer.data(), view.data(), static_cast<size_t>(view.bytes()));
    const std::byte* written = buffer.data();
    at::Tensor over =
        TensorOver(Tensor::Of(store->Get(std::move(buffer).Seal(), Monotonic()).value()).value()).slice(0, 1, 3);
    CHECK(over.data_ptr() == written + view.bytes() / 3);
    CHECK(store->figures().idle_bytes < store->figures().file_bytes);
    CHECK(at::equal(over, original.slice(0, 1, 3)));
    over = at::Tensor();
    CHECK(store->figures().idle_bytes == store->figures().file_bytes);
  }
  CHECK_FALSE(SpanOf(at::arange(6).view({2, 3}).transpose(0, 1)).ok());
}

}  // namespace
}  // namespace troupe
