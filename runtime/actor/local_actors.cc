// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/local_actors.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "runtime/actor/actor.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr size_t kNameBytesMax = 100;
// An owner's next life begins its actors' incarnations beyond those of the life before.
constexpr int kOwnerIncarnationShift = 32;

std::string PrefixOf(const ActorLife& owner) {
  return owner.path.role.empty() ? "" : owner.path.role + "." + std::to_string(owner.path.replica) + ".";
}

absl::Status CheckName(const std::string& name) {
  bool good = !name.empty() && name.size() <= kNameBytesMax &&
              std::all_of(name.begin(), name.end(),
                          [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError("'" + name + "' is no name for an actor: 1 to " + std::to_string(kNameBytesMax) +
                                    " of letters, digits, '_', '.' and '-'");
}

v1::ExitCause Cause(v1::ExitCause::Kind kind, const std::string& text) {
  v1::ExitCause cause;
  cause.set_kind(kind);
  cause.set_text(text);
  return cause;
}

}  // namespace

LocalActors::LocalActors(ActorSetting setting, ActorHost& host, std::shared_ptr<CallRouter> router, Executor& executor,
                         std::function<void(const ActorLife&, const v1::ExitCause&)> ended, ActorDirectory* directory,
                         ActorSpawner* spawner)
    : setting_(std::move(setting)),
      prefix_(PrefixOf(setting_.self)),
      host_(host),
      router_(std::move(router)),
      executor_(executor),
      ended_(std::move(ended)),
      directory_(directory),
      spawner_(spawner == nullptr ? this : spawner),
      incarnations_(setting_.self.incarnation << kOwnerIncarnationShift) {}

LocalActors::~LocalActors() = default;

absl::StatusOr<ActorAddress> LocalActors::Spawn(const std::string& actor_class, std::string arguments,
                                                SpawnOptions options, const ActorLife* parent) {
  if (options.NeedsProcess()) {
    return absl::FailedPreconditionError(
        "an actor with resources of its own is spawned by the program that holds the Runtime, not by a worker");
  }
  auto entry = std::make_shared<Entry>(std::move(options));
  TROUPE_ASSIGN_OR_RETURN(entry->actor_class, ActorRegistry::Global().Find(actor_class));
  entry->arguments = std::move(arguments);
  if (parent != nullptr && !entry->options.detached) entry->parent = *parent;
  std::string& name = entry->options.name;
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::UnavailableError("the runtime is stopping");
    bool given = !name.empty();
    while (!given && (name.empty() || entries_.count(prefix_ + name) > 0)) {
      name = actor_class + "-" + std::to_string(++unnamed_);
    }
    TROUPE_RETURN_IF_ERROR(CheckName(name));
    name = prefix_ + name;
    if (entries_.size() >= kActorsMax) {
      return absl::ResourceExhaustedError("there are " + std::to_string(entries_.size()) + " actors already");
    }
    auto [at, is_new] = entries_.emplace(name, entry);
    if (!is_new)
      return absl::AlreadyExistsError("there is an actor named '" + name + "': " + at->second->life.ToString());
    if (entry->parent.has_value()) {
      auto up = entries_.find(entry->parent->path.role);
      if (up != entries_.end() && up->second->life == *entry->parent) up->second->children.insert(name);
    }
  }
  absl::StatusOr<Future<void>> started = BeginLife(entry);
  absl::Status status = started.ok() ? started->Get() : started.status();
  if (!started.ok()) EndForGood(entry);
  if (!status.ok()) (void)internal::WaitFor(entry->ended, {}, Monotonic::Infinite());  // The name is free again.
  if (!status.ok()) return Annotate(status, "actor " + name + " (" + actor_class + ")");
  MutexLock lock(mutex_);
  entry->starting = false;
  return ActorAddress{entry->life, setting_.endpoint};
}

absl::StatusOr<Future<void>> LocalActors::BeginLife(const EntryPtr& entry) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor, entry->actor_class->construct(entry->arguments, router_));
  ActorSetting setting = setting_;
  {
    MutexLock lock(mutex_);
    setting.self = {{setting_.self.path.job, entry->options.name, 0}, ++incarnations_};
    setting.restarts = entry->restarted;
    entry->life = setting.self;
  }
  ActorLife life = setting.self;
  auto context = std::make_shared<ActorContext>(std::move(setting), router_, directory_);
  context->SetSpawner(spawner_);
  ActorCellOptions options;
  options.mailbox = entry->options.mailbox;
  bool own_thread = entry->options.own_thread && !executor_.simulated();
  options.executor = own_thread ? nullptr : &executor_;
  options.ended = [this, entry, context, life](const v1::ExitCause& cause) { LifeEnded(entry, life, cause); };
  if (entry->options.restart.on_exception) {
    options.threw = [context](const absl::Status& error) {
      internal::Strand::Current()->EndSelf(Cause(v1::ExitCause::EXITED, StatusText(error)));
    };
  }
  auto cell = std::make_shared<ActorCell>(*entry->actor_class, std::move(actor), *context, std::move(options));
  {
    MutexLock lock(mutex_);
    entry->cell = cell;
  }
  host_.Add(cell);
  return cell->Begin();
}

void LocalActors::LifeEnded(const EntryPtr& entry, const ActorLife& life, const v1::ExitCause& cause) {
  ended_(life, cause);
  host_.Remove(life);
  std::vector<EntryPtr> children;
  {
    MutexLock lock(mutex_);
    entry->cell = nullptr;
    entry->failed = cause;
    if (cause.kind() == v1::ExitCause::STOPPED || entry->starting) entry->stop_asked = true;
    for (const std::string& name : entry->children) children.push_back(entries_.at(name));
  }
  std::string reason = life.ToString() + ", which spawned it, has ended";
  for (const EntryPtr& child : children) AskToStop(child, reason, Cause(v1::ExitCause::STOPPED, reason));
  Settle(entry);
}

