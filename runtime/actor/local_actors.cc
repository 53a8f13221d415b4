// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/local_actors.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/actor/actor.h"
#include "runtime/base/check.h"
#include "runtime/base/small_pool.h"
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
    : setting_(std::make_shared<const ActorSetting>(std::move(setting))),
      prefix_(PrefixOf(setting_->self)),
      host_(host),
      router_(std::move(router)),
      executor_(executor),
      ended_(std::move(ended)),
      directory_(directory),
      spawner_(spawner == nullptr ? this : spawner),
      incarnations_(setting_->self.incarnation << kOwnerIncarnationShift) {}

LocalActors::~LocalActors() = default;

absl::StatusOr<ActorPlace> LocalActors::Spawn(const std::string& actor_class, std::string arguments,
                                              const SpawnOptions& options, const ActorLife* parent) {
  if (options.NeedsProcess()) {
    return absl::FailedPreconditionError(
        "an actor with resources of its own is spawned by the program that holds the Runtime, not by a worker");
  }
  TROUPE_ASSIGN_OR_RETURN(const ActorClass* found, ActorRegistry::Global().Find(actor_class));
  auto entry = MakePooled<Entry>(*found, std::move(arguments), options);
  TROUPE_RETURN_IF_ERROR(Enter(entry, parent));
  absl::StatusOr<std::shared_ptr<internal::LocalDoor>> door = AwaitStart(entry);
  if (!door.ok()) return Annotate(door.status(), "actor " + entry->name + " (" + actor_class + ")");
  internal::LocalDoor* way = executor_.simulated() ? nullptr : door->get();
  return ActorPlace{*std::move(door), way};
}

absl::Status LocalActors::Enter(const EntryPtr& entry, const ActorLife* parent) {
  const bool named = !entry->name.empty();
  if (named) TROUPE_RETURN_IF_ERROR(CheckName(entry->name));
  // The actor that owns this process is in no list: Shutdown stands for its end.
  bool listed = parent != nullptr && *parent != setting_->self && !entry->detached;
  MutexLock lock(mutex_);
  if (named) entry->name = prefix_ + entry->name;
  if (named || stopping_) TROUPE_RETURN_IF_ERROR(CheckFree(entry->name));
  if (entries_.size() >= kActorsMax) {
    return absl::ResourceExhaustedError("there are " + std::to_string(entries_.size()) + " actors already");
  }
  if (listed) {
    EntryPtr up = Named(parent->path.role);
    bool lives = up != nullptr && up->IsLife(*parent) && up->failed == nullptr;
    if (!lives) return absl::UnavailableError(parent->ToString() + ", which spawns it, has ended");
    entry->parent = std::move(up);
  }
  do {
    if (!named) entry->name = absl::StrCat(prefix_, entry->actor_class->name, "-", ++unnamed_);
  } while ((!reserved_.empty() && reserved_.count(entry->name) > 0) || !entries_.insert(entry).second);
  if (listed) {
    std::unique_ptr<std::set<std::string>>& children = entry->parent->children;
    if (children == nullptr) children = std::make_unique<std::set<std::string>>();
    children->insert(entry->name);
  }
  return absl::OkStatus();
}

LocalActors::EntryPtr LocalActors::Named(std::string_view name) const {
  auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : *found;
}

absl::Status LocalActors::CheckFree(std::string_view name) const {
  if (stopping_) return absl::UnavailableError("the runtime is stopping");
  EntryPtr other = Named(name);
  if (other == nullptr && reserved_.count(std::string(name)) == 0) return absl::OkStatus();
  std::string where = other == nullptr         ? "in a process of its own"
                      : other->door == nullptr ? "it is being made"
                                               : other->door->life.ToString();
  return absl::AlreadyExistsError("there is an actor named '" + std::string(name) + "': " + where);
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

absl::StatusOr<std::shared_ptr<internal::LocalDoor>> LocalActors::AwaitStart(const EntryPtr& entry) {
  const bool waits = entry->actor_class->has_on_start;
  const Monotonic deadline = waits ? executor_.Now() + entry->start_timeout : Monotonic::Infinite();
  absl::StatusOr<Begun> begun = BeginLife(entry);
  if (!begun.ok()) EndForGood(entry);
  absl::Status status = begun.status();
  if (status.ok() && begun->started.valid()) status = begun->started.Get(deadline);
  if (status.ok() && waits) {
    MutexLock lock(mutex_);
    entry->starting = false;
    if (entry->stop_asked != nullptr) status = absl::UnavailableError("it was stopped: " + *entry->stop_asked);
  }
  if (status.ok()) return std::move(begun->door);
  if (begun.ok() && begun->started.valid()) {  // It has not been used up.
    std::string timeout = absl::FormatDuration(entry->start_timeout);
    status = absl::DeadlineExceededError("OnStart has not ended within " + timeout +
                                         " (SpawnOptions::start_timeout); it is stopped then");
    AskToStop(entry, "it did not start within " + timeout);
  }
  (void)internal::WaitFor(entry->ended, {}, deadline);  // Its name is free again then.
  return status;
}

absl::StatusOr<LocalActors::Begun> LocalActors::BeginLife(const EntryPtr& entry) {
  // The constructor runs without the lock, and who asks to stop meanwhile finds no cell.
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor, entry->actor_class->construct(entry->arguments, router_));
  ActorAddress address = {{{setting_->self.path.job, entry->name, 0}, 0}, setting_->endpoint};
  ActorCellOptions options;
  options.mailbox = entry->mailbox;
  bool own_thread = entry->own_thread && !executor_.simulated();
  options.executor = own_thread ? nullptr : &executor_;
  options.ended = [this, entry](const v1::ExitCause& cause) { LifeEnded(entry, cause); };
  options.ends_on_exception = entry->ends_on_exception;
  std::shared_ptr<ActorCell> cell;
  std::optional<std::string> stop;
  {
    MutexLock lock(mutex_);
    address.life.incarnation = ++incarnations_;
    // The one before is not used any more: its life is over.
    ActorContext& context = entry->context.emplace(std::move(address), entry->restarted, setting_, router_, directory_);
    context.SetSpawner(spawner_);
    entry->door = context.door();
    cell = MakePooled<ActorCell>(*entry->actor_class, std::move(actor), context, std::move(options));
    entry->cell = cell;
    if (entry->stop_asked != nullptr) stop = *entry->stop_asked;
    if (!entry->actor_class->has_on_start) entry->starting = false;
  }
  host_.Add(cell);
  Begun begun = {cell->door(), cell->Begin()};
  if (stop.has_value()) cell->BeginStop(*stop, Cause(v1::ExitCause::STOPPED, *stop));
  return begun;
}

