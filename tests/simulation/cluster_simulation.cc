// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/cluster_simulation.h"

#include <algorithm>

#include "scheduler/core/placement.h"

namespace troupe::simulation {
namespace {

constexpr absl::Duration kFaultTime = absl::Seconds(90);   // Faults and submissions happen within it.
constexpr absl::Duration kQuietTime = absl::Minutes(60);   // Then every job that can must have ended.
constexpr absl::Duration kCancelTime = absl::Minutes(10);  // Then the others, once cancelled.

scheduler::ClusterOptions Options() {
  scheduler::ClusterOptions options;
  options.stop_grace_ms = 2000;
  options.ended_jobs_max = 1000;
  return options;
}

}  // namespace

std::string Variation::ToString() const {
  const Variation whole;
  std::string text = "--seed " + std::to_string(seed);
  if (without != 0) text += " --without " + std::to_string(without);
  if (faults_max != whole.faults_max) text += " --faults " + std::to_string(faults_max);
  if (users_max != whole.users_max) text += " --users " + std::to_string(users_max);
  if (nodes_max != whole.nodes_max) text += " --nodes " + std::to_string(nodes_max);
  return text;
}

ClusterSimulation::ClusterSimulation(const Variation& variation)
    : variation_(variation), sim_(variation.seed), head_(&sim_, Options()) {
  world_.simulator = &sim_;
  world_.head = &head_;
  world_.started = [this](const std::string& node, const Process& process) { CheckStarted(node, process); };
  world_.ready = [this](const std::string& node, const ActorLife& life) { Ready(node, life); };
  // A swarm: each run has a few kinds of faults, so that rare ones meet long quiet stretches too.
  static_assert(static_cast<int>(Fault::kQueue) + 1 == kFaultKinds);
  for (int fault = 0; fault < kFaultKinds; ++fault) {
    const bool left_out = (variation_.without >> fault & 1) != 0;
    if (sim_.Chance(40) && !left_out) faults_.push_back(static_cast<Fault>(fault));
  }
  MakeNodes();
  MakeUsers();
}

void ClusterSimulation::MakeNodes() {
  for (int64_t n = std::min<int64_t>(sim_.Between(1, 4), variation_.nodes_max); n > 0; --n) {
    v1::Resources resources;
    resources.set_cpus(static_cast<double>(sim_.Between(2, 8)));
    resources.set_devices(static_cast<int32_t>(sim_.Between(0, 4)));
    resources.set_device_kind("sim");
    std::map<std::string, std::string> labels = {{"zone", sim_.Chance(50) ? "x" : "y"}};
    nodes_.push_back(std::make_unique<SimNode>(&world_, "n" + std::to_string(n), resources, std::move(labels)));
    SimNode* node = nodes_.back().get();
    sim_.After(sim_.Between(absl::ZeroDuration(), absl::Seconds(sim_.Chance(20) ? 40 : 1)), [node] { node->Boot(); });
  }
}

void ClusterSimulation::MakeUsers() {
  for (int64_t n = std::min<int64_t>(sim_.Between(1, 8), variation_.users_max); n > 0; --n) {
    User user;
    user.spec = DrawSpec("job" + std::to_string(n));
    user.request_id = "request " + std::to_string(n);
    user.work = sim_.Between(absl::Milliseconds(100), absl::Seconds(20));
    users_.push_back(std::move(user));
    size_t index = users_.size() - 1;
    sim_.After(sim_.Between(absl::ZeroDuration(), kFaultTime / 2), [this, index] { Submit(index); });
    if (sim_.Chance(15)) {
      bool stop = sim_.Chance(50);
      sim_.After(sim_.Between(absl::Seconds(1), kFaultTime), [this, index, stop] {
        if (!users_[index].job_id.empty()) stop ? Stop(users_[index].job_id) : Cancel(users_[index].job_id);
      });
    }
  }
}

v1::JobSpec ClusterSimulation::DrawSpec(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.set_output_dir("/" + name);
  bool controlled = sim_.Chance(60), colocated = sim_.Chance(30);
  std::vector<std::string> roles = {"rollout", "actor", "reward"};
  roles.resize(static_cast<size_t>(sim_.Between(1, 3)));
  if (controlled) roles.push_back("controller");
  for (const std::string& name : roles) {
    v1::RoleSpec* role = spec.add_roles();
    role->set_role(name);
    role->set_actor_class("Any");
    role->set_replicas(name == "controller" ? 1 : static_cast<int32_t>(sim_.Between(1, 3)));
    role->mutable_resources()->set_cpus(static_cast<double>(sim_.Between(1, 4)) / 2);
    if (name != "controller" && sim_.Chance(40))
      role->mutable_resources()->set_devices(static_cast<int32_t>(sim_.Between(1, 2)));
    if (name != "controller" && role->resources().devices() == 0 && sim_.Chance(30)) {
      role->mutable_resources()->set_device_share(sim_.Chance(50) ? 0.5 : 0.75);
    }
    if (name != "controller" && colocated) role->set_colocation_group("turns");
    role->mutable_restart()->set_max_restarts(sim_.Chance(20) ? 0 : static_cast<int32_t>(sim_.Between(3, 20)));
    role->mutable_restart()->set_window_ms(600'000);
    if (name != "controller") DrawRule(*role);
  }
  DrawTerms(spec);
  return spec;
}

void ClusterSimulation::DrawRule(v1::RoleSpec& role) {
  if (role.colocation_group().empty() && sim_.Chance(30)) {
    role.set_policy(sim_.Chance(50) ? v1::ALL_FOR_ONE : v1::ELASTIC);
    if (role.policy() == v1::ELASTIC) {
      role.set_min_replicas(1);
      role.set_max_replicas(role.replicas() + static_cast<int32_t>(sim_.Between(0, 3)));
    }
  }
  if (!role.colocation_group().empty() || !sim_.Chance(25)) return;
  v1::PlacementRule& rule = *role.mutable_placement();
  switch (sim_.Between(0, 4)) {
    case 0:
      return rule.set_strategy(v1::PlacementRule::SPREAD);
    case 1:
      return rule.set_strategy(v1::PlacementRule::STRICT_PACK);
    case 2:
      (*rule.mutable_node_labels())["zone"] = "x";
      return;
    case 3:
      return rule.set_exclusive_nodes(true);
    default:
      return rule.set_island(v1::PlacementRule::ISLAND_PREFER);
  }
}

void ClusterSimulation::DrawTerms(v1::JobSpec& spec) {
  if (sim_.Chance(40)) spec.set_priority(static_cast<int32_t>(sim_.Between(-2, 2)));
  spec.set_preemptible(sim_.Chance(40));
  if (sim_.Chance(15)) spec.set_time_limit_ms(sim_.Between(2'000, 120'000));
  if (sim_.Chance(20)) spec.set_max_retries(static_cast<int32_t>(sim_.Between(1, 3)));
  if (sim_.Chance(20) && spec.time_limit_ms() == 0) spec.set_expected_ms(sim_.Between(1'000, 30'000));
}

// Until it is answered; a network may deliver it twice.
void ClusterSimulation::Submit(size_t index) {
  User& user = users_[index];
  if (!user.job_id.empty() || user.refused) return;
  if (user.spec.after_size() == 0 && index > 0 && !users_[index - 1].job_id.empty() && sim_.Chance(15)) {
    user.spec.add_after()->set_job_id(users_[index - 1].job_id);
    user.spec.mutable_after(0)->set_condition(v1::JobDependency::ENDED);
  }
  int copies = sim_.Chance(10) ? 2 : 1;
  Note("submit " + user.spec.ShortDebugString());
  for (int i = 0; i < copies; ++i) {
    head_.Call(
        [&](scheduler::CallId call) {
          scheduler::SubmitJob event{call, {}, sim_.Bits()};
          *event.request.mutable_spec() = user.spec;
          event.request.set_request_id(user.request_id);
          return event;
        },
        [this, index](const scheduler::Answer& answer) {
          User& asked = users_[index];
          if (sim_.Chance(10)) return;  // The answer is lost.
          if (!answer.status.ok()) {
            Require(answer.status.code() == absl::StatusCode::kFailedPrecondition,
                    "submit: " + answer.status.ToString());
            asked.refused = asked.job_id.empty();
            return;
          }
          Require(asked.job_id.empty() || asked.job_id == answer.submit.job_id(), "JOB-6: a request id is one job");
          asked.job_id = answer.submit.job_id();
          Require(head_.durable().FindJob(JobId(asked.job_id)) != nullptr, "REC-1: a job is durable before the answer");
        });
  }
  sim_.After(sim_.Between(absl::Seconds(1), absl::Seconds(5)), [this, index] { Submit(index); });
}

void ClusterSimulation::Cancel(const std::string& job_id) {
  Note("cancel " + job_id);
  auto answered = std::make_shared<bool>(false);
  head_.Call(
      [&](scheduler::CallId call) {
        scheduler::CancelJob event{call, {}};
        event.request.set_job_id(job_id);
        return event;
      },
      [this, answered, job_id](const scheduler::Answer& answer) {
        *answered = true;
        Require(answer.status.ok(), "cancel: " + answer.status.ToString());
        v1::StoredJob::Phase phase = head_.durable().FindJob(JobId(job_id))->phase;
        Require(phase == v1::StoredJob::ENDING || phase == v1::StoredJob::ENDED,
                "REC-1: a cancel is durable before the answer");
      });
  sim_.After(absl::Seconds(3), [this, answered, job_id] {
    if (!*answered) Cancel(job_id);
  });
}

void ClusterSimulation::Stop(const std::string& job_id) {
  Note("stop " + job_id);
  auto answered = std::make_shared<bool>(false);
  head_.Call(
      [&](scheduler::CallId call) {
        return scheduler::StopJob{call, job_id};
      },
      [answered](const scheduler::Answer&) { *answered = true; });
  sim_.After(absl::Seconds(3), [this, answered, job_id] {
    if (!*answered) Stop(job_id);
  });
}

void ClusterSimulation::Ask(std::function<scheduler::Event(scheduler::CallId)> make) {
  auto answered = std::make_shared<bool>(false);
  head_.Call(make, [answered](const scheduler::Answer&) { *answered = true; });
  sim_.After(absl::Seconds(3), [this, answered, make = std::move(make)] {
    if (!*answered) Ask(make);
  });
}

void ClusterSimulation::Drain(const std::string& node, bool drain) {
  const int64_t deadline_ms = sim_.Between(500, 20'000);
  drained_[node] = drain;
  // Asked again it says what is wanted by then.
  Ask([this, node, deadline_ms](scheduler::CallId call) -> scheduler::Event {
    if (!drained_[node]) return scheduler::UndrainNode{call, node};
    scheduler::DrainNode event{call, {}};
    event.request.set_node_id(node);
    event.request.set_deadline_ms(deadline_ms);
    return event;
  });
}

void ClusterSimulation::Scale() {
  const User& user = users_[static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(users_.size()) - 1))];
  if (user.job_id.empty()) return;
  scheduler::ScaleJob event{0, {}};
  event.request.set_job_id(user.job_id);
  event.request.set_role(user.spec.roles(0).role());
  event.request.set_replicas(static_cast<int32_t>(sim_.Between(1, 4)));
  Ask([event](scheduler::CallId call) {
    scheduler::ScaleJob again = event;
    again.call = call;
    return again;
  });
}

void ClusterSimulation::SetQuota(int devices) {
  quota_devices_ = devices;
  Ask([this](scheduler::CallId call) {
    scheduler::SetQueue event{call, {}};
    event.queue.set_name("default");
    event.queue.mutable_quota()->set_devices(quota_devices_);
    return event;
  });
}

// One owner over the whole cluster: an older life may still run only where the head has ended the node's incarnation.
void ClusterSimulation::CheckStarted(const std::string& node, const Process& process) {
  ++counts_.restarts;
  // An order that was under way when its node was given up for lost: a life of an ended incarnation, like those that
  // run there still. The node is told to end it when it registers.
  if (Ended(node, process.node_incarnation)) return;
  for (const auto& other : nodes_) {
    if (other->id() == node) continue;
    for (const auto& [life, running] : other->processes()) {
      if (!other->IsAlive(life) || life.path != process.life.path) continue;
      Require(Ended(other->id(), running.node_incarnation),
              "INC-3: a replica has one living incarnation: " + life.ToString());
      Require(life.incarnation < process.life.incarnation, "INC-1: incarnations only grow: " + life.ToString());
    }
  }
}

bool ClusterSimulation::Ended(const std::string& node, uint64_t incarnation) const {
  const scheduler::NodeRecord* record = head_.durable().FindNode(NodeId(node));
  return record == nullptr || record->ended || record->incarnation != incarnation;
}

void ClusterSimulation::Ready(const std::string& node, const ActorLife& life) {
  const scheduler::JobRecord* job = head_.durable().FindJob(life.path.job);
  if (job == nullptr || (job->has_controller() && life.path.role != "controller")) return;
  auto user = std::find_if(users_.begin(), users_.end(),
                           [&](const User& u) { return u.request_id == job->submitted.request_id(); });
  Work(node, life, sim_.now() + user->work);
}

void ClusterSimulation::Work(const std::string& node, const ActorLife& life, Monotonic until) {
  sim_.After(std::min(absl::Seconds(1), until - sim_.now()), [this, node, life, until] {
    if (!FindNode(node)->IsAlive(life)) return;
    const scheduler::JobRecord* job = head_.durable().FindJob(life.path.job);
    if (job != nullptr && job->stop_requested() && life.path.role == "controller") return Finish(node, life, true);
    if (sim_.now() < until) return Work(node, life, until);
    if (life.path.role == "controller") return Finish(node, life, false);
    FindNode(node)->Exit(life, v1::ExitCause::EXITED, faults_on_ && sim_.Chance(10) ? 3 : 0);
  });
}

// The controller asks until it is answered, and ends when it is told that another one lives.
void ClusterSimulation::Finish(const std::string& node, const ActorLife& life, bool interrupted) {
  if (!FindNode(node)->IsAlive(life)) return;
  Cuts& cuts = FindNode(node)->cuts;
  auto answered = std::make_shared<bool>(false);
  if (!cuts.to_head && !cuts.to_node) {
    head_.Call(
        [&](scheduler::CallId call) {
          scheduler::FinishJob event{call, {}};
          *event.request.mutable_controller() = life.ToProto();
          event.request.set_succeeded(true);
          event.request.set_interrupted(interrupted);
          return event;
        },
        [this, answered, node, life, interrupted](const scheduler::Answer& answer) {
          if (sim_.Chance(10)) return;  // The answer is lost.
          *answered = true;
          if (answer.status.ok()) {
            const scheduler::JobRecord& job = *head_.durable().FindJob(life.path.job);
            const bool sent_back = interrupted && (job.phase == v1::StoredJob::REQUEUEING || job.retries > 0 ||
                                                   job.replicas.at({"controller", 0}).incarnation > life.incarnation ||
                                                   job.phase == v1::StoredJob::WAITING);
            Require(sent_back || job.ending.end_state() != v1::JOB_STATE_UNSPECIFIED,
                    "REC-1: the end of a job is durable before the answer");
          } else {
            FindNode(node)->Exit(life, v1::ExitCause::EXITED, 1);
          }
        });
  }
  sim_.After(absl::Seconds(2), [this, answered, node, life, interrupted] {
    if (!*answered) Finish(node, life, interrupted);
  });
}

void ClusterSimulation::DrawFault() {
  if (!faults_on_ || faults_.empty() || ++faults_drawn_ > variation_.faults_max) return;
  Apply(faults_[static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(faults_.size()) - 1))]);
  sim_.After(sim_.Between(absl::Milliseconds(10), absl::Seconds(sim_.Chance(30) ? 1 : 15)), [this] { DrawFault(); });
}

