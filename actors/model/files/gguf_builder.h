// SPDX-License-Identifier: Apache-2.0
// Builds small GGUF files for tests: also wrong ones, since nothing is checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Metadata and tensors in the order of the calls, each of which adds one and returns the builder:
//   std::string file = GgufBuilder().String("general.architecture", "llama").Tensor("x", {2}, {1, 2}).Build();
class GgufBuilder {
 public:
  // Metadata by its type in the file (GgufValueType).
  GgufBuilder& String(std::string_view key, std::string_view value) {
    return Key(key, 8), Text(metadata_, value), *this;
  }
  GgufBuilder& Uint32(std::string_view key, uint32_t value) { return Key(key, 4), Number(metadata_, value), *this; }
  GgufBuilder& Float32(std::string_view key, float value) { return Key(key, 6), Number(metadata_, value), *this; }
  GgufBuilder& Strings(std::string_view key, const std::vector<std::string>& values) {
    Key(key, 9);
    Number(metadata_, uint32_t{8});
    Number(metadata_, static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) Text(metadata_, value);
    return *this;
  }
  GgufBuilder& Ints(std::string_view key, const std::vector<int32_t>& values) {
    Key(key, 9);
    Number(metadata_, uint32_t{5});
    Number(metadata_, static_cast<uint64_t>(values.size()));
    for (int32_t value : values) Number(metadata_, value);
    return *this;
  }
  // A tensor of a type of ggml (GgmlType) whose data is `bytes`, whatever the shape promises; float32 for `values`.
  // `shape`: row-major, as everywhere but in the file. Data is aligned to 32 bytes.
  GgufBuilder& Tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type, std::string_view bytes) {
    Text(infos_, name);
    Number(infos_, static_cast<uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size) Number(infos_, static_cast<uint64_t>(*size));
    Number(infos_, type);
    Number(infos_, static_cast<uint64_t>(data_.size()));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensors_;
    return *this;
  }
  GgufBuilder& Tensor(std::string_view name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    return Tensor(name, shape, 0, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  // The file's content. `version`: 2 or 3, which differ by this number alone.
  std::string Build(uint32_t version = 3) const {
    std::string out = "GGUF";
    Number(out, version);
    Number(out, tensors_);
    Number(out, keys_);
    out += metadata_ + infos_;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

 private:
  template <typename T>
  static void Number(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void Text(std::string& out, std::string_view text) {
    Number(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  void Key(std::string_view key, uint32_t type) {
    Text(metadata_, key);
    Number(metadata_, type);
    ++keys_;
  }

  std::string metadata_, infos_, data_;
  uint64_t keys_ = 0, tensors_ = 0;
};

}  // namespace troupe
