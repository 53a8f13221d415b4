// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/file_lock.h"
#include "runtime/keeper/keeper_state.h"
#include "runtime/keeper/leftovers.h"
#include "runtime/keeper/orphans.h"
#include "runtime/keeper/packets.h"
#include "runtime/keeper/worker_process.h"

namespace troupe::keeper {
namespace {

// Packets for an agent that does not read; it is let go of beyond that, and gets them again when it comes back.
constexpr size_t kOutgoingMax = 4096;
// Requests read at once, so that an agent cannot keep the keeper from its workers.
constexpr int kRequestsPerTurn = 64;
// Between two looks at what is left of a tree.
constexpr absl::Duration kSweepIntervalMin = absl::Milliseconds(2);
constexpr absl::Duration kSweepIntervalMax = absl::Milliseconds(100);

void Note(const std::string& text) {
  std::fprintf(stderr, "%s %s\n", FormatLogTime(WallNow()).c_str(), text.c_str());
  std::fflush(stderr);
}

// The driver: poll loop around KeeperState.
class Keeper {
 public:
  explicit Keeper(const KeeperOptions& options)
      : options_(options), state_(options.first_agent_grace, MonotonicNow()), sweep_interval_(kSweepIntervalMin) {}

  absl::Status Open() {
    absl::StatusOr<UnixListener> listener =
        UnixListener::Listen(KeeperSocketPath(options_.runtime_dir), UnixSocketKind::kSeqPacket);
    if (!listener.ok()) return listener.status();
    listener_.emplace(*std::move(listener));
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) return ErrnoStatus(errno, "signalfd");
    if (!options_.use_cgroups) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<CgroupFolder>> cgroups = CgroupFolder::Open(CgroupNameOf(options_.runtime_dir));
    if (cgroups.ok()) {
      cgroups_ = *std::move(cgroups);
    } else {
      Note("goes on without control groups: " + StatusText(cgroups.status()));
    }
    return absl::OkStatus();
  }

  void Serve() {
    while (!ended_) {
      PollOnce();
      ReapExits();
      if (MonotonicNow() >= sweep_at_) SweepTrees();
      if (MonotonicNow() >= state_.NextDeadline()) Step(TimePassed());
    }
  }

 private:
  enum class Source { kListener, kAgent, kSignals, kExec, kStdout, kStderr };
  struct Watched {
    Source source;
    WorkerProcess* worker;
  };

  void PollOnce() {
    std::vector<pollfd> fds;
    std::vector<Watched> watched;
    auto watch = [&](int fd, short events, Source source, WorkerProcess* worker = nullptr) {
      if (fd < 0) return;
      fds.push_back({fd, events, 0});
      watched.push_back({source, worker});
    };
    watch(listener_->fd(), POLLIN, Source::kListener);
    watch(agent_.fd(), outgoing_.empty() ? POLLIN : POLLIN | POLLOUT, Source::kAgent);
    watch(signals_.get(), POLLIN, Source::kSignals);
    for (auto& [actor, worker] : workers_) {
      watch(worker->exec_status(), POLLIN, Source::kExec, worker.get());
      watch(worker->output(OutputStream::kStdout), POLLIN, Source::kStdout, worker.get());
      watch(worker->output(OutputStream::kStderr), POLLIN, Source::kStderr, worker.get());
    }
    if (::poll(fds.data(), fds.size(), PollTimeoutMs()) <= 0) return;
    // Workers first: handling the agent may change which workers there are, handling a worker does not.
    for (size_t i = fds.size(); i-- > 0;) {
      if (fds[i].revents != 0) Handle(watched[i]);
    }
  }

  int PollTimeoutMs() const {
    Monotonic until = std::min(state_.NextDeadline(), sweep_at_);
    if (until.infinite()) return -1;
    double ms = absl::ToDoubleMilliseconds(until - MonotonicNow());
    return ms <= 0 ? 0 : static_cast<int>(std::min(ms + 1, 3'600'000.0));
  }

