// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_class.h"

#include <algorithm>

#include "runtime/actor/actor.h"
#include "runtime/actor/json_arguments.h"
#include "runtime/base/status.h"

namespace troupe {

const ActorMethod* ActorClass::FindMethod(std::string_view name) const {
  auto found =
      std::find_if(methods.begin(), methods.end(), [&](const ActorMethod& method) { return method.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

ActorRegistry& ActorRegistry::Global() {
  static auto* registry = new ActorRegistry;  // Never destroyed: static objects of any file may use it.
  return *registry;
}

bool ActorRegistry::Add(ActorClass actor_class) {
  for (const auto& known : classes_) {
    if (known->name == actor_class.name) return false;
  }
  classes_.push_back(std::make_unique<ActorClass>(std::move(actor_class)));
  return true;
}

absl::StatusOr<const ActorClass*> ActorRegistry::Find(std::string_view name) const {
  for (const auto& known : classes_) {
    if (known->name == name) return known.get();
  }
  std::string known_names;
  for (const std::string& known : Names()) known_names += (known_names.empty() ? "" : ", ") + known;
  return absl::NotFoundError("this binary has no actor class '" + std::string(name) +
                             "'; it has: " + (known_names.empty() ? "none" : known_names));
}

std::vector<std::string> ActorRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& known : classes_) names.push_back(known->name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::unique_ptr<Actor>> ActorRegistry::ConstructFromJson(std::string_view name,
                                                                        std::string_view arguments_json) const {
  TROUPE_ASSIGN_OR_RETURN(const ActorClass* actor_class, Find(name));
  TROUPE_ASSIGN_OR_RETURN(std::string arguments, EncodeJsonArguments(arguments_json));
  absl::StatusOr<std::unique_ptr<Actor>> actor = actor_class->construct(arguments, nullptr);
  if (!actor.ok()) return Annotate(actor.status(), "actor class " + actor_class->name);
  return actor;
}

}  // namespace troupe
