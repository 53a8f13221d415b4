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
  // The actor that owns this process is in no list: Shutdown stands for its end.
  bool listed = parent != nullptr && *parent != setting_.self;
  if (listed && !entry->options.detached) entry->parent = *parent;
  std::string& name = entry->options.name;
  {
    MutexLock lock(mutex_);
    bool given = !name.empty();
    while (!given && (name.empty() || entries_.count(prefix_ + name) + reserved_.count(prefix_ + name) > 0)) {
      name = actor_class + "-" + std::to_string(++unnamed_);
    }
    TROUPE_RETURN_IF_ERROR(CheckName(name));
    name = prefix_ + name;
    TROUPE_RETURN_IF_ERROR(CheckFree(name));
    if (entries_.size() >= kActorsMax) {
      return absl::ResourceExhaustedError("there are " + std::to_string(entries_.size()) + " actors already");
    }
    TROUPE_RETURN_IF_ERROR(Adopt(*entry));
    entries_[name] = entry;
  }
  absl::Status started = AwaitStart(entry);
  if (!started.ok()) return Annotate(started, "actor " + name + " (" + actor_class + ")");
  MutexLock lock(mutex_);
  return ActorAddress{entry->life, setting_.endpoint};
}

absl::Status LocalActors::CheckFree(const std::string& name) const {
  if (stopping_) return absl::UnavailableError("the runtime is stopping");
  auto found = entries_.find(name);
  if (found == entries_.end() && reserved_.count(name) == 0) return absl::OkStatus();
  std::string where = found == entries_.end() ? "in a process of its own" : found->second->life.ToString();
  return absl::AlreadyExistsError("there is an actor named '" + name + "': " + where);
}

absl::Status LocalActors::Reserve(const std::string& name) {
  MutexLock lock(mutex_);
  TROUPE_RETURN_IF_ERROR(CheckName(name));
  TROUPE_RETURN_IF_ERROR(CheckFree(prefix_ + name));
  reserved_.insert(prefix_ + name);
  return absl::OkStatus();
}

void LocalActors::Release(const std::string& name) {
  MutexLock lock(mutex_);
  reserved_.erase(prefix_ + name);
}

absl::Status LocalActors::Adopt(const Entry& entry) {
  if (!entry.parent.has_value()) return absl::OkStatus();
  auto up = entries_.find(entry.parent->path.role);
  bool lives = up != entries_.end() && up->second->life == *entry.parent && !up->second->failed.has_value();
  if (!lives) return absl::UnavailableError(entry.parent->ToString() + ", which spawns it, has ended");
  up->second->children.insert(entry.options.name);
  return absl::OkStatus();
}

absl::Status LocalActors::AwaitStart(const EntryPtr& entry) {
  absl::Duration timeout = entry->options.start_timeout;
  Monotonic deadline = executor_.Now() + timeout;
  absl::StatusOr<Future<void>> begun = BeginLife(entry);
  if (!begun.ok()) EndForGood(entry);
  absl::Status status = begun.ok() ? begun->Get(deadline) : begun.status();
  if (status.ok()) {
    MutexLock lock(mutex_);
    entry->starting = false;
    if (entry->stop_asked.has_value()) status = absl::UnavailableError("it was stopped: " + *entry->stop_asked);
  }
  if (status.ok()) return status;
  if (begun.ok() && begun->valid()) {  // It has not been used up.
    status = absl::DeadlineExceededError("OnStart has not ended within " + absl::FormatDuration(timeout) +
                                         " (SpawnOptions::start_timeout); it is stopped then");
    AskToStop(entry, "it did not start within " + absl::FormatDuration(timeout));
  }
  (void)internal::WaitFor(entry->ended, {}, deadline);  // Its name is free again then.
  return status;
}

absl::StatusOr<Future<void>> LocalActors::BeginLife(const EntryPtr& entry) {
  // The constructor runs without the lock, and who asks to stop meanwhile finds no cell.
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
  options.ends_on_exception = entry->options.restart.on_exception;
  auto cell = std::make_shared<ActorCell>(*entry->actor_class, std::move(actor), *context, std::move(options));
  std::optional<std::string> stop;
  {
    MutexLock lock(mutex_);
    entry->cell = cell;
    stop = entry->stop_asked;
  }
  host_.Add(cell);
  Future<void> started = cell->Begin();
  if (stop.has_value()) cell->BeginStop(*stop, Cause(v1::ExitCause::STOPPED, *stop));
  return started;
}

void LocalActors::LifeEnded(const EntryPtr& entry, const ActorLife& life, const v1::ExitCause& cause) {
  ended_(life, cause);
  host_.Remove(life);
  std::vector<EntryPtr> children;
  {
    MutexLock lock(mutex_);
    entry->cell = nullptr;
    entry->failed = cause;
    bool final = cause.kind() == v1::ExitCause::STOPPED || entry->starting;
    if (final && !entry->stop_asked.has_value()) entry->stop_asked = cause.text();
    for (const std::string& name : entry->children) children.push_back(entries_.at(name));
  }
  std::string reason = life.ToString() + ", which spawned it, has ended";
  for (const EntryPtr& child : children) AskToStop(child, reason);
  Settle(entry);
}

void LocalActors::Settle(const EntryPtr& entry) {
  std::optional<absl::Duration> delay;
  {
    MutexLock lock(mutex_);
    if (entry->cell != nullptr || !entry->failed.has_value() || !entry->children.empty()) return;
    if (entry->backoff_timer != 0) return;
    if (!entry->stop_asked.has_value()) delay = entry->restarts.Next(executor_.Now());
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
    stop = entry->stop_asked.has_value();
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

void LocalActors::AskToStop(const EntryPtr& entry, const std::string& reason) {
  std::shared_ptr<ActorCell> cell;
  bool waits = false;
  {
    MutexLock lock(mutex_);
    if (!entry->stop_asked.has_value()) entry->stop_asked = reason;
    cell = entry->cell;
    waits = entry->backoff_timer != 0 && executor_.CancelTimer(entry->backoff_timer);
  }
  if (cell != nullptr) cell->BeginStop(reason, Cause(v1::ExitCause::STOPPED, reason));
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
  AskToStop(entry, reason);
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
    if (!entry->parent.has_value()) AskToStop(entry, reason);
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