  void Handle(const Watched& watched) {
    switch (watched.source) {
      case Source::kListener:
        return AcceptAgent();
      case Source::kAgent:
        return ServeAgent();
      case Source::kSignals:
        return ReadSignals();
      case Source::kExec:
        return FinishExec(*watched.worker);
      case Source::kStdout:
        watched.worker->CopyOutput(OutputStream::kStdout, WallNow(), MonotonicNow());
        return;
      case Source::kStderr:
        watched.worker->CopyOutput(OutputStream::kStderr, WallNow(), MonotonicNow());
        return;
    }
  }

  // ---- The agent ----

  void AcceptAgent() {
    absl::StatusOr<UnixSocket> connection = listener_->Accept(Monotonic());
    if (!connection.ok()) return;
    absl::StatusOr<PeerCredentials> peer = connection->Credentials();
    if (!peer.ok() || (peer->uid != ::geteuid() && peer->uid != 0)) return Note("refused another user's connection");
    // The former agent's end may be waiting unread.
    if (agent_.valid()) ServeAgent();
    if (agent_.valid() || state_.ending()) {
      v1::KeeperEvent refusal;
      v1::ErrorStatus* error = refusal.mutable_done()->mutable_error();
      error->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
      error->set_message(agent_.valid() ? "another agent is connected to this keeper" : "the keeper is ending");
      static_cast<void>(SendPacket(*connection, refusal, {}, Monotonic()));
      return;
    }
    agent_ = *std::move(connection);
    Step(AgentConnected());
  }

  void ServeAgent() {
    FlushOutgoing();
    for (int i = 0; i < kRequestsPerTurn && agent_.valid(); ++i) {
      AgentRequest request;
      absl::StatusOr<std::vector<UniqueFd>> fds = ReceivePacket(agent_, request.request, Monotonic());
      if (absl::IsDeadlineExceeded(fds.status())) return;
      if (!fds.ok()) return DropAgent(MessageOf(fds.status()));
      Step(request);
    }
  }

  void DropAgent(const std::string& reason) {
    Note("the agent is gone: " + reason);
    agent_ = UnixSocket();
    outgoing_.clear();
    Step(AgentLost());
  }

  struct Outgoing {
    v1::KeeperEvent event;
    std::vector<UniqueFd> fds;
  };

  void Do(const SendToAgent& send) {
    if (!agent_.valid()) return;
    Outgoing out{send.event, {}};
    for (const ActorLife& actor : send.pidfds) {
      // A duplicate, because the packet may wait for longer than the worker is known.
      out.fds.emplace_back(::fcntl(workers_.at(actor)->pidfd(), F_DUPFD_CLOEXEC, 0));
    }
    outgoing_.push_back(std::move(out));
    FlushOutgoing();
  }

  void FlushOutgoing() {
    while (agent_.valid() && !outgoing_.empty()) {
      std::vector<int> fds;
      for (const UniqueFd& fd : outgoing_.front().fds) fds.push_back(fd.get());
      absl::Status status = SendPacket(agent_, outgoing_.front().event, fds, Monotonic());
      if (absl::IsDeadlineExceeded(status) && outgoing_.size() <= kOutgoingMax) return;
      if (!status.ok()) {
        // The connection's end is found by the next read, outside of a step.
        Note("the agent does not read or cannot be written to: " + StatusText(status));
        agent_.Shutdown();
        outgoing_.clear();
        return;
      }
      outgoing_.pop_front();
    }
  }

  // ---- Workers ----

  void Do(const StartWorkerProcess& start) {
    ActorLife actor = ActorLife::FromProto(start.spawn.actor());
    absl::StatusOr<std::unique_ptr<WorkerProcess>> worker =
        WorkerProcess::Start(start.spawn, options_.runtime_dir, cgroups_.get());
    if (!worker.ok()) {
      pending_.push_back(ProgramExecuted{actor, worker.status()});
      pending_.push_back(TreeGone{actor, ExitEvidence()});
      return;
    }
    state_.SetProcess(actor, (*worker)->pid());
    workers_[actor] = *std::move(worker);
  }

  void Do(const SignalTree& signal) {
    auto it = workers_.find(signal.actor);
    if (it == workers_.end()) return;
    if (signal.signal == SIGKILL) return it->second->Kill();
    if (it->second->exited()) return;
    // Children first: the parent's reaction to a child's end must not be taken for its own.
    std::vector<pid_t> tree = DescendantsOf(ReadProcessTable(), it->second->pid());
    for (pid_t pid : tree) ::kill(pid, signal.signal);
    ::kill(it->second->pid(), signal.signal);
  }

