// SPDX-License-Identifier: Apache-2.0
#include "actors/worker/describe.h"

#include <nlohmann/json.hpp>

#include "actors/algorithms/advantages.h"
#include "actors/algorithms/policy_loss.h"
#include "runtime/actor/actor_class.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

template <typename Registry>
ordered_json Describe() {
  ordered_json list = ordered_json::array();
  for (const std::string& name : Registry::Get().Names()) {
    const AlgorithmSpec& spec = (*Registry::Get().Find(name))->spec;
    ordered_json options = ordered_json::array();
    for (const OptionSpec& option : spec.options) {
      ordered_json entry = {{"name", option.name}, {"meaning", option.meaning}};
      std::visit([&](const auto& value) { entry["default"] = value; }, option.default_value);
      options.push_back(std::move(entry));
    }
    list.push_back({{"name", name},
                    {"formula", spec.formula},
                    {"source", spec.source},
                    {"options", std::move(options)},
                    {"needs", spec.needs}});
  }
  return list;
}

}  // namespace

std::string DescribeWorker() {
  ordered_json description;
  description["actor_classes"] = ActorRegistry::Global().Names();
  description["adv_estimator"] = Describe<AdvantageRegistry>();
  description["loss_mode"] = Describe<PolicyLossRegistry>();
  return description.dump(2);
}

}  // namespace troupe