void ClusterSimulation::Note(const std::string& what) {
  script_.push_back(absl::FormatDuration(sim_.now() - Monotonic()) + " " + what);
}

void ClusterSimulation::Apply(Fault fault) {
  static const char* kNames[kFaultKinds] = {"the head crashes", "the head stalls",    "the disk is slow or fast again",
                                            "the disk is full", "machine crashes",    "agent restarts",
                                            "keeper dies",      "is frozen",          "link breaks",
                                            "is cut off",       "is cut off one way", "a worker dies",
                                            "a device fails",   "is drained",         "a job is scaled",
                                            "the quota changes"};
  SimNode& node = AnyNode();
  absl::Duration time = sim_.Between(absl::Milliseconds(100), absl::Seconds(25));
  Note(node.id() + ": " + kNames[static_cast<int>(fault)] + " (" + absl::FormatDuration(time) + " where it lasts)");
  switch (fault) {
    case Fault::kHeadCrash:
      if (head_.up()) head_.Crash();
      return;
    case Fault::kHeadStall:
      return head_.Stall(time);
    case Fault::kSlowDisk:
      return head_.set_slow_disk(sim_.Chance(60));
    case Fault::kFullDisk:
      return head_.FailDisk();
    case Fault::kMachineCrash:
      if (!node.up()) return;
      node.CrashMachine();
      if (nodes_.size() > 1 && sim_.Chance(15) && !std::exchange(lost_one_, true)) {
        gone_.insert(node.id());
        return;
      }
      sim_.After(time, [&node] { node.Boot(); });
      return;
    case Fault::kAgentRestart:
      return node.RestartAgent();
    case Fault::kKeeperDeath:
      return node.KillKeeper();
    case Fault::kFreeze:
      return node.Freeze(time);
    case Fault::kLinkBreak:
      return node.BreakLink();
    case Fault::kCut:
      return Cut(node, true, true, time);
    case Fault::kOneWayCut:
      return sim_.Chance(50) ? Cut(node, true, false, time) : Cut(node, false, true, time);
    case Fault::kWorkerDeath:
      return node.KillSomeWorker();
    case Fault::kDeviceFailure: {
      if (node.resources().devices() == 0) return;
      const int device = static_cast<int>(sim_.Between(0, node.resources().devices() - 1));
      node.SetDeviceHealth(device, v1::DeviceHealth::FAILED);
      sim_.After(time, [&node, device] { node.SetDeviceHealth(device, v1::DeviceHealth::HEALTHY); });
      return;
    }
    case Fault::kDrain:
      Drain(node.id(), true);
      sim_.After(time, [this, &node] { Drain(node.id(), false); });
      return;
    case Fault::kScale:
      return Scale();
    case Fault::kQueue:
      return SetQuota(static_cast<int>(sim_.Between(0, 4)));
  }
}

