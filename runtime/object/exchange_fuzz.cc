// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what other nodes send during a pull and a broadcast: plans, reports, requests for chunks, and chunks.
// The input is a sequence of records (kind, length in two bytes, message) to one home and one node that fetches. Any
// bytes give what was sent or an error; whatever is said, the bounds of ChunkSwarm and PullState hold, and no byte is
// written beside a chunk's place.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/object/chunk_wire.h"
#include "runtime/object/exchange_service.h"
#include "runtime/object/exchange_wire.h"

namespace troupe {
namespace {

constexpr int64_t kChunks = 12;       // More than a window.
constexpr size_t kFetchedBytes = 40;  // Of a chunk here, so that inputs are short.

void Require(bool holds) {
  if (!holds) std::abort();
}

// Cut where its own bytes say; an empty slice among them now and then.
std::vector<grpc::Slice> SlicesOf(std::string_view bytes) {
  std::vector<grpc::Slice> slices;
  while (!bytes.empty()) {
    size_t part = std::min<size_t>(bytes.size(), static_cast<unsigned char>(bytes[0]) % 16);
    slices.emplace_back(bytes.data(), part);
    part = std::max<size_t>(part, 1);
    if (slices.back().size() == 0) slices.emplace_back(bytes.data(), part);
    bytes.remove_prefix(part);
  }
  return slices;
}

// The home: it is told what nodes have, and asked for chunks.
class Home {
 public:
  void TakeReport(std::string_view bytes, Monotonic now) {
    v1::PlanPullRequest request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    absl::StatusOr<ChunkSwarm::Report> report = ReportOf(request);
    if (!report.ok()) return;
    v1::PlanPullRequest again = ToProto(ObjectId::FromProto(request.name()), request.size_bytes(), *report);
    again.set_node_id(request.node_id());
    absl::StatusOr<ChunkSwarm::Report> same = ReportOf(again);
    Require(same.ok() && same->arrived == report->arrived && same->fetching == report->fetching &&
            same->failed.size() == report->failed.size() && same->wanted == report->wanted &&
            same->leaves == report->leaves && same->sequence == report->sequence);
    absl::StatusOr<std::vector<ChunkSwarm::Send>> sends = swarm_.Step(*report, now);
    if (!sends.ok()) return;
    for (int64_t chunk : report->arrived) said_.insert({report->node, chunk});
    Require(sends->size() <= static_cast<size_t>(ChunkSwarm::kWindowMax));  // SWARM-4
    std::set<int64_t> chunks;
    for (const ChunkSwarm::Send& send : *sends) {
      Require(send.chunk >= 0 && send.chunk < kChunks && chunks.insert(send.chunk).second);
      Require(send.source != report->node);
      Require(send.source == "home" || said_.contains({send.source, send.chunk}));  // SWARM-1
    }
    Require(swarm_.Nodes().size() <= ChunkSwarm::kNodesMax);
  }

  void TakeGetChunk(std::string_view bytes) {
    grpc::Slice slice(bytes.data(), bytes.size());
    absl::StatusOr<ChunkName> name = DecodeGetChunk(grpc::ByteBuffer(&slice, 1));
    if (!name.ok() || !offered_.Has(name->chunk)) return;
    std::span<const std::byte> chunk = ChunkOf(offered_.bytes(), name->chunk);
    Require(chunk.data() >= Bytes().data() && chunk.data() + chunk.size() <= Bytes().data() + Bytes().size());
    absl::StatusOr<ChunkName> again = DecodeGetChunk(EncodeGetChunk(*name));
    Require(again.ok() && again->id == name->id && again->chunk == name->chunk);
  }