  void Do(const EndKeeper&) { ended_ = true; }

  void FinishExec(WorkerProcess& worker) {
    absl::Status status = worker.FinishExec();
    if (!absl::IsUnavailable(status)) Step(ProgramExecuted{worker.actor(), status});
  }

  void ReadSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) Step(TerminationRequested());
    }
  }

  void ReapExits() {
    int status = 0;
    rusage usage{};
    for (pid_t pid; (pid = ::wait4(-1, &status, WNOHANG, &usage)) > 0;) {
      sweep_at_ = MonotonicNow();
      sweep_interval_ = kSweepIntervalMin;
      auto it = std::find_if(workers_.begin(), workers_.end(),
                             [&](const auto& w) { return w.second->pid() == pid && !w.second->exited(); });
      if (it == workers_.end()) continue;
      WorkerProcess& worker = *it->second;
      if (worker.exec_status() >= 0) FinishExec(worker);
      worker.SetExited(status, usage);
      worker.Kill();
      Step(ProcessExited{worker.actor()});
    }
  }

  void SweepTrees() {
    std::set<pid_t> living;
    std::vector<ActorLife> ending;
    for (const auto& [actor, worker] : workers_) {
      if (worker->exited()) {
        ending.push_back(actor);
      } else {
        living.insert(worker->pid());
      }
    }
    sweep_at_ = Monotonic::Infinite();
    if (ending.empty()) return;
    auto names = [](pid_t pid, const ActorLife& actor) {
      return HasEnvironmentEntry(pid, "TROUPE_WORKER=" + actor.ToString());
    };
    for (pid_t pid : orphans_.Update(ReadProcessTable(), ::getpid(), living, ending, names)) ::kill(pid, SIGKILL);
    for (const ActorLife& actor : ending) ConcludeIfGone(actor);
    if (std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w.second->exited(); })) {
      sweep_at_ = MonotonicNow() + sweep_interval_;
      sweep_interval_ = std::min(sweep_interval_ * 2, kSweepIntervalMax);
    }
  }

  void ConcludeIfGone(const ActorLife& actor) {
    WorkerProcess& worker = *workers_.at(actor);
    if (orphans_.Hold(actor) || !worker.GroupIsEmpty()) return;
    worker.SetKilledDescendants(orphans_.KilledOf(actor));
    orphans_.Forget(actor);
    ExitEvidence evidence = worker.Conclude(WallNow(), MonotonicNow());
    workers_.erase(actor);
    Step(TreeGone{actor, evidence});
  }

  // ---- Steps ----

  void Step(const KeeperStateEvent& event) {
    for (const KeeperAction& action : state_.Step(event, MonotonicNow())) {
      std::visit([&](const auto& a) { Do(a); }, action);
    }
    while (!pending_.empty()) {
      KeeperStateEvent next = std::move(pending_.front());
      pending_.pop_front();
      Step(next);
    }
  }

  const KeeperOptions options_;
  KeeperState state_;
  std::unique_ptr<CgroupFolder> cgroups_;
  std::map<ActorLife, std::unique_ptr<WorkerProcess>> workers_;
  Orphans orphans_;
  std::optional<UnixListener> listener_;  // Removes its socket file.
  UniqueFd signals_;
  UnixSocket agent_;
  std::deque<Outgoing> outgoing_;
  std::deque<KeeperStateEvent> pending_;  // Made by actions, handled after them.
  Monotonic sweep_at_ = Monotonic::Infinite();
  absl::Duration sweep_interval_;
  bool ended_ = false;
};

}  // namespace

absl::Status RunKeeper(const KeeperOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(FileLock lock, FileLock::Acquire(KeeperLockPath(options.runtime_dir), "another keeper"));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return ErrnoStatus(errno, "become a subreaper");
  }
  TROUPE_RETURN_IF_ERROR(EndLeftoverProcesses(options.runtime_dir));
  Keeper keeper(options);
  TROUPE_RETURN_IF_ERROR(keeper.Open());
  keeper.Serve();
  return absl::OkStatus();
}

}  // namespace troupe::keeper