void ClusterSimulation::Cut(SimNode& node, bool to_head, bool to_node, absl::Duration duration) {
  node.cuts = {to_head, to_node};
  sim_.After(duration, [&node] { node.cuts = {}; });
}

// A supervisor: a head that is down, or gave up, is started again.
void ClusterSimulation::RestartHeadLater() {
  sim_.After(sim_.Between(absl::Milliseconds(50), absl::Seconds(3)), [this] {
    if (head_.stepped_down()) head_.Crash();
    if (!head_.up()) {
      head_.Start();
      ++counts_.heads;
    }
    RestartHeadLater();
  });
}

void ClusterSimulation::Heal() {
  faults_on_ = false;
  head_.set_slow_disk(false);
  for (const auto& node : nodes_) node->cuts = {};
  SetQuota(0);
  for (const auto& node : nodes_) Drain(node->id(), false);
}

void ClusterSimulation::RunUntil(Monotonic end, bool stop_when_ended) {
  while (sim_.RunOne(end)) {
    if (stop_when_ended && AllEnded()) return;
  }
}

void ClusterSimulation::Run() {
  head_.Start();
  RestartHeadLater();
  DrawFault();
  RunUntil(sim_.now() + kFaultTime, false);
  Heal();
  RunUntil(sim_.now() + absl::Seconds(30), false);  // What was delayed arrives, machines boot.
  RunUntil(sim_.now() + kQuietTime, true);
  for (const auto& [id, job] : head_.durable().jobs()) {
    if (job.ended()) continue;
    Require(!CouldEnd(job), "LIVE-2: a job that fits ends: " + id.value() + " is in phase " +
                                v1::StoredJob::Phase_Name(job.phase) + ": " + head_.ReasonOf(id.value()));
    Cancel(id.value());
  }
  RunUntil(sim_.now() + kCancelTime, true);
  RunUntil(sim_.now() + absl::Seconds(60), false);  // The last acknowledgements.
  CheckEnd();
}

