// SPDX-License-Identifier: Apache-2.0
// Typed spawning and finding over an ActorSpawner: what a Runtime, a Simulation and an actor's context have in common.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/spawn.h"

namespace troupe::internal {

// Errors as of ActorSpawner::Spawn. `parent`: null for actors that stand on their own.
template <typename T, typename... Args>
absl::StatusOr<Ref<T>> SpawnActor(ActorSpawner& spawner, const std::shared_ptr<CallRouter>& router,
                                  const SpawnOptions& options, const ActorLife* parent, Args&&... args) {
  absl::StatusOr<ActorPlace> place =
      spawner.Spawn(ClassName<T>(), EncodeInit<T>(std::forward<Args>(args)...), options, parent);
  if (!place.ok()) return place.status();
  return Ref<T>(*std::move(place), router);
}

// The newest life of a name, whatever its class. Errors as of ActorSpawner::Find.
template <typename T>
absl::StatusOr<Ref<T>> FindActor(const ActorSpawner& spawner, const std::shared_ptr<CallRouter>& router,
                                 const std::string& name) {
  absl::StatusOr<ActorInfo> info = spawner.Find(name);
  if (!info.ok()) return info.status();
  return Ref<T>(info->address, router);
}

}  // namespace troupe::internal
