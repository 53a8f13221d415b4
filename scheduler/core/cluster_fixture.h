// SPDX-License-Identifier: Apache-2.0
// A Cluster for tests with nodes played by hand. Every step is checked: replayed records give the same state (also
// through a snapshot), and no invariant is broken. A broken one ends the test's process with its id.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/invariants.h"

namespace troupe::scheduler {

class ClusterFixture {
 public:
  explicit ClusterFixture(ClusterOptions options = {}) : options_(options) { Restart(); }

  // A head that ended and recovered from the records: sessions are gone.
  void Restart() {
    cluster_.emplace(options_, ClusterState::FromSnapshot(replayed_.ToSnapshot()));
    Do(StartTerm{});
  }
  void Advance(absl::Duration d) { now_ = now_ + d; }
  void Wait(absl::Duration d) {
    Advance(d);
    Do(Tick{});
  }

  // The actions of the step; answers are kept by call.
  std::vector<Action> Do(const Event& event) {
    ClusterState before = replayed_;
    StepResult result = cluster_->Step(event, {now_, 1'700'000'000'000 + now_.nanoseconds() / 1'000'000});
    for (const v1::Record& record : result.records) replayed_.Apply(record);
    std::string state = cluster_->state().ToSnapshot().SerializeAsString();
    TROUPE_CHECK(state == replayed_.ToSnapshot().SerializeAsString(), "LOG-3: replayed records give the same state");
    TROUPE_CHECK(state == ClusterState::FromSnapshot(replayed_.ToSnapshot()).ToSnapshot().SerializeAsString(),
                 "LOG-4: a snapshot is the state");
    for (const std::string& broken : BrokenInvariants(replayed_)) TROUPE_CHECK(false, broken);
    const std::string stale = cluster_->StaleIndex();
    TROUPE_CHECK(stale.empty(), stale);
    for (const std::string& broken : BrokenByChange(before, replayed_)) TROUPE_CHECK(false, broken);
    last_ = result;
    result.actions.insert(result.actions.begin(), result.observed.begin(), result.observed.end());
    for (const Action& action : result.actions) {
      if (auto* answer = std::get_if<Answer>(&action)) answers_[answer->call] = *answer;
      if (auto* job = std::get_if<PublishJob>(&action)) jobs_[job->job_id] = job->job ? *job->job : v1::Job();
      if (auto* node = std::get_if<PublishNode>(&action)) nodes_[node->node_id] = node->node ? *node->node : v1::Node();
    }
    return actions_ = result.actions;
  }

  Answer Submit(const v1::JobSpec& spec, const std::string& request_id = "", bool dry_run = false) {
    SubmitJob event{++calls_, {}, calls_ << 40};
    *event.request.mutable_spec() = spec;
    event.request.set_request_id(request_id);
    event.request.set_dry_run(dry_run);
    Do(event);
    return answers_.at(calls_);
  }
  // The call: it is answered when the job has ended.
  CallId Cancel(const std::string& job) {
    CancelJob event{++calls_, {}};
    event.request.set_job_id(job);
    Do(event);
    return event.call;
  }
  // UNAVAILABLE: it has none yet.
  absl::Status AnswerOf(CallId call) const {
    return answers_.contains(call) ? answers_.at(call).status : absl::UnavailableError("not answered yet");
  }
  absl::Status Finish(const std::string& job, uint64_t incarnation, bool succeeded = true) {
    FinishJob event{++calls_, {}};
    *event.request.mutable_controller() = ActorLife{{JobId(job), "controller", 0}, incarnation}.ToProto();
    event.request.set_succeeded(succeeded);
    event.request.set_reason("done");
    Do(event);
    return answers_.at(calls_).status;
  }
  absl::Status Stop(const std::string& job) {
    Do(StopJob{++calls_, job});
    return answers_.at(calls_).status;
  }

  absl::Status Scale(const std::string& job, const std::string& role, int replicas) {
    ScaleJob event{++calls_, {}};
    event.request.set_job_id(job);
    event.request.set_role(role);
    event.request.set_replicas(replicas);
    Do(event);
    return answers_.at(calls_).status;
  }

  absl::Status Drain(const std::string& node, int64_t deadline_ms = 0) {
    DrainNode event{++calls_, {}};
    event.request.set_node_id(node);
    event.request.set_deadline_ms(deadline_ms);
    event.request.set_reason("new memory");
    Do(event);
    return answers_.at(calls_).status;
  }
  absl::Status Undrain(const std::string& node) {
    Do(UndrainNode{++calls_, node});
    return answers_.at(calls_).status;
  }

  std::vector<Action> FromAgent(SessionId session, v1::AgentToHead message) {
    FromNode event{session, {}, now_};
    *event.messages.add_messages() = std::move(message);
    return Do(event);
  }
  std::vector<Action> Exited(SessionId session, const ActorLife& life, v1::ExitCause::Kind kind,
                             int code_or_signal = 0) {
    v1::AgentToHead message;
    *message.mutable_worker_exited()->mutable_actor() = life.ToProto();
    message.mutable_worker_exited()->mutable_cause()->set_kind(kind);
    message.mutable_worker_exited()->mutable_cause()->set_exit_code(code_or_signal);
    message.mutable_worker_exited()->mutable_cause()->set_signal(code_or_signal);
    return FromAgent(session, std::move(message));
  }
  std::vector<Action> Heartbeat(SessionId session, uint64_t incarnation) {
    v1::AgentToHead message;
    message.mutable_heartbeat()->set_node_incarnation(incarnation);
    return FromAgent(session, std::move(message));
  }
  std::vector<Action> Ready(SessionId session, const ActorLife& life) {
    v1::AgentToHead message;
    *message.mutable_worker_ready()->mutable_address()->mutable_actor() = life.ToProto();
    message.mutable_worker_ready()->mutable_address()->set_endpoint("unix:/x");
    return FromAgent(session, std::move(message));
  }