bool ClusterSimulation::AllEnded() const {
  for (const auto& [id, job] : head_.durable().jobs()) {
    if (!job.ended()) return false;
  }
  return std::all_of(users_.begin(), users_.end(), [](const User& u) { return u.refused || !u.job_id.empty(); });
}

// Whether it fits on the cluster when nothing else runs, and waits for no other job.
bool ClusterSimulation::CouldEnd(const scheduler::JobRecord& job) const {
  for (const v1::JobDependency& dependency : job.spec().after()) {
    const scheduler::JobRecord* other = head_.durable().FindJob(JobId(dependency.job_id()));
    if (!job.placed_once && other != nullptr && !other->ended()) return false;
  }
  std::vector<scheduler::NodeCapacity> empty;
  for (const auto& node : nodes_) {
    if (gone_.contains(node->id())) continue;
    scheduler::NodeCapacity capacity{.node = NodeId(node->id()),
                                     .total = scheduler::Amount::FromProto(node->resources())};
    capacity.device_used.resize(static_cast<size_t>(capacity.total.devices));
    auto facts = std::make_shared<scheduler::NodeFacts>();
    facts->labels = node->labels();
    for (int d = 0; d < capacity.total.devices; ++d) facts->islands.push_back(d / 2);
    capacity.facts = std::move(facts);
    empty.push_back(std::move(capacity));
  }
  return scheduler::Place(job.Demand(true), empty).verdict == scheduler::PlacementVerdict::kPlaced;
}

