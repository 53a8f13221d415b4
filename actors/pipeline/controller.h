// SPDX-License-Identifier: Apache-2.0
// Controller: the actor that runs a training job. A thin driver around PipelineState: events come in through one queue,
// records go to the log, actions to the roles, the checkpoint folder, the run's files and the head.
#pragma once

#include <memory>

#include "runtime/actor/actor.h"
#include "troupe/v1/head.pb.h"

namespace troupe {

class Controller final : public Actor {
 public:
  Controller();
  ~Controller() override;

  absl::Status OnStart(ActorContext& context) override;
  void OnStop(std::string_view reason) override;

  // What it reports to the head, for programs that embed a pipeline.
  v1::JobProgress GetProgress();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

TROUPE_ACTOR_INTERFACE(Controller, TROUPE_METHODS(GetProgress));

}  // namespace troupe
