// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_context.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/small_pool.h"
#include "runtime/rpc/channel.h"

namespace troupe {

ActorContext::ActorContext(ActorSetting setting, std::shared_ptr<CallRouter> router, ActorDirectory* directory)
    : ActorContext({setting.self, setting.endpoint}, setting.restarts, std::make_shared<const ActorSetting>(setting),
                   std::move(router), directory) {}

ActorContext::ActorContext(ActorAddress address, int restarts, std::shared_ptr<const ActorSetting> setting,
                           std::shared_ptr<CallRouter> router, ActorDirectory* directory)
    : setting_(std::move(setting)),
      door_(MakePooled<internal::LocalDoor>(std::move(address), router == nullptr ? nullptr : router->local_calls())),
      restarts_(restarts),
      router_(std::move(router)),
      directory_(directory) {}

ActorContext::~ActorContext() = default;

ActorContext::Extras& ActorContext::extras() {
  if (extras_ == nullptr) extras_ = std::make_unique<Extras>();
  return *extras_;
}

void ActorContext::Attach(internal::Strand* strand) {
  MutexLock lock(mutex_);
  strand_ = strand->Share();
}

void ActorContext::Detach() {
  std::shared_ptr<internal::Strand> strand;
  std::map<TimerId, Timer> timers;  // Destroyed outside the lock.
  std::map<MonitorId, uint64_t> monitors;
  {
    MutexLock lock(mutex_);
    strand.swap(strand_);
    if (extras_ != nullptr) timers.swap(extras_->timers);
    if (extras_ != nullptr) monitors.swap(extras_->monitors);
  }
  if (strand == nullptr) return;
  for (const auto& [id, timer] : timers) strand->executor().CancelTimer(timer.id);
  for (const auto& [id, watch] : monitors) router_->Unwatch(watch);
}

Monotonic ActorContext::Now() const {
  MutexLock lock(mutex_);
  return strand_ == nullptr ? Monotonic() : strand_->executor().Now();
}

ActorContext::TimerId ActorContext::After(absl::Duration delay, std::function<void()> run) {
  return AddTimer({0, Now() + std::max(delay, absl::ZeroDuration()), absl::ZeroDuration(), std::move(run)});
}

ActorContext::TimerId ActorContext::Every(absl::Duration period, std::function<void()> run) {
  TROUPE_CHECK(period > absl::ZeroDuration(), "a timer repeats after some time");
  return AddTimer({0, Now() + period, period, std::move(run)});
}

ActorContext::TimerId ActorContext::AddTimer(Timer timer) {
  MutexLock lock(mutex_);
  if (strand_ == nullptr) return 0;
  TimerId id = ++extras().timers_made;
  Arm(id, extras().timers[id] = std::move(timer));
  return id;
}

void ActorContext::Arm(TimerId id, Timer& timer) {
  std::weak_ptr<internal::Strand> weak = strand_;
  timer.id = strand_->executor().PostAt(timer.due, [this, weak, id] {
    if (auto strand = weak.lock()) strand->Run([this, id] { RunTimer(id); });
  });
}

void ActorContext::RunTimer(TimerId id) {
  std::function<void()> run;
  {
    MutexLock lock(mutex_);
    auto found = extras().timers.find(id);
    if (found == extras().timers.end() || strand_ == nullptr) return;
    Timer& timer = found->second;
    if (timer.period == absl::ZeroDuration()) {
      run = std::move(timer.run);
      extras().timers.erase(found);
    } else {
      run = timer.run;
      timer.due = std::max(timer.due + timer.period, strand_->executor().Now());
      Arm(id, timer);
    }
  }
  run();
}

void ActorContext::CancelTimer(TimerId id) {
  Timer timer;  // Destroyed outside the lock.
  std::shared_ptr<internal::Strand> strand;
  {
    MutexLock lock(mutex_);
    auto found = extras().timers.find(id);
    if (found == extras().timers.end()) return;
    timer = std::move(found->second);
    extras().timers.erase(found);
    strand = strand_;
  }
  if (strand != nullptr) strand->executor().CancelTimer(timer.id);
}

ActorContext::MonitorId ActorContext::Monitor(const ActorAddress& actor, EndedCallback ended) {
  std::weak_ptr<internal::Strand> weak;
  MonitorId id = 0;
  {
    MutexLock lock(mutex_);
    if (strand_ == nullptr) return 0;
    weak = strand_;
    id = ++extras().monitors_made;
    extras().monitors[id] = 0;
  }
  uint64_t watch = router_->Watch(actor, [this, weak, id, ended](const ActorLife& life, const v1::ExitCause& cause) {
    auto strand = weak.lock();
    if (strand == nullptr) return;
    strand->Run([this, id, ended, life, cause] {
      {
        MutexLock lock(mutex_);
        if (extras().monitors.erase(id) == 0) return;
      }
      ended(life, cause);
    });
  });
  {
    MutexLock lock(mutex_);
    if (auto found = extras().monitors.find(id); found != extras().monitors.end()) {
      found->second = watch;
      return id;
    }
  }
  if (watch != 0)
    router_->Unwatch(watch);  // It has been told, or another thread has ended it, or the actor, meanwhile.
  return id;
}

void ActorContext::Demonitor(MonitorId id) {
  uint64_t watch = 0;
  {
    MutexLock lock(mutex_);
    auto found = extras().monitors.find(id);
    if (found == extras().monitors.end()) return;
    watch = found->second;
    extras().monitors.erase(found);
  }
  if (watch != 0) router_->Unwatch(watch);
}

void ActorContext::Link(const ActorAddress& actor) {
  EndWith(actor);
  OutgoingCall call;
  call.method = internal::kLinkMethod;
  call.arguments = Encode(std::pair(self().ToString(), door_->endpoint));
  call.reply = [](const absl::StatusOr<std::string>&) {};  // One that has ended is told by EndWith.
  router_->Call(actor, std::move(call));
}

void ActorContext::EndWith(const ActorAddress& actor) {
  Monitor(actor, [this](const ActorLife& life, const v1::ExitCause& cause) {
    // A process whose actor stopped itself exits with 0.
    bool stopped = cause.kind() == v1::ExitCause::EXITED && cause.exit_code() == 0;
    if (stopped || cause.kind() == v1::ExitCause::STOPPED) return;
    v1::ExitCause own;
    own.set_kind(v1::ExitCause::EXITED);
    own.set_exit_code(1);
    own.set_text("linked to " + life.ToString() + ", which ended: " + cause.text());
    std::shared_ptr<internal::Strand> strand;
    {
      MutexLock lock(mutex_);
      strand = strand_;
    }
    if (strand != nullptr) strand->EndSelf(own);
  });
}

void ActorContext::StopSelf(const std::string& reason) {
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::STOPPED);
  cause.set_text(reason);
  std::shared_ptr<internal::Strand> strand;
  {
    MutexLock lock(mutex_);
    strand = strand_;
  }
  if (strand != nullptr) strand->EndSelf(cause);
}

std::shared_ptr<grpc::Channel> ActorContext::ChannelTo(const std::string& endpoint) {
  MutexLock lock(mutex_);
  std::shared_ptr<grpc::Channel>& channel = extras().channels[endpoint];
  if (channel == nullptr) channel = MakeChannel(endpoint, setting_->security);
  return channel;
}

}  // namespace troupe
