// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/advantages.h"

namespace troupe {

absl::StatusOr<Advantages> ComputeAdvantages(const std::string& adv_estimator, const AdvantageInputs& inputs,
                                             const std::map<std::string, OptionValue>& options) {
  absl::StatusOr<const AdvantageRegistry::Entry*> entry = AdvantageRegistry::Get().Find(adv_estimator);
  if (!entry.ok()) return entry.status();
  absl::StatusOr<OptionValues> values = OptionValues::Pick((*entry)->spec, options);
  if (!values.ok()) return values.status();
  return (*entry)->function(inputs, *values);
}

}  // namespace troupe
