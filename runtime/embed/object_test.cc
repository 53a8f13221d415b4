// SPDX-License-Identifier: Apache-2.0
// Objects as users have them: refs in arguments, results, structs, one-way messages and streams of actors.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "runtime/embed/runtime.h"
#include "runtime/env/clock.h"

namespace troupe_test {

using troupe::ObjectBytes;
using troupe::ObjectRef;
using troupe::Tensor;

struct Batch {
  std::string name;
  std::vector<ObjectRef<Tensor>> columns;
  std::optional<ObjectRef<ObjectBytes>> notes;
};
TROUPE_STRUCT(Batch, name, columns, notes);

class Keeper : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  absl::StatusOr<double> Sum(const Batch& batch) {
    double sum = 0;
    for (const ObjectRef<Tensor>& column : batch.columns) {
      absl::StatusOr<Tensor> tensor = context_->Get(column);
      if (!tensor.ok()) return tensor.status();
      for (float value : tensor->values<float>()) sum += value;
    }
    return sum;
  }
  void Keep(const Batch& batch) { kept_ = batch; }
  Batch Kept() const { return kept_; }
  void Forget() { kept_ = Batch(); }
  absl::StatusOr<ObjectRef<std::vector<std::string>>> Names() {
    return context_->Put(std::vector<std::string>{"a", "b"});
  }
  troupe::Stream<ObjectRef<ObjectBytes>> Pieces(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      std::string piece(20'000, static_cast<char>('a' + i));
      absl::StatusOr<ObjectRef<ObjectBytes>> ref = context_->Put(std::as_bytes(std::span(piece)));
      if (!ref.ok()) co_return ref.status();
      co_yield *ref;
    }
    co_return absl::OkStatus();
  }
  Tensor Echo(const Tensor& tensor) { return tensor; }

 private:
  troupe::ActorContext* context_ = nullptr;
  Batch kept_;
};
TROUPE_ACTOR(Keeper, TROUPE_METHODS(Sum, Keep, Kept, Forget, Names, Pieces, Echo), TROUPE_INIT());

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::Batch;
using troupe_test::Keeper;

ObjectRef<Tensor> Ones(const Runtime& runtime, int64_t rows) {
  std::vector<float> ones(static_cast<size_t>(rows * 2), 1.0F);
  return runtime.Put(TensorSpan(std::span<const float>(ones), {rows, 2})).value();
}

bool AllIdle(const Runtime& runtime) {
  ObjectStore::Figures figures = runtime.objects().store()->figures();
  return figures.idle_bytes == figures.file_bytes && figures.in_transit == 0;
}

TEST_CASE("Objects: bytes, tensors and values are put and got, small and large", "[objects]") {
  Runtime runtime = Runtime::Local().value();
  for (size_t size : {0, 5, 9000, 1 << 20}) {
    std::string text(size, 'x');
    ObjectRef<ObjectBytes> bytes = runtime.Put(std::as_bytes(std::span<const char>(text))).value();
    CHECK(runtime.Get(bytes).value().text() == text);
    ObjectRef<std::string> value = runtime.Put(text).value();
    CHECK(runtime.Get(value).value() == text);
  }
  Tensor tensor = runtime.Get(Ones(runtime, 5000)).value();
  CHECK(tensor.shape() == std::vector<int64_t>{5000, 2});
  CHECK(runtime.Get(ObjectRef<Tensor>(tensor)).value().data() == tensor.data());
  CHECK(runtime.Get(ObjectRef<Tensor>()).status().code() == absl::StatusCode::kInvalidArgument);
  absl::Status nested = runtime.Put(std::vector{Ones(runtime, 1)}).status();
  CHECK(nested == absl::InvalidArgumentError("an object holds no refs of other objects"));
}

TEST_CASE("Objects: refs travel in structs, results, one-way messages and streams, and hold what they name",
          "[objects]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Keeper> keeper = runtime.Spawn<Keeper>({.name = "keeper"}).value();
  {
    std::string notes(50'000, 'n');
    Batch batch{"b", {Ones(runtime, 10), Ones(runtime, 5000)}, runtime.Put(std::as_bytes(std::span(notes))).value()};
    CHECK(keeper.Call<&Keeper::Sum>(batch).Get().value() == 20 + 10'000);
    REQUIRE(keeper.Send<&Keeper::Keep>(batch).ok());
  }
  Batch kept = keeper.Call<&Keeper::Kept>().Get().value();
  CHECK(keeper.Call<&Keeper::Sum>(kept).Get().value() == 20 + 10'000);
  CHECK(runtime.Get(*kept.notes).value().size() == 50'000);
  CHECK_FALSE(AllIdle(runtime));
  CHECK(runtime.Get(keeper.Call<&Keeper::Names>().Get().value()).value() == std::vector<std::string>{"a", "b"});
  StreamReader<ObjectRef<ObjectBytes>> pieces = keeper.Stream<&Keeper::Pieces>(5);
  for (char c = 'a'; c < 'f'; ++c) {
    std::optional<ObjectRef<ObjectBytes>> piece = pieces.Next().Get().value();
    CHECK(runtime.Get(*piece).value().text() == std::string(20'000, c));
  }
  CHECK(pieces.Next().Get().value() == std::nullopt);
  Tensor tensor = runtime.Get(kept.columns[1]).value();
  CHECK(keeper.Call<&Keeper::Echo>(tensor).Get().value().data() == tensor.data());
  tensor = Tensor();
  kept = Batch();
  REQUIRE(keeper.Call<&Keeper::Forget>().Get().ok());
  for (int i = 0; i < 1000 && !AllIdle(runtime); ++i) PauseFor(absl::Milliseconds(1));
  CHECK(AllIdle(runtime));
}

TEST_CASE("Objects: what was got stays good when the runtime has ended", "[objects]") {
  std::optional<Tensor> tensor;
  ObjectRef<Tensor> ref;
  {
    Runtime runtime = Runtime::Local().value();
    ref = Ones(runtime, 5000);
    tensor = runtime.Get(ref).value();
  }
  std::span<const float> values = tensor->values<float>();
  CHECK(std::accumulate(values.begin(), values.end(), 0.0F) == 10'000);
}

TEST_CASE("Objects: a ref of another kind, and damaged refs, are refused or cannot be got", "[objects]") {
  Runtime runtime = Runtime::Local().value();
  ObjectRef<Tensor> large = Ones(runtime, 5000), small = Ones(runtime, 2);
  CHECK(Decode<ObjectRef<ObjectBytes>>(Encode(large), runtime.router()).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(Decode<ObjectRef<Tensor>>(Encode(large)).status().code() == absl::StatusCode::kInvalidArgument);
  const std::string good = Encode(std::vector{large, small});
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    auto refs = Decode<std::vector<ObjectRef<Tensor>>>(bad, runtime.router());
    if (!refs.ok()) continue;
    for (const ObjectRef<Tensor>& ref : *refs) {
      absl::StatusOr<Tensor> tensor = runtime.Get(ref, absl::ZeroDuration());
      if (!tensor.ok() || tensor->elements() == 0) continue;
      volatile std::byte last = tensor->data()[tensor->view().bytes() - 1];
      (void)last;
    }
  }
  CHECK(runtime.Get(large).ok());
}

}  // namespace
}  // namespace troupe
