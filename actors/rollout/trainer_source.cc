// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/trainer_source.h"

#include <optional>

#include "runtime/worker/actor_directory.h"

namespace troupe {

absl::StatusOr<std::unique_ptr<TrainerSource>> TrainerSource::Open(ActorContext& context) {
  std::optional<DirectoryEntry> entry = context.directory().Find("actor", 0);
  if (!entry || !entry->ready()) return absl::UnavailableError("actor/0 is away");
  return std::unique_ptr<TrainerSource>(new TrainerSource(context, entry->address));
}

TrainerSource::TrainerSource(ActorContext& context, const ActorAddress& trainer)
    : PullSource(context.ChannelTo(trainer.endpoint)), context_(context) {
  listener_ = context.directory().AddListener([this, life = trainer.life](const DirectoryEntry& entry) {
    if (entry.life().path != life.path) return;
    // A head that was restarted may not know yet that the life is ready: that is no death.
    if (entry.ended() || entry.life().incarnation > life.incarnation) Cancel();
  });
}

TrainerSource::~TrainerSource() { context_.directory().RemoveListener(listener_); }

}  // namespace troupe
