// SPDX-License-Identifier: Apache-2.0
// Cases of public bug reports and properties; the values against the references are in //tools/golden_runner.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <limits>
#include <vector>

#include "actors/algorithms/advantages.h"
#include "actors/algorithms/kl.h"
#include "actors/algorithms/policy_loss.h"
#include "catch2/catch.hpp"

namespace troupe {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::Tensor Matrix(const std::vector<std::vector<double>>& rows) {
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return at::tensor(flat, at::kDouble).reshape({static_cast<int64_t>(rows.size()), -1});
}

PolicyLossInputs TwoRows() {
  PolicyLossInputs inputs;
  inputs.log_prob = Matrix({{-1.0, -0.5, -2.0}, {-0.7, -0.1, -3.0}});
  inputs.old_log_prob = Matrix({{-1.2, -0.5, -1.5}, {-0.2, -0.4, -3.0}});
  inputs.advantages = Matrix({{1.0, 1.0, 1.0}, {-0.5, -0.5, -0.5}});
  inputs.response_mask = Matrix({{1, 1, 0}, {1, 1, 1}});
  return inputs;
}

// Loss and gradient of one call.
std::pair<double, at::Tensor> LossAndGradient(PolicyLossInputs inputs) {
  inputs.log_prob = inputs.log_prob.clone().requires_grad_(true);
  absl::StatusOr<PolicyLoss> loss = ComputePolicyLoss("vanilla", inputs, {});
  REQUIRE(loss.ok());
  loss->loss.backward();
  return {loss->loss.item<double>(), inputs.log_prob.grad()};
}

}  // namespace

TEST_CASE("Advantages: an unknown estimator is refused with the nearest name", "[algorithms]") {
  const absl::StatusOr<Advantages> result = ComputeAdvantages("grop", {}, {});
  REQUIRE(result.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(result.status().message()).find("did you mean \"grpo\"") != std::string::npos);
}

TEST_CASE("Advantages: grpo's deviation is that of the group, of the batch, or none", "[algorithms]") {
  AdvantageInputs inputs;
  inputs.token_level_rewards = Matrix({{0, 1}, {0, 3}, {0, 10}, {0, 10}});
  inputs.response_mask = Matrix({{1, 1}, {1, 1}, {1, 1}, {1, 1}});
  inputs.index = at::tensor(std::vector<int64_t>{7, 7, 9, 9}, at::kLong);
  const auto first = [&](const std::string& scale) {
    absl::StatusOr<Advantages> result =
        ComputeAdvantages("grpo", inputs, {{"scale_rewards", scale}, {"adv_epsilon", 1e-4}});
    REQUIRE(result.ok());
    return result->advantages.select(0, 0).select(0, 0).item<double>();
  };
  CHECK(first("group") == Approx(-1 / (std::sqrt(2.0) + 1e-4)));
  const double batch_std = std::sqrt((25.0 + 9.0 + 16.0 + 16.0) / 3);
  CHECK(first("batch") == Approx(-1 / (batch_std + 1e-4)));
  CHECK(first("none") == Approx(-1));
  CHECK_FALSE(ComputeAdvantages("grpo", inputs, {{"scale_rewards", std::string("grup")}}).ok());
}

TEST_CASE("Advantages: the return of reinforce_plus_plus goes on past tool tokens", "[algorithms]") {
  AdvantageInputs inputs;
  inputs.token_level_rewards = Matrix({{0, 0, 0, 0, 0, 1}});
  inputs.response_mask = Matrix({{1, 1, 0, 0, 1, 1}});
  const Advantages result = ComputeAdvantages("reinforce_plus_plus", inputs, {}).value();
  CHECK(result.returns.equal(inputs.response_mask));
}

TEST_CASE("Policy loss: NaN outside the mask has no influence on loss and gradient", "[algorithms]") {
  PolicyLossInputs poisoned = TwoRows();
  for (at::Tensor* tensor : {&poisoned.log_prob, &poisoned.old_log_prob, &poisoned.advantages}) {
    tensor->select(0, 0).select(0, 2).fill_(kNaN);
  }
  for (const char* mode : {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean"}) {
    PolicyLossInputs clean = TwoRows();
    clean.aggregation.loss_agg_mode = poisoned.aggregation.loss_agg_mode = mode;
    const auto [loss, gradient] = LossAndGradient(clean);
    const auto [poisoned_loss, poisoned_gradient] = LossAndGradient(poisoned);
    CHECK(poisoned_loss == loss);
    CHECK(poisoned_gradient.equal(gradient));
  }
}

TEST_CASE("Policy loss: a batch that is masked altogether has loss 0 and gradient 0", "[algorithms]") {
  for (const char* mode : {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean"}) {
    PolicyLossInputs inputs = TwoRows();
    inputs.response_mask = inputs.response_mask * 0;
    inputs.aggregation.loss_agg_mode = mode;
    const auto [loss, gradient] = LossAndGradient(inputs);
    CHECK(loss == 0);
    CHECK(gradient.abs().sum().item<double>() == 0);
  }
}

TEST_CASE("Policy loss: the gradient does not depend on how rows fall into micro-batches", "[algorithms]") {
  for (const char* mode :
       {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    PolicyLossInputs whole = TwoRows();
    whole.aggregation = {.loss_agg_mode = mode, .batch_num_tokens = 5, .global_batch_size = 2, .loss_scale_factor = 3};
    const auto [loss, gradient] = LossAndGradient(whole);
    double sum = 0;
    for (int64_t row = 0; row < 2; ++row) {
      PolicyLossInputs part = whole;
      for (at::Tensor* tensor : {&part.log_prob, &part.old_log_prob, &part.advantages, &part.response_mask}) {
        *tensor = tensor->slice(0, row, row + 1);
      }
      const auto [part_loss, part_gradient] = LossAndGradient(part);
      sum += part_loss;
      CHECK(part_gradient.allclose(gradient.slice(0, row, row + 1), 1e-12, 1e-15));
    }
    CHECK(sum == Approx(loss).epsilon(1e-12));
  }
}

TEST_CASE("KL: k3+ has the value of k3 and the gradient of k2", "[algorithms]") {
  const at::Tensor logprob = Matrix({{-1.0, -2.0}}).requires_grad_(true);
  const at::Tensor reference = Matrix({{-1.5, -1.0}});
  const at::Tensor kl = KlPenalty(logprob, reference, "k3+").value();
  CHECK(kl.detach().equal(KlPenalty(logprob.detach(), reference, "k3").value()));
  kl.sum().backward();
  CHECK(logprob.grad().allclose(Matrix({{0.5, -1.0}})));
  CHECK_FALSE(KlPenalty(logprob, reference, "k4").ok());
}

}  // namespace troupe
