// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/keeper_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/file.h"
#include "runtime/keeper/keeper_state.h"
#include "runtime/keeper/packets.h"

namespace troupe::agent {
namespace {

// A keeper is ready in milliseconds; it first ends what one before it left (up to 10 s), and one that is just ending
// takes as long as its workers' ends take.
constexpr absl::Duration kConnectTimeout = absl::Seconds(30);
// For each packet of its inventory; a keeper that takes longer is stopped or stuck.
constexpr absl::Duration kGreetTimeout = absl::Seconds(20);
constexpr absl::Duration kConnectRetry = absl::Milliseconds(10);
constexpr absl::Duration kSendTimeout = absl::Seconds(2);
constexpr absl::Duration kReconnectPause = absl::Milliseconds(50);
constexpr absl::Duration kReadTurn = absl::Milliseconds(200);
// A keeper that says nothing for so many turns (2 s) is asked something; one that leaves so many of these unanswered
// (10 s) is stopped or stuck for good. Turns, not time: while this agent itself was stopped, none passed.
constexpr int kSilentTurns = 10;
constexpr int kUnansweredMax = 5;
// Workers die with their keeper at once; after this they are killed again by their pidfds.
constexpr absl::Duration kDieWithKeeper = absl::Seconds(5);
constexpr int64_t kKeeperLogBytesMax = 1 << 20;

bool HasEnded(int pidfd) {
  pollfd fd{pidfd, POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

std::string LastLineOf(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, 2 * kKeeperLogBytesMax);
  if (!text.ok()) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  size_t line = text->rfind('\n');
  return line == std::string::npos ? *text : text->substr(line + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeeperLink>> KeeperLink::Start(KeeperLinkOptions options, Sink sink) {
  std::unique_ptr<KeeperLink> link(new KeeperLink(std::move(options), std::move(sink)));
  absl::StatusOr<KeeperConnected> connected = link->Connect();
  if (!connected.ok()) return connected.status();
  link->sink_(*std::move(connected));
  link->reader_ = std::thread([raw = link.get()] { raw->Read(); });
  return link;
}

KeeperLink::~KeeperLink() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (socket_ != nullptr) socket_->Shutdown();
  }
  if (reader_.joinable()) reader_.join();
  ReapKeeper();
}

bool KeeperLink::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

pid_t KeeperLink::keeper_pid() const {
  MutexLock lock(mutex_);
  return keeper_;
}

// ---- Orders ----

uint64_t KeeperLink::Send(v1::KeeperRequest request) {
  std::shared_ptr<UnixSocket> socket;
  uint64_t id;
  {
    MutexLock lock(mutex_);
    id = next_request_++;
    if (request.has_spawn()) spawns_[id] = ActorLife::FromProto(request.spawn().actor());
    socket = socket_;
  }
  if (socket == nullptr) return id;
  request.set_request_id(id);
  absl::Status status = keeper::SendPacket(*socket, request, {}, MonotonicNow() + kSendTimeout);
  if (absl::IsInvalidArgument(status) && request.has_spawn()) {
    sink_(SpawnRefused{ActorLife::FromProto(request.spawn().actor()), status});
  } else if (!status.ok()) {
    socket->Shutdown();
  }
  return id;
}

void KeeperLink::Spawn(const v1::KeeperSpawn& spawn) {
  v1::KeeperRequest request;
  *request.mutable_spawn() = spawn;
  Send(std::move(request));
}

void KeeperLink::Signal(const ActorLife& actor, int signal) {
  v1::KeeperRequest request;
  *request.mutable_signal()->mutable_actor() = actor.ToProto();
  request.mutable_signal()->set_signal(signal);
  Send(std::move(request));
}

void KeeperLink::AcknowledgeExit(const ActorLife& actor) {
  v1::KeeperRequest request;
  *request.mutable_acknowledge_exit()->mutable_actor() = actor.ToProto();
  Send(std::move(request));
}

absl::Status KeeperLink::ShutDownKeeper(absl::Duration timeout) {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  v1::KeeperRequest request;
  request.mutable_shutdown();
  Send(std::move(request));
  Monotonic deadline = MonotonicNow() + timeout;
  std::shared_ptr<UnixSocket> stuck;
  {
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, deadline, [&] { return ended_; });
    stuck = ended_ ? nullptr : socket_;
  }
  if (stuck != nullptr) {
    KillKeeper(*stuck);
    deadline = MonotonicNow() + kDieWithKeeper;
  }
  {
    MutexLock lock(mutex_);
    if (!changed_.WaitUntil(lock, deadline, [&] { return ended_; })) {
      return absl::DeadlineExceededError("the keeper has not ended within " + absl::FormatDuration(timeout));
    }
  }
  // Its socket closes a moment before it has ended.
  while (keeper_pid() != 0 && MonotonicNow() < deadline) {
    ReapKeeper();
    PauseFor(absl::Milliseconds(1));
  }
  return absl::OkStatus();
}

// ---- Connecting ----

absl::StatusOr<KeeperConnected> KeeperLink::Connect() {
  Monotonic deadline = MonotonicNow() + kConnectTimeout;
  absl::Status last = absl::UnavailableError("not tried");
  while (MonotonicNow() < deadline && !stopping()) {
    absl::StatusOr<UnixSocket> socket =
        UnixSocket::Connect(keeper::KeeperSocketPath(options_.runtime_dir), UnixSocketKind::kSeqPacket);
    if (socket.ok()) {
      absl::StatusOr<KeeperConnected> connected = Greet(*std::move(socket));
      if (connected.ok() || absl::IsFailedPrecondition(connected.status())) return connected;
      last = connected.status();
    } else {
      last = socket.status();
      TROUPE_RETURN_IF_ERROR(KeeperEndedEarly());
      if (keeper_pid() == 0) TROUPE_RETURN_IF_ERROR(StartKeeper());
    }
    PauseFor(kConnectRetry);
  }
  return Annotate(last, "no keeper in " + options_.runtime_dir);
}

absl::StatusOr<KeeperConnected> KeeperLink::Greet(UnixSocket fresh) {
  auto socket = std::make_shared<UnixSocket>(std::move(fresh));
  v1::KeeperRequest hello;
  hello.set_request_id(1);
  hello.mutable_hello()->set_agent_loss_grace_ms(absl::ToInt64Milliseconds(options_.agent_loss_grace));
  hello.mutable_hello()->set_protocol_version(keeper::kKeeperProtocolVersion);
  TROUPE_RETURN_IF_ERROR(keeper::SendPacket(*socket, hello, {}, MonotonicNow() + kSendTimeout));
  KeeperConnected connected;
  pidfds_.clear();
  for (bool more = true; more;) {
    v1::KeeperEvent event;
    absl::StatusOr<std::vector<UniqueFd>> fds = keeper::ReceivePacket(*socket, event, MonotonicNow() + kGreetTimeout);
    if (absl::IsDeadlineExceeded(fds.status())) KillKeeper(*socket);
    if (!fds.ok()) return absl::UnavailableError(MessageOf(fds.status()));
    if (event.has_done()) {
      auto code = static_cast<absl::StatusCode>(event.done().error().code());
      return absl::Status(code, event.done().error().message());
    }
    const v1::KeeperInventory& inventory = event.inventory();
    for (int i = 0; i < inventory.workers_size(); ++i) {
      connected.workers.push_back(inventory.workers(i));
      if (i < static_cast<int>(fds->size())) {
        pidfds_[ActorLife::FromProto(inventory.workers(i).actor())] = std::move((*fds)[i]);
      }
    }
    connected.exits.insert(connected.exits.end(), inventory.exits().begin(), inventory.exits().end());
    more = inventory.more();
  }
  MutexLock lock(mutex_);
  socket_ = std::move(socket);
  next_request_ = std::max<uint64_t>(next_request_, 2);
  spawns_.clear();
  return connected;
}

absl::Status KeeperLink::StartKeeper() {
  struct stat info {};
  bool too_long = ::stat(options_.keeper_log.c_str(), &info) == 0 && info.st_size > kKeeperLogBytesMax;
  int log_flags = O_WRONLY | O_CREAT | O_APPEND | (too_long ? O_TRUNC : 0);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, options_.keeper_log.c_str(), log_flags, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A session of its own: Ctrl-C at the agent's terminal is the agent's to handle.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> args = {options_.keeper_program, "--runtime-dir", options_.runtime_dir};
  if (!options_.use_cgroups) args.push_back("--no-cgroups");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  char path[] = "PATH=/usr/bin:/bin";
  char* environment[] = {path, nullptr};
  pid_t pid = 0;
  int error = ::posix_spawn(&pid, options_.keeper_program.c_str(), &files, &attributes, argv.data(), environment);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Annotate(ErrnoStatus(error, options_.keeper_program), "the keeper cannot be started");
  MutexLock lock(mutex_);
  keeper_ = pid;
  return absl::OkStatus();
}

// FAILED_PRECONDITION when the keeper that was started here has ended instead of listening.
absl::Status KeeperLink::KeeperEndedEarly() {
  MutexLock lock(mutex_);
  int status = 0;
  if (keeper_ == 0 || ::waitpid(keeper_, &status, WNOHANG) != keeper_) return absl::OkStatus();
  keeper_ = 0;
  // One that was killed (by an operator, or for memory) is replaced; so is one that lost a race for the folder.
  std::string said = LastLineOf(options_.keeper_log);
  bool lost_race = WIFEXITED(status) && WEXITSTATUS(status) == keeper::kFolderTakenExit;
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || lost_race) return absl::OkStatus();
  return absl::FailedPreconditionError("the keeper ended with status " + std::to_string(WEXITSTATUS(status)) + ": " +
                                       said);
}

// Its workers die with it.
void KeeperLink::KillKeeper(const UnixSocket& socket) {
  absl::StatusOr<PeerCredentials> keeper = socket.Credentials();
  if (!keeper.ok() || keeper->pid <= 0) return;
  options_.log("the keeper (pid " + std::to_string(keeper->pid) + ") does not answer: it is killed, with its workers");
  ::kill(keeper->pid, SIGKILL);
}

void KeeperLink::ReapKeeper() {
  MutexLock lock(mutex_);
  if (keeper_ != 0 && ::waitpid(keeper_, nullptr, WNOHANG) != 0) keeper_ = 0;
}

// ---- The reading thread ----

void KeeperLink::Read() {
  int silent_turns = 0, unanswered = 0;
  while (true) {
    std::shared_ptr<UnixSocket> socket;
    {
      MutexLock lock(mutex_);
      socket = socket_;
    }
    v1::KeeperEvent event;
    absl::StatusOr<std::vector<UniqueFd>> fds = keeper::ReceivePacket(*socket, event, MonotonicNow() + kReadTurn);
    if (fds.ok()) {
      silent_turns = unanswered = 0;
      Deliver(std::move(event), *std::move(fds));
      continue;
    }
    if (absl::IsDeadlineExceeded(fds.status())) {
      if (++silent_turns % kSilentTurns != 0) continue;
      if (++unanswered > kUnansweredMax) KillKeeper(*socket);
      AcknowledgeExit({});  // Of nobody: it answers that this is done.
      continue;
    }
    silent_turns = unanswered = 0;
    if (stopping()) break;
    sink_(KeeperDisconnected());
    Reconnect();
    if (stopping()) break;
  }
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void KeeperLink::Deliver(v1::KeeperEvent event, std::vector<UniqueFd> fds) {
  std::optional<ActorLife> spawn;
  {
    MutexLock lock(mutex_);
    auto it = spawns_.find(event.request_id());
    if (it != spawns_.end()) {
      spawn = it->second;
      spawns_.erase(it);
    }
  }
  if (event.has_spawned()) {
    ActorLife actor = ActorLife::FromProto(event.spawned().actor());
    // A failed start is told by the exit that follows.
    if (event.spawned().error().code() != 0) return;
    if (!fds.empty()) pidfds_[actor] = std::move(fds[0]);
    sink_(WorkerSpawned{actor, event.spawned().pid()});
  } else if (event.has_exited()) {
    ActorLife actor = ActorLife::FromProto(event.exited().actor());
    pidfds_.erase(actor);
    sink_(WorkerGone{actor, event.exited().cause()});
  } else if (event.has_done() && event.done().error().code() != 0 && spawn.has_value()) {
    auto code = static_cast<absl::StatusCode>(event.done().error().code());
    sink_(SpawnRefused{*spawn, absl::Status(code, event.done().error().message())});
  }
}

void KeeperLink::Reconnect() {
  {
    MutexLock lock(mutex_);
    socket_->Shutdown();
  }
  while (!stopping()) {
    ReapKeeper();
    // One that lives has let this agent go; otherwise it has died, and its workers with it.
    absl::StatusOr<KeeperConnected> connected = absl::UnavailableError("not tried");
    absl::StatusOr<UnixSocket> socket =
        UnixSocket::Connect(keeper::KeeperSocketPath(options_.runtime_dir), UnixSocketKind::kSeqPacket);
    if (socket.ok()) {
      connected = Greet(*std::move(socket));
    } else {
      WaitForWorkersToDie();
      connected = Connect();
    }
    if (connected.ok()) return sink_(*std::move(connected));
    PauseFor(kReconnectPause);
  }
}

void KeeperLink::WaitForWorkersToDie() {
  Monotonic kill_at = MonotonicNow() + kDieWithKeeper;
  for (auto& [actor, pidfd] : pidfds_) {
    while (pidfd.valid() && !HasEnded(pidfd.get()) && !stopping()) {
      if (MonotonicNow() >= kill_at) ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      PauseFor(absl::Milliseconds(5));
    }
  }
  pidfds_.clear();
}

}  // namespace troupe::agent
