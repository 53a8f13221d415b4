// SPDX-License-Identifier: Apache-2.0
// A class in the place of the built-in Reward role: it has the same method, and this program hosts it (`class` and
// `worker_binary` in job.yaml).
#include <cctype>
#include <memory>

#include "actors/reward/row_scoring.h"
#include "runtime/actor/actor.h"
#include "runtime/base/status.h"
#include "runtime/worker/worker_main.h"

// The share of digits with this remainder by two in an answer of eight characters.
class DigitScorer : public troupe::RewardScorer {
 public:
  explicit DigitScorer(int64_t remainder) : remainder_(remainder) {}
  std::vector<troupe::RewardOutcome> Score(absl::Span<const troupe::RewardInput> inputs) override {
    std::vector<troupe::RewardOutcome> outcomes;
    for (const troupe::RewardInput& input : inputs) {
      double good = 0;
      for (unsigned char c : input.response) good += std::isdigit(c) && (c - '0') % 2 == remainder_ ? 1 : 0;
      outcomes.push_back({.score = good / 8});
    }
    return outcomes;
  }

 private:
  const int64_t remainder_;
};

class DigitReward : public troupe::Actor {
 public:
  explicit DigitReward(int64_t remainder) : scorer_(remainder) {}

  absl::Status OnStart(troupe::ActorContext& context) override {
    TROUPE_ASSIGN_OR_RETURN(rows_, troupe::RowScoring::Create(context));
    return absl::OkStatus();
  }

  // What the controller calls. One could also score without texts: the rows' columns come by FetchSources.
  absl::StatusOr<troupe::v1::ScoreResponse> Score(const troupe::v1::ScoreRequest& request) {
    return rows_->Score(request, scorer_);
  }

 private:
  DigitScorer scorer_;
  std::unique_ptr<troupe::RowScoring> rows_;
};
TROUPE_ACTOR(DigitReward, TROUPE_METHODS(Score), TROUPE_INIT(int64_t));

int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
