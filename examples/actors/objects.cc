// SPDX-License-Identifier: Apache-2.0
// Objects: a tensor that is written once and read by actors in other processes without a copy.
#include <iostream>
#include <numeric>

#include "runtime/troupe.h"

// [reader]
class Reader : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  // The numbers stay where they are: in this process too they are read from the memory that they were put into.
  absl::StatusOr<double> Sum(const troupe::ObjectRef<troupe::Tensor>& ref) {
    absl::StatusOr<troupe::Tensor> tensor = context_->Get(ref);
    if (!tensor.ok()) return tensor.status();
    std::span<const float> values = tensor->values<float>();
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
  // An actor may make objects too, and a result may be one.
  absl::StatusOr<troupe::ObjectRef<std::string>> Report() { return context_->Put(std::string("all read")); }

 private:
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Reader, TROUPE_METHODS(Sum, Report), TROUPE_INIT());
// [/reader]

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  auto reader = runtime.Spawn<Reader>({.name = "reader", .cpus = 0.1}).value();
  // [put]
  std::vector<float> weights(1 << 20, 0.5F);
  troupe::TensorSpan span(std::span<const float>(weights), {1024, 1024});
  absl::StatusOr<troupe::ObjectRef<troupe::Tensor>> ref = runtime.Put(span);
  if (!ref.ok()) std::cerr << ref.status().message() << "\n";  // The memory or the budget is used up.
  absl::StatusOr<double> sum = reader.Call<&Reader::Sum>(*ref).Get();
  std::cout << sum.value() << "\n";  // 524288
  // [/put]
  // [get]
  troupe::ObjectRef<std::string> report = reader.Call<&Reader::Report>().Get().value();
  absl::StatusOr<std::string> text = runtime.Get(report, absl::Seconds(5));
  std::cout << text.value() << "\n";  // all read
  // [/get]
}
