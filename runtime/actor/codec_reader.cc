// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/codec_reader.h"

#include <cstring>

namespace troupe::internal {
namespace {

std::string_view NameOf(CodecTag tag) {
  static constexpr std::string_view kNames[] = {"an unknown tag",
                                                "a bool",
                                                "a bool",
                                                "an integer",
                                                "an integer",
                                                "a float",
                                                "a double",
                                                "bytes",
                                                "a list",
                                                "a map",
                                                "nothing",
                                                "a message",
                                                "a tuple",
                                                "an array",
                                                "a ref",
                                                "a struct",
                                                "an array of integers",
                                                "an object"};
  auto index = static_cast<size_t>(tag);
  return kNames[index < std::size(kNames) ? index : 0];
}

}  // namespace

void WriteTag(CodecTag tag, std::string& out) { out.push_back(static_cast<char>(tag)); }

void WriteVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void WriteSigned(int64_t value, std::string& out) {
  WriteTag(CodecTag::kSigned, out);
  WriteVarint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63), out);
}

void WriteBytes(std::string_view bytes, std::string& out) {
  WriteVarint(bytes.size(), out);
  out.append(bytes);
}

std::string ShownName(std::string_view name) { return std::string(name.substr(0, 100)); }

bool CodecReader::Fail(std::string message) {
  if (error_.ok()) {
    error_ = absl::InvalidArgumentError(message + " at byte " + std::to_string(all_.size() - rest_.size()) + " of " +
                                        std::to_string(all_.size()));
  }
  rest_ = {};
  return false;
}

bool CodecReader::Unexpected(std::string_view wanted, CodecTag found) {
  return Fail("expected " + std::string(wanted) + ", found " + std::string(NameOf(found)));
}

bool CodecReader::ReadVersion() {
  if (all_.empty()) return Fail("expected an encoded value, found no bytes");
  if (rest_[0] != kCodecVersion) return Fail("version " + std::to_string(rest_[0]) + " of the encoding is not known");
  rest_.remove_prefix(1);
  return true;
}

bool CodecReader::ReadEnd() {
  if (!error_.ok()) return false;
  return rest_.empty() || Fail(std::to_string(rest_.size()) + " bytes too many");
}

bool CodecReader::ReadTag(CodecTag& tag) {
  if (rest_.empty()) return Fail("the bytes end early");
  tag = static_cast<CodecTag>(rest_[0]);
  rest_.remove_prefix(1);
  return true;
}

bool CodecReader::ExpectTag(CodecTag wanted, std::string_view what) {
  CodecTag tag;
  if (!ReadTag(tag)) return false;
  return tag == wanted || Unexpected(what, tag);
}

bool CodecReader::ReadVarint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return Fail("the bytes end inside a number");
    auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return Fail("a number of more than 64 bits");
}

bool CodecReader::ReadCount(uint64_t& count, size_t bytes_each) {
  if (!ReadVarint(count)) return false;
  return count <= rest_.size() / bytes_each ||
         Fail("a count of " + std::to_string(count) + " that the bytes cannot hold");
}

bool CodecReader::ReadFixed(void* out, size_t count) {
  if (rest_.size() < count) return Fail("the bytes end early");
  if (count > 0) std::memcpy(out, rest_.data(), count);
  rest_.remove_prefix(count);
  return true;
}

bool CodecReader::ReadBytes(std::string_view& bytes) {
  uint64_t length;
  if (!ReadCount(length, 1)) return false;
  bytes = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return true;
}

bool CodecReader::ExpectStruct(std::string_view name, uint32_t version, size_t fields) {
  std::string expected = "expected struct " + std::string(name) + " version " + std::to_string(version);
  std::string_view found_name;
  uint64_t found_version, count;
  if (!ExpectTag(CodecTag::kStruct, "struct " + std::string(name) + " version " + std::to_string(version)) ||
      !ReadBytes(found_name) || !ReadVarint(found_version) || !ReadCount(count, 1)) {
    return false;
  }
  if (found_name != name || found_version != version) {
    return Fail(expected + ", found " + ShownName(found_name) + " version " + std::to_string(found_version) +
                ": build both sides from the same source");
  }
  return count == fields || Fail(expected + " with " + std::to_string(fields) + " fields, found " +
                                 std::to_string(count) + ": raise the version when fields change");
}

bool CodecReader::ReadInteger(uint64_t& value, bool& negative) {
  CodecTag tag;
  negative = false;
  if (!ReadTag(tag)) return false;
  if (tag != CodecTag::kSigned && tag != CodecTag::kUnsigned) return Unexpected("an integer", tag);
  if (!ReadVarint(value)) return false;
  if (tag == CodecTag::kSigned) {
    negative = (value & 1) != 0;
    value = (value >> 1) ^ (~(value & 1) + 1);
  }
  return true;
}

}  // namespace troupe::internal
