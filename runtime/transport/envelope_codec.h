// SPDX-License-Identifier: Apache-2.0
// Envelopes as records, of which rings and the frames of gRPC streams consist: flat, little-endian, without protobuf. A
// record is a length (u32, of what follows), a kind (u8), and by kind (text: a length u16 and the bytes; the rest of a
// record has no length of its own):
//
//   1 call    u8 flags (1 streams, 2 repeats) | u32 route | u64 call_id | i64 timeout_ns |
//             [u64 items | u64 item_bytes] | [u64 caller | u64 number] | the arguments
//   2 reply   u64 call_id | the result
//   3 item    u64 call_id | the value
//   4 grant   u64 call_id | u64 items | u64 item_bytes
//   5 cancel  u64 call_id | life
//   6 ack     u64 caller | u64 number
//   7 error   u64 call_id | u8 code | u32 length, the message | the CallError as protobuf: a reply that is none
//   9 probe, 10 confirm   a WaitProbe as protobuf
//   11 chunk  u64 transfer | u64 total_bytes | the bytes
//   12 credit u64 transfer | u64 bytes | u8 code | u32 length, the message
//   13 payload  u64 transfer: what the next record's payload came as
//   8 route   u32 route | life | text method: what calls mean by that number from here on
//   life:     text job | text role | i32 replica | u64 incarnation
//
// A route spares most calls their names. Its number is below kRoutesMax; when the sender has no more it begins anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/transport/envelope.h"

namespace troupe {

class FieldReader;

// Where envelope.bytes go, with which a record ends: into it, behind it by who sends (counted in its length), or by a
// way of their own (not counted).
enum class RecordBytes : uint8_t { kWithin, kBehind, kBeside };
// From so many on it pays not to copy them into the record.
inline constexpr size_t kLargeBytes = 16 << 10;

class EnvelopeWriter {
 public:
  static constexpr size_t kRoutesMax = 4096;

  // Appends the records of `envelope`: in the order in which they are sent, all of them. The last one ends with
  // envelope.bytes.
  void Write(const Envelope& envelope, std::string& out, RecordBytes bytes = RecordBytes::kWithin);

 private:
  uint32_t RouteOf(const std::shared_ptr<const CallRoute>& route, std::string& out);
  // Those that were told; holding them keeps their addresses from being used again. The last one is asked for most.
  absl::flat_hash_map<std::shared_ptr<const CallRoute>, uint32_t> routes_;
  const CallRoute* last_ = nullptr;
  uint32_t last_number_ = 0;
};

class EnvelopeReader {
 public:
  // A record without its length, and the bytes that came beside it (used up; null: none), into `envelope`, which is
  // empty. Kind kNone: it was for the reader itself. INVALID_ARGUMENT: it cannot be (says why).
  absl::Status Read(std::string_view record, Envelope& envelope, std::string* beside = nullptr);

 private:
  absl::Status ReadOne(std::string_view record, Envelope& envelope, std::string* beside);
  absl::Status ReadCall(FieldReader& fields, Envelope& envelope);
  absl::Status ReadRoute(std::string_view record);
  std::vector<std::shared_ptr<const CallRoute>> routes_;
  uint64_t transfer_ = 0;  // Of the next envelope.
};

}  // namespace troupe