void ClusterSimulation::CheckEnd() {
  Require(AllEnded(), "LIVE-2: every job ends");
  std::set<std::string> requests;
  for (const auto& [id, job] : head_.durable().jobs()) {
    Require(requests.insert(job.submitted.request_id()).second, "JOB-6: a request id is one job");
    switch (job.ending.end_state()) {
      case v1::JOB_SUCCEEDED:
        ++counts_.jobs_succeeded;
        break;
      case v1::JOB_FAILED:
        ++counts_.jobs_failed;
        break;
      default:
        ++counts_.jobs_cancelled;
        break;
    }
  }
  for (const auto& node : nodes_) {
    if (gone_.contains(node->id())) continue;
    Require(node->up(), "the simulation boots every machine again");
    for (const auto& [life, process] : node->processes()) {
      Require(!process.alive, "END-1: no process is left: " + life.ToString() + " on " + node->id());
    }
    Require(node->unacknowledged() == 0, "ACK-2: every exit is acknowledged: " + node->id());
  }
  for (const auto& [id, node] : head_.durable().nodes()) {
    Require(node.used_milli_cpus == 0 && node.device_used.empty(), "NODE-2: everything is given back: " + id.value());
  }
  counts_.nodes_lost = static_cast<int>(head_.durable().last_node_incarnation()) - static_cast<int>(nodes_.size());
  for (const User& user : users_) counts_.jobs_refused += user.refused;
  counts_.steps = head_.steps();
}

SimNode* ClusterSimulation::FindNode(const std::string& id) {
  for (const auto& node : nodes_) {
    if (node->id() == id) return node.get();
  }
  return nullptr;
}

}  // namespace troupe::simulation