  // Of the last step, as the driver gets it.
  const StepResult& last() const { return last_; }
  // Its actions, also those that did not wait.
  const std::vector<Action>& actions() const { return actions_; }
  const v1::Job& job(const std::string& id) const { return jobs_.at(id); }
  const v1::Node& node(const std::string& id) const { return nodes_.at(id); }
  const ClusterState& state() const { return cluster_->state(); }
  Cluster& cluster() { return *cluster_; }
  Monotonic now() const { return now_; }

 private:
  ClusterOptions options_;
  std::optional<Cluster> cluster_;
  StepResult last_;
  std::vector<Action> actions_;
  ClusterState replayed_;
  Monotonic now_ = Monotonic::FromNanoseconds(1'000'000'000);
  CallId calls_ = 0;
  std::map<CallId, Answer> answers_;
  std::map<std::string, v1::Job> jobs_;
  std::map<std::string, v1::Node> nodes_;
};

// A registration of a node with these resources.
inline v1::AgentToHead Registration(const std::string& node, double cpus, int devices, uint64_t incarnation = 0) {
  v1::AgentToHead message;
  v1::RegisterNode& r = *message.mutable_register_node();
  r.set_node_id(node);
  r.set_node_incarnation(incarnation);
  r.set_protocol_version(kNodeProtocolVersion);
  r.mutable_resources()->set_cpus(cpus);
  r.mutable_resources()->set_devices(devices);
  r.mutable_resources()->set_device_kind(devices > 0 ? "sim" : "");
  return message;
}

inline void AddRunning(const ActorLife& life, v1::AgentToHead& registration) {
  v1::RunningWorker* worker = registration.mutable_register_node()->add_workers();
  *worker->mutable_actor() = life.ToProto();
  worker->set_ready(true);
  worker->set_endpoint("unix:/y");
}

// A spec with roles written as {"controller", replicas, cpus, devices}.
struct RoleShape {
  std::string role;
  int replicas = 1;
  double cpus = 1;
  int devices = 0;
  std::string group = "";
};
inline v1::JobSpec Spec(const std::string& name, const std::vector<RoleShape>& roles) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.set_output_dir("/tmp/" + name);
  for (const RoleShape& shape : roles) {
    v1::RoleSpec* role = spec.add_roles();
    role->set_role(shape.role);
    role->set_actor_class("Any");
    role->set_replicas(shape.replicas);
    role->mutable_resources()->set_cpus(shape.cpus);
    role->mutable_resources()->set_devices(shape.devices);
    role->set_colocation_group(shape.group);
  }
  return spec;
}

template <typename T>
std::vector<T> Of(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (auto* one = std::get_if<T>(&action)) found.push_back(*one);
  }
  return found;
}
// "rollout/0#1" of every StartWorker (or StopWorker) among them, sorted.
inline std::vector<std::string> Started(const std::vector<Action>& actions) {
  std::vector<std::string> lives;
  for (const SendToNode& send : Of<SendToNode>(actions)) {
    if (!send.message.has_start_worker()) continue;
    const v1::ActorIncarnation& a = send.message.start_worker().actor();
    lives.push_back(a.id().role() + "/" + std::to_string(a.id().replica()) + "#" + std::to_string(a.incarnation()));
  }
  std::sort(lives.begin(), lives.end());
  return lives;
}
inline std::vector<std::string> Stopped(const std::vector<Action>& actions) {
  std::vector<std::string> lives;
  for (const SendToNode& send : Of<SendToNode>(actions)) {
    if (!send.message.has_stop_worker()) continue;
    const v1::ActorIncarnation& a = send.message.stop_worker().actor();
    lives.push_back(a.id().role() + "/" + std::to_string(a.id().replica()) + "#" + std::to_string(a.incarnation()));
  }
  std::sort(lives.begin(), lives.end());
  return lives;
}

inline ActorLife Life(const std::string& job, const std::string& role, int replica, uint64_t incarnation) {
  return {{JobId(job), role, replica}, incarnation};
}

// A job of one worker.
inline v1::JobSpec Work(const std::string& name, int devices, int32_t priority = 0) {
  v1::JobSpec spec = Spec(name, {{"work", 1, 1, devices}});
  spec.set_priority(priority);
  return spec;
}

inline std::string SubmitId(ClusterFixture& f, const v1::JobSpec& spec) {
  Answer answer = f.Submit(spec);
  TROUPE_CHECK(answer.status.ok(), std::string(answer.status.message()));
  return answer.submit.job_id();
}

inline bool Runs(const ClusterFixture& f, const std::string& id) {
  return f.state().FindJob(JobId(id))->phase == v1::StoredJob::PLACED;
}

inline std::string ReasonOf(const ClusterFixture& f, const std::string& id) { return f.job(id).reason(); }

inline std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

// Ends with exit status 0.
inline void End(ClusterFixture& f, const std::string& id, uint64_t incarnation = 1) {
  f.Advance(absl::Milliseconds(1));
  f.Exited(1, Life(id, "work", 0, incarnation), v1::ExitCause::EXITED);
}

}  // namespace troupe::scheduler