 private:
  static std::span<const std::byte> Bytes() {
    static const std::vector<std::byte> bytes(2 * kChunkBytes + 100);
    return bytes;
  }
  ChunkSwarm swarm_{"home", kChunks};
  std::set<std::pair<std::string, int64_t>> said_;
  const OfferedObject offered_{Bytes(), nullptr, true};
};

// The node that fetches: the home tells it a plan, sources send it chunks.
class Fetcher {
 public:
  explicit Fetcher(Monotonic now) : state_(kChunks, "the home", now), bytes_(kFetchedBytes + 8, std::byte{0x5a}) {
    Step(PullTick(), now);
  }

  void TakePlan(std::string_view bytes, Monotonic now) {
    v1::PlanPullResponse response;
    if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    absl::StatusOr<PlanCame> plan = PlanOf(response);
    if (plan.ok()) return Step(*std::move(plan), now);
    Step(PlanFailed{plan.status()}, now);
  }

  // Of the request that is the oldest.
  void TakeChunk(std::string_view bytes, Monotonic now) {
    std::span<std::byte> place = std::span(bytes_).first(kFetchedBytes);
    std::optional<uint32_t> crc;
    if (!fetching_.empty()) crc = fetching_.front().crc;
    absl::Status status = DecodeChunk(SlicesOf(bytes), crc, place);
    Require(
        std::all_of(bytes_.begin() + kFetchedBytes, bytes_.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
    if (status.ok()) {
      Require(!crc.has_value() || ChunkSum(place) == *crc);
      Require(bytes.substr(bytes.size() - kFetchedBytes) ==
              std::string_view(reinterpret_cast<const char*>(place.data()), place.size()));
    }
    if (fetching_.empty()) return;
    int64_t chunk = fetching_.front().chunk;
    fetching_.erase(fetching_.begin());
    if (status.ok()) has_.insert(chunk);
    if (status.ok()) return Step(ChunkCame{chunk}, now);
    Step(ChunkFailed{chunk, status}, now);
  }

  void Step(const PullEvent& event, Monotonic now) {
    for (const PullAction& action : state_.Step(event, now)) {
      Require(!ended_);  // PULL-3
      if (const auto* fetch = std::get_if<FetchChunk>(&action)) {
        Require(fetch->chunk >= 0 && fetch->chunk < kChunks && !has_.contains(fetch->chunk));
        Require(std::none_of(fetching_.begin(), fetching_.end(),
                             [&](const FetchChunk& other) { return other.chunk == fetch->chunk; }));  // PULL-1
        fetching_.push_back(*fetch);
        Require(fetching_.size() <= static_cast<size_t>(PullState::kWindow));  // PULL-2
      } else if (const auto* end = std::get_if<PullEnded>(&action)) {
        ended_ = true;
        Require(end->status.ok() == (has_.size() == static_cast<size_t>(kChunks)));
      }
    }
  }

 private:
  PullState state_;
  std::vector<std::byte> bytes_;
  std::vector<FetchChunk> fetching_;
  std::set<int64_t> has_;
  bool ended_ = false;
};

void Run(std::string_view bytes) {
  Monotonic now = Monotonic::FromNanoseconds(1'000'000'000);
  Home home;
  Fetcher fetcher(now);
  while (bytes.size() >= 3) {
    char kind = bytes[0];
    uint16_t length = 0;
    std::memcpy(&length, bytes.data() + 1, sizeof(length));
    std::string_view message = bytes.substr(3, length);
    bytes.remove_prefix(3 + message.size());
    now = now + absl::Milliseconds(1);
    if (kind == 'R') home.TakeReport(message, now);
    if (kind == 'G') home.TakeGetChunk(message);
    if (kind == 'P') fetcher.TakePlan(message, now);
    if (kind == 'C') fetcher.TakeChunk(message, now);
    if (kind != 'T' || message.empty()) continue;
    now = now + static_cast<unsigned char>(message[0]) * absl::Milliseconds(100);
    fetcher.Step(PullTick(), now);
  }
}

}  // namespace
}  // namespace troupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::SetLogHandler(nullptr);  // Of strings that are not UTF-8.
  troupe::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