void LocalActors::LifeEnded(const EntryPtr& entry, const v1::ExitCause& cause) {
  const ActorLife life = entry->context->self();
  ended_(life, cause);
  host_.Remove(life);
  std::shared_ptr<ActorCell> cell;  // Goes outside the lock.
  std::vector<EntryPtr> children;
  {
    MutexLock lock(mutex_);
    cell = std::move(entry->cell);
    entry->failed = std::make_unique<v1::ExitCause>(cause);
    bool final = cause.kind() == v1::ExitCause::STOPPED || entry->starting;
    if (final) entry->StopFor(cause.text());
    if (entry->HasChildren()) {
      for (const std::string& name : *entry->children) children.push_back(Named(name));
    }
  }
  for (const EntryPtr& child : children) AskToStop(child, life.ToString() + ", which spawned it, has ended");
  Settle(entry);
}

void LocalActors::Settle(const EntryPtr& entry) {
  std::optional<absl::Duration> delay;
  {
    MutexLock lock(mutex_);
    if (entry->cell != nullptr || entry->failed == nullptr || entry->HasChildren()) return;
    if (entry->backoff_timer != 0) return;
    if (entry->stop_asked == nullptr && entry->restarts != nullptr) delay = entry->restarts->Next(executor_.Now());
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
    stop = entry->stop_asked != nullptr;
    if (!stop) {
      entry->failed = nullptr;
      ++entry->restarted;
    }
  }
  if (stop) return EndForGood(entry);
  absl::StatusOr<Begun> started = BeginLife(entry);
  if (started.ok()) return;  // A failed OnStart ends the life, as any failure.
  {
    MutexLock lock(mutex_);
    entry->failed = std::make_unique<v1::ExitCause>(Cause(v1::ExitCause::START_FAILED, StatusText(started.status())));
  }
  Settle(entry);
}

void LocalActors::EndForGood(const EntryPtr& entry) {
  EntryPtr parent;
  {
    MutexLock lock(mutex_);
    if (entry->ended.IsSet()) return;
    if (auto found = entries_.find(entry->name); found != entries_.end() && *found == entry) entries_.erase(found);
    parent = std::move(entry->parent);
    if (parent != nullptr) parent->children->erase(entry->name);
  }
  entry->ended.Open();
  if (parent != nullptr) Settle(parent);
}

void LocalActors::AskToStop(const EntryPtr& entry, const std::string& reason) {
  std::shared_ptr<ActorCell> cell;
  bool waits = false;
  {
    MutexLock lock(mutex_);
    entry->StopFor(reason);
    cell = entry->cell;
    waits = entry->backoff_timer != 0 && executor_.CancelTimer(entry->backoff_timer);
  }
  if (cell != nullptr) cell->BeginStop(reason, Cause(v1::ExitCause::STOPPED, reason));
  if (waits) EndForGood(entry);
}

LocalActors::EntryPtr LocalActors::EntryOf(const ActorLife& life) const {
  MutexLock lock(mutex_);
  EntryPtr entry = Named(life.path.role);
  return entry != nullptr && entry->IsLife(life) ? entry : nullptr;
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
  std::vector<EntryPtr> entries, roots;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    entries.assign(entries_.begin(), entries_.end());
    for (const EntryPtr& entry : entries) {
      if (entry->parent == nullptr) roots.push_back(entry);
    }
  }
  // Children end with their parents, in that order.
  for (const EntryPtr& entry : roots) AskToStop(entry, reason);
  return WaitEnded(entries, deadline);
}

absl::StatusOr<ActorInfo> LocalActors::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  EntryPtr entry = Named(prefix_ + name);
  if (entry == nullptr) return absl::NotFoundError("there is no actor named '" + name + "'");
  return entry->Info();
}

std::vector<ActorInfo> LocalActors::List() const {
  std::vector<EntryPtr> entries;
  MutexLock lock(mutex_);
  entries.assign(entries_.begin(), entries_.end());
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a->name < b->name; });
  std::vector<ActorInfo> list;
  for (const EntryPtr& entry : entries) list.push_back(entry->Info());
  return list;
}

}  // namespace troupe