void LocalActors::Settle(const EntryPtr& entry) {
  std::optional<absl::Duration> delay;
  {
    MutexLock lock(mutex_);
    if (entry->cell != nullptr || !entry->failed.has_value() || !entry->children.empty()) return;
    if (entry->backoff_timer != 0) return;
    if (!entry->stop_asked) delay = entry->restarts.Next(executor_.Now());
    if (delay.has_value()) {
      // A timer also for no delay: this is the last turn of the life before.
      entry->backoff_timer = executor_.PostAt(executor_.Now() + *delay, [this, entry] { Restart(entry); });
    }
  }
  if (!delay.has_value()) EndForGood(entry);
}

void LocalActors::Restart(const EntryPtr& entry) {
  bool stop = false;
  {
    MutexLock lock(mutex_);
    entry->backoff_timer = 0;
    stop = entry->stop_asked;
    if (!stop) {
      entry->failed = std::nullopt;
      ++entry->restarted;
    }
  }
  if (stop) return EndForGood(entry);
  absl::StatusOr<Future<void>> started = BeginLife(entry);
  if (started.ok()) return;  // A failed OnStart ends the life, as any failure.
  {
    MutexLock lock(mutex_);
    entry->failed = Cause(v1::ExitCause::START_FAILED, StatusText(started.status()));
  }
  Settle(entry);
}

void LocalActors::EndForGood(const EntryPtr& entry) {
  EntryPtr parent;
  {
    MutexLock lock(mutex_);
    if (entry->ended.IsSet()) return;
    auto found = entries_.find(entry->options.name);
    if (found != entries_.end() && found->second == entry) entries_.erase(found);
    if (entry->parent.has_value()) {
      auto up = entries_.find(entry->parent->path.role);
      if (up != entries_.end() && up->second->children.erase(entry->options.name) > 0) parent = up->second;
    }
  }
  entry->ended.Set(absl::OkStatus());
  if (parent != nullptr) Settle(parent);
}

void LocalActors::AskToStop(const EntryPtr& entry, const std::string& reason, const v1::ExitCause& cause) {
  std::shared_ptr<ActorCell> cell;
  bool waits = false;
  {
    MutexLock lock(mutex_);
    entry->stop_asked = true;
    cell = entry->cell;
    waits = entry->backoff_timer != 0 && executor_.CancelTimer(entry->backoff_timer);
  }
  if (cell != nullptr) cell->BeginStop(reason, cause);
  if (waits) EndForGood(entry);
}

LocalActors::EntryPtr LocalActors::EntryOf(const ActorLife& life) const {
  MutexLock lock(mutex_);
  auto found = entries_.find(life.path.role);
  bool is_it = found != entries_.end() && found->second->life == life && life.path.job == setting_.self.path.job;
  return is_it ? found->second : nullptr;
}

absl::Status LocalActors::Stop(const ActorLife& life, const std::string& reason, absl::Duration grace) {
  EntryPtr entry = EntryOf(life);
  if (entry == nullptr) return absl::OkStatus();
  AskToStop(entry, reason, Cause(v1::ExitCause::STOPPED, reason));
  if (WaitEnded({entry}, executor_.Now() + grace)) return absl::OkStatus();
  return absl::DeadlineExceededError(life.ToString() + " (or a child of it) has not ended: a handler still runs");
}

void LocalActors::Crash(const ActorLife& life) {
  EntryPtr entry = EntryOf(life);
  std::shared_ptr<ActorCell> cell;
  if (entry != nullptr) {
    MutexLock lock(mutex_);
    cell = entry->cell;
  }
  v1::ExitCause cause = Cause(v1::ExitCause::SIGNALED, "killed by signal 9");
  cause.set_signal(9);
  if (cell != nullptr) cell->BeginStop(cause.text(), cause);
}

bool LocalActors::WaitEnded(const std::vector<EntryPtr>& entries, Monotonic deadline) {
  for (const EntryPtr& entry : entries) {
    if (!internal::WaitFor(entry->ended, {}, deadline).ok()) return false;
  }
  return true;
}

bool LocalActors::Shutdown(const std::string& reason, Monotonic deadline) {
  std::vector<EntryPtr> entries;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& [name, entry] : entries_) entries.push_back(entry);
  }
  // Children end with their parents, in that order.
  for (const EntryPtr& entry : entries) {
    if (!entry->parent.has_value()) AskToStop(entry, reason, Cause(v1::ExitCause::STOPPED, reason));
  }
  return WaitEnded(entries, deadline);
}

ActorInfo LocalActors::InfoOf(const Entry& entry, const ActorSetting& setting) {
  ActorInfo info;
  info.address = {entry.life, setting.endpoint};
  info.actor_class = entry.actor_class->name;
  info.labels = entry.options.labels;
  info.restarts = entry.restarted;
  info.alive = entry.cell != nullptr;
  if (entry.failed.has_value()) info.reason = entry.failed->text();
  return info;
}

absl::StatusOr<ActorInfo> LocalActors::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  auto found = entries_.find(prefix_ + name);
  if (found == entries_.end()) return absl::NotFoundError("there is no actor named '" + name + "'");
  return InfoOf(*found->second, setting_);
}

std::vector<ActorInfo> LocalActors::List() const {
  MutexLock lock(mutex_);
  std::vector<ActorInfo> list;
  for (const auto& [name, entry] : entries_) list.push_back(InfoOf(*entry, setting_));
  return list;
}

}  // namespace troupe
