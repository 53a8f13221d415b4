// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/chunk_swarm.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "runtime/base/status.h"

namespace troupe {

ChunkSwarm::ChunkSwarm(std::string home, int64_t chunks)
    : home_(std::move(home)), chunks_(chunks), copies_(static_cast<size_t>(chunks), 1) {
  Node& node = nodes_[home_];
  node.has.assign(static_cast<size_t>(chunks), true);
  node.sends.assign(static_cast<size_t>(chunks), 0);
  node.had = chunks;
}

absl::StatusOr<std::vector<ChunkSwarm::Send>> ChunkSwarm::Step(const Report& report, Monotonic now) {
  TROUPE_RETURN_IF_ERROR(Check(report));
  DropSilent(now);
  auto known = nodes_.find(report.node);
  if (known != nodes_.end() && report.sequence <= known->second.sequence) {
    return absl::AbortedError("a report that was overtaken by another one");
  }
  if (report.leaves) {
    Drop(report.node);
    return std::vector<Send>();
  }
  if (known == nodes_.end()) {
    if (nodes_.size() > kNodesMax) {
      return absl::ResourceExhaustedError(std::to_string(kNodesMax) + " nodes fetch this object already");
    }
    Node& node = nodes_[report.node];
    node.has.assign(static_cast<size_t>(chunks_), false);
    node.sends.assign(static_cast<size_t>(chunks_), 0);
  }
  Node& node = nodes_.at(report.node);
  node.sequence = report.sequence;
  node.heard = now;
  for (int64_t chunk : report.arrived) Arrived(node, chunk);
  for (const Failure& failure : report.failed) Failed(node, failure, now);
  EndOthers(node, report.fetching);
  return Assign(report.node, node, report.wanted, now);
}

absl::Status ChunkSwarm::Check(const Report& report) const {
  auto is_chunk = [&](int64_t chunk) { return chunk >= 0 && chunk < chunks_; };
  bool good = report.node != home_ && !report.node.empty() &&
              std::all_of(report.arrived.begin(), report.arrived.end(), is_chunk) &&
              std::all_of(report.failed.begin(), report.failed.end(),
                          [&](const Failure& failure) { return is_chunk(failure.chunk); });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError("a report of the object's home, or of a chunk that the object does not have");
}

void ChunkSwarm::Arrived(Node& node, int64_t chunk) {
  auto at = static_cast<size_t>(chunk);
  if (node.has[at]) return;
  if (auto getting = node.getting.find(chunk); getting != node.getting.end()) {
    if (auto sender = nodes_.find(node.senders.at(chunk)); sender != nodes_.end()) --sender->second.uploads;
    node.getting.erase(getting);
  } else {
    ++copies_[at];  // From elsewhere, or after this swarm was told that it would not come.
  }
  node.has[at] = true;
  ++node.had;
}

void ChunkSwarm::Failed(Node& node, const Failure& failure, Monotonic now) {
  auto getting = node.getting.find(failure.chunk);
  if (getting != node.getting.end() && node.senders.at(failure.chunk) == failure.source) EndSend(node, failure.chunk);
  auto source = nodes_.find(failure.source);
  if (source == nodes_.end()) return;
  node.avoids[failure.source] = now + kAvoid;
  auto at = static_cast<size_t>(failure.chunk);
  if (!failure.lost || failure.source == home_ || !source->second.has[at]) return;
  source->second.has[at] = false;
  --source->second.had;
  --copies_[at];
  if (auto sender = source->second.senders.extract(failure.chunk); !sender.empty()) {
    if (auto above = nodes_.find(sender.mapped()); above != nodes_.end()) --above->second.sends[at];
  }
}

void ChunkSwarm::EndOthers(Node& node, const std::vector<int64_t>& fetching) {
  for (auto it = node.getting.begin(); it != node.getting.end();) {
    int64_t chunk = (it++)->first;
    if (std::find(fetching.begin(), fetching.end(), chunk) == fetching.end()) EndSend(node, chunk);
  }
}

void ChunkSwarm::EndSend(Node& node, int64_t chunk) {
  auto sender = node.senders.extract(chunk);
  node.getting.erase(chunk);
  --copies_[static_cast<size_t>(chunk)];
  auto source = nodes_.find(sender.mapped());
  if (source == nodes_.end()) return;
  --source->second.uploads;
  --source->second.sends[static_cast<size_t>(chunk)];
}

void ChunkSwarm::Drop(const std::string& name) {
  auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  while (!node.getting.empty()) EndSend(node, node.getting.begin()->first);
  for (const auto& [chunk, sender] : node.senders) {
    if (auto source = nodes_.find(sender); source != nodes_.end()) --source->second.sends[static_cast<size_t>(chunk)];
  }
  for (size_t chunk = 0; chunk < node.has.size(); ++chunk) copies_[chunk] -= node.has[chunk] ? 1 : 0;
  nodes_.erase(found);
  for (auto& [other, receiver] : nodes_) {
    receiver.avoids.erase(name);
    for (auto it = receiver.senders.begin(); it != receiver.senders.end();) {
      auto [chunk, sender] = *it++;
      if (sender != name) continue;
      receiver.senders.erase(chunk);
      if (receiver.getting.erase(chunk) > 0) --copies_[static_cast<size_t>(chunk)];
    }
  }
}

void ChunkSwarm::DropSilent(Monotonic now) {
  std::vector<std::string> silent;
  for (const auto& [name, node] : nodes_) {
    if (name != home_ && now - node.heard > kSilentMax) silent.push_back(name);
  }
  for (const std::string& name : silent) Drop(name);
}

std::vector<ChunkSwarm::Send> ChunkSwarm::Assign(const std::string& name, Node& node, int wanted, Monotonic now) {
  std::vector<Send> sends;
  wanted = std::min(wanted, kWindowMax - static_cast<int>(node.getting.size()));
  if (wanted <= 0 || node.had == chunks_) return sends;
  // The rarest chunks first, each node from another one on, so that what two nodes have soon differs.
  int64_t first = static_cast<int64_t>(std::hash<std::string>()(name) % static_cast<uint64_t>(chunks_));
  std::vector<std::tuple<int, int64_t, int64_t>> missing;  // Copies, distance from the first, chunk.
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    if (node.has[static_cast<size_t>(chunk)] || node.getting.contains(chunk)) continue;
    missing.emplace_back(copies_[static_cast<size_t>(chunk)], (chunk - first + chunks_) % chunks_, chunk);
  }
  std::make_heap(missing.begin(), missing.end(), std::greater<>());
  while (!missing.empty() && static_cast<int>(sends.size()) < wanted) {
    std::pop_heap(missing.begin(), missing.end(), std::greater<>());
    int64_t chunk = std::get<2>(missing.back());
    missing.pop_back();
    std::string source = SourceOf(chunk, node, now);
    if (source.empty()) continue;
    Node& sender = nodes_.at(source);
    ++sender.uploads;
    ++sender.sends[static_cast<size_t>(chunk)];
    node.senders[chunk] = source;
    node.getting[chunk] = true;
    ++copies_[static_cast<size_t>(chunk)];
    sends.push_back({chunk, std::move(source)});
  }
  return sends;
}

std::string ChunkSwarm::SourceOf(int64_t chunk, const Node& receiver, Monotonic now) const {
  const std::string* best = nullptr;
  std::pair<bool, int> best_cost;
  auto at = static_cast<size_t>(chunk);
  for (const auto& [name, source] : nodes_) {
    if (!source.has[at] || source.sends[at] >= kSendsMax || source.uploads >= kUploadsMax) continue;
    auto avoided = receiver.avoids.find(name);
    if (avoided != receiver.avoids.end() && avoided->second > now) continue;
    // The home only when no other is free.
    std::pair<bool, int> cost{name == home_, source.uploads};
    if (best == nullptr || cost < best_cost) {
      best = &name;
      best_cost = cost;
    }
  }
  return best == nullptr ? "" : *best;
}

std::vector<std::string> ChunkSwarm::Nodes() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    if (name != home_) names.push_back(name);
  }
  return names;
}

bool ChunkSwarm::IsFetching(const std::string& but) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& node) { return node.first != but && node.second.had < chunks_; });
}

}  // namespace troupe
