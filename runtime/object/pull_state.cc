// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/pull_state.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace troupe {

PullState::PullState(int64_t chunks, std::string home, Monotonic now)
    : chunks_(chunks),
      home_(std::move(home)),
      has_(static_cast<size_t>(chunks), false),
      sequence_(static_cast<uint64_t>(now.nanoseconds())),
      ask_at_(now),
      progress_(now) {}

std::vector<PullAction> PullState::Step(const PullEvent& event, Monotonic now) {
  std::vector<PullAction> actions;
  if (ended_) return actions;
  if (const auto* plan = std::get_if<PlanCame>(&event)) Take(*plan, now, actions);
  if (const auto* failed = std::get_if<PlanFailed>(&event)) Take(*failed, now);
  if (const auto* came = std::get_if<ChunkCame>(&event)) Take(*came, now);
  if (const auto* failed = std::get_if<ChunkFailed>(&event)) Take(*failed, now);
  if (std::optional<absl::Status> end = End(now)) {
    ended_ = true;
    actions.emplace_back(std::in_place_type<PullEnded>, PullEnded{*end});
    return actions;
  }
  FetchFromOthers(now, actions);
  Ask(now, actions);
  return actions;
}

void PullState::Take(const PlanCame& plan, Monotonic now, std::vector<PullAction>& actions) {
  asking_ = false;
  home_failures_ = 0;
  home_refuses_ = false;
  bool fetches = false;
  for (const PullSource& other : plan.others) {
    if (others_.size() < kOthersMax || others_.contains(other.node)) others_[other.node] = other.endpoint;
  }
  for (const PlanCame::Fetch& fetch : plan.fetches) {
    bool is_new = fetch.chunk >= 0 && fetch.chunk < chunks_ && !has_[static_cast<size_t>(fetch.chunk)] &&
                  !fetching_.contains(fetch.chunk) && static_cast<int>(fetching_.size()) < kWindow;
    if (!is_new) continue;
    Fetch(fetch.chunk, fetch.source, fetch.crc, actions);
    fetches = true;
  }
  ask_again_ = fetches ? kAskAgainMin : std::min(2 * ask_again_, kAskAgainMax);
  ask_at_ = fetches ? now : now + ask_again_;
}

void PullState::Take(const PlanFailed& failed, Monotonic now) {
  asking_ = false;
  home_status_ = failed.status;
  ask_at_ = now + kHomeRetry;
  // What it says of the object is final; that it cannot be reached, or ends, may pass.
  home_refuses_ = !absl::IsUnavailable(failed.status) && !absl::IsDeadlineExceeded(failed.status) &&
                  !absl::IsAborted(failed.status) && !absl::IsCancelled(failed.status);
  home_failures_ = home_refuses_ ? kHomeFailures : home_failures_ + 1;
}

void PullState::Take(const ChunkCame& came, Monotonic now) {
  if (fetching_.erase(came.chunk) == 0) return;
  has_[static_cast<size_t>(came.chunk)] = true;
  ++arrived_;
  unsaid_.push_back(came.chunk);
  progress_ = now;
}

void PullState::Take(const ChunkFailed& failed, Monotonic now) {
  auto fetching = fetching_.find(failed.chunk);
  if (fetching == fetching_.end()) return;
  bool lost = absl::IsNotFound(failed.status) || absl::IsDataLoss(failed.status);
  failures_.push_back({failed.chunk, fetching->second.node, lost});
  lacks_[fetching->second.node].insert(failed.chunk);
  fetching_.erase(fetching);
  // The home knows of the failure at once; it names another source, or the same one after a while.
  ask_at_ = std::min(ask_at_, now + kAskAgainMin);
}

void PullState::Ask(Monotonic now, std::vector<PullAction>& actions) {
  int free = kWindow - static_cast<int>(fetching_.size());
  if (asking_ || now < ask_at_) return;
  // Not for each chunk alone, unless nothing else is on its way.
  if (free < kWindow / 2 && failures_.empty()) return;
  asking_ = true;
  AskPlan ask;
  ask.report.sequence = ++sequence_;
  ask.report.wanted = free;
  for (const auto& [chunk, source] : fetching_) ask.report.fetching.push_back(chunk);
  // Of a request that fails all is said again: that a chunk has arrived twice is harmless.
  ask.report.failed = std::exchange(failures_, {});
  if (home_failures_ > 0) {
    unsaid_.clear();
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (has_[static_cast<size_t>(chunk)]) unsaid_.push_back(chunk);
    }
  }
  ask.report.arrived = std::exchange(unsaid_, {});
  actions.emplace_back(std::in_place_type<AskPlan>, std::move(ask));
}

void PullState::FetchFromOthers(Monotonic now, std::vector<PullAction>& actions) {
  if (!home_lost() || others_.empty() || now < round_at_) return;
  bool untried = false;
  for (int64_t chunk = 0; chunk < chunks_ && static_cast<int>(fetching_.size()) < kWindow; ++chunk) {
    if (has_[static_cast<size_t>(chunk)] || fetching_.contains(chunk)) continue;
    for (const auto& [node, endpoint] : others_) {
      if (lacks_[node].contains(chunk)) continue;
      untried = true;
      Fetch(chunk, {node, endpoint}, std::nullopt, actions);
      break;
    }
  }
  if (untried || !fetching_.empty()) return;
  // They may have got more of it meanwhile.
  lacks_.clear();
  round_at_ = now + kRoundPause;
}

void PullState::Fetch(int64_t chunk, const PullSource& source, std::optional<uint32_t> crc,
                      std::vector<PullAction>& actions) {
  fetching_[chunk] = source;
  actions.push_back(FetchChunk{chunk, source, crc});
}

ChunkSwarm::Report PullState::OfferReport() {
  ChunkSwarm::Report report;
  report.sequence = ++sequence_;
  report.arrived = std::exchange(unsaid_, {});
  return report;
}

std::optional<absl::Status> PullState::End(Monotonic now) const {
  if (whole()) return absl::OkStatus();
  bool nowhere = home_refuses_ && others_.empty() && fetching_.empty();
  if (!nowhere && now - progress_ <= (home_refuses_ ? kOrphanStallMax : kStallMax)) return std::nullopt;
  std::string text = std::to_string(arrived_) + " of " + std::to_string(chunks_) + " chunks came from " + home_;
  if (home_failures_ == 0) {
    text += ", and nothing more for " + absl::FormatDuration(kStallMax) + "; try again";
    return absl::UnavailableError(text);
  }
  text += others_.empty() ? "; no other node is known to have it: " : "; no other node has the rest: ";
  return absl::Status(home_refuses_ ? home_status_.code() : absl::StatusCode::kUnavailable,
                      text + MessageOf(home_status_));
}

}  // namespace troupe
