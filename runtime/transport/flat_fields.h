// SPDX-License-Identifier: Apache-2.0
// Numbers and texts one after the other, little-endian, as processes tell each other. Private to this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace troupe {

template <typename T>
void PutNumber(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A length (u16) and the bytes; longer ones are cut.
inline void PutText(std::string_view text, std::string& out) {
  text = text.substr(0, UINT16_MAX);
  PutNumber(static_cast<uint16_t>(text.size()), out);
  out.append(text);
}

// Takes fields from the front; after the first that is not there, none is.
class FieldReader {
 public:
  // `beside`: the rest, where it did not come with the fields; used up. Null: there is none.
  explicit FieldReader(std::string_view bytes, std::string* beside = nullptr) : rest_(bytes), beside_(beside) {}

  template <typename T>
  T Take() {
    T value{};
    if (rest_.size() < sizeof(value)) {
      Fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::string TakeBytes(size_t count) {
    if (count > rest_.size()) Fail();
    std::string bytes(rest_.substr(0, count));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string TakeText() { return TakeBytes(Take<uint16_t>()); }
  std::string TakeRest() {
    if (beside_ != nullptr && rest_.empty()) return std::move(*std::exchange(beside_, nullptr));
    return TakeBytes(rest_.size());
  }

  // INVALID_ARGUMENT: a field was missing, or something is left. `what` names it.
  absl::Status End(const char* what) const {
    if (failed_) return absl::InvalidArgumentError(std::string(what) + " is cut");
    if (beside_ != nullptr)
      return absl::InvalidArgumentError(std::string(what) + " has no place for the bytes beside it");
    if (rest_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(std::string(what) + " has " + std::to_string(rest_.size()) + " bytes too many");
  }

 private:
  void Fail() {
    failed_ = true;
    rest_ = {};
  }
  std::string_view rest_;
  std::string* beside_;
  bool failed_ = false;
};

}  // namespace troupe
