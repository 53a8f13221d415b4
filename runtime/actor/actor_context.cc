// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_context.h"

#include "runtime/rpc/channel.h"

namespace troupe {

ActorContext::ActorContext(ActorSetting setting, std::shared_ptr<CallRouter> router, ActorDirectory* directory)
    : setting_(std::move(setting)), router_(std::move(router)), directory_(directory) {}

ActorContext::~ActorContext() = default;

std::shared_ptr<grpc::Channel> ActorContext::ChannelTo(const std::string& endpoint) {
  MutexLock lock(mutex_);
  std::shared_ptr<grpc::Channel>& channel = channels_[endpoint];
  if (channel == nullptr) channel = MakeChannel(endpoint, setting_.security);
  return channel;
}

}  // namespace troupe
