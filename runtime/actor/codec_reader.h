// SPDX-License-Identifier: Apache-2.0
// The primitives below codec.h: tags, varints, lengths; a reader that never goes past its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace troupe {
class CallRouter;
}

namespace troupe::internal {

inline constexpr char kCodecVersion = 1;

enum class CodecTag : uint8_t {
  kFalse = 0x01,
  kTrue = 0x02,
  kSigned = 0x03,
  kUnsigned = 0x04,
  kFloat = 0x05,
  kDouble = 0x06,
  kBytes = 0x07,
  kList = 0x08,
  kMap = 0x09,
  kNothing = 0x0A,
  kMessage = 0x0B,
  kTuple = 0x0C,
  kArray = 0x0D,
  kRef = 0x0E,
  kStruct = 0x0F,
  kIntegers = 0x10,
  kObject = 0x11,
};

void WriteTag(CodecTag tag, std::string& out);
void WriteVarint(uint64_t value, std::string& out);
void WriteSigned(int64_t value, std::string& out);          // With its tag.
void WriteBytes(std::string_view bytes, std::string& out);  // Length and bytes, no tag.

// A name that the other side sent, cut for an error's text.
std::string ShownName(std::string_view name);

// Reads from the front. After the first failure every read fails and `error()` says what was wrong at which byte.
class CodecReader {
 public:
  explicit CodecReader(std::string_view bytes, std::shared_ptr<CallRouter> router = nullptr)
      : all_(bytes), rest_(bytes), router_(std::move(router)) {}

  bool ReadVersion();
  bool ReadEnd();
  bool ReadTag(CodecTag& tag);
  // A tag that must be `wanted`; `what` names the type for the error.
  bool ExpectTag(CodecTag wanted, std::string_view what);
  bool ReadVarint(uint64_t& value);
  // A length or count of things of at least `bytes_each` bytes that must still be there.
  bool ReadCount(uint64_t& count, size_t bytes_each);
  bool ReadFixed(void* out, size_t count);
  // Length and bytes, no tag. The view is into the input.
  bool ReadBytes(std::string_view& bytes);
  // The head of a struct; the error says which was found and which expected.
  bool ExpectStruct(std::string_view name, uint32_t version, size_t fields);
  // Any integer tag with its value; signed values arrive as two's complement.
  bool ReadInteger(uint64_t& value, bool& negative);
  bool NextIs(CodecTag tag) const { return !rest_.empty() && rest_[0] == static_cast<char>(tag); }

  // Always false, so that a failing read can return it.
  bool Fail(std::string message);
  bool Unexpected(std::string_view wanted, CodecTag found);
  const absl::Status& error() const { return error_; }
  // For the refs in a value; may be null.
  const std::shared_ptr<CallRouter>& router() const { return router_; }

 private:
  std::string_view all_;
  std::string_view rest_;
  const std::shared_ptr<CallRouter> router_;
  absl::Status error_;
};

}  // namespace troupe::internal
