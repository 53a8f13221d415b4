// SPDX-License-Identifier: Apache-2.0
// What two processes tell each other on the Unix socket beside their rings: the dialer's offer, with the rings' memory
// as a descriptor unless it resumes; the other's answer; and of either, at the end, why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// Of rings, frames, records and of what stands here.
inline constexpr uint32_t kRingVersion = 3;
inline constexpr size_t kRingPacketBytesMax = 8 << 10;

struct RingOffer {
  uint32_t version = kRingVersion;
  uint64_t ring_bytes = 0;
  uint64_t epoch = 0;
  std::string token;
  std::string process;  // Name of the dialer, for people.
  // The other has the rings of that epoch; the socket beside them broke, and this takes its place.
  bool resumes = false;
};

// Errors of both: INVALID_ARGUMENT with what is wrong. FAILED_PRECONDITION: the dialer speaks another version.
std::string EncodeOffer(const RingOffer& offer);
absl::StatusOr<RingOffer> DecodeOffer(std::string_view packet);

// The status of an answer (OK: the rings are taken) or of a farewell.
std::string EncodeRingStatus(const absl::Status& status);
// INVALID_ARGUMENT of what is none.
absl::Status DecodeRingStatus(std::string_view packet);

// "/folder/w-1.ring" of the endpoint "unix:/folder/w-1.sock"; "" of an endpoint of other machines.
std::string RingSocketPath(std::string_view endpoint);

}  // namespace troupe
