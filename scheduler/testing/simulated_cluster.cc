// SPDX-License-Identifier: Apache-2.0
#include "scheduler/testing/simulated_cluster.h"

#include <utility>

#include "runtime/env/clock.h"

namespace troupe::scheduler {
namespace {

// Far less than a lease for any number of steps between two reports of a node.
constexpr absl::Duration kStep = absl::Nanoseconds(1);

}  // namespace

SimulatedCluster::SimulatedCluster(const SimulatedNodes& shape)
    : cluster_({.active_jobs_max = shape.active_jobs_max}, ClusterState()),
      now_{Monotonic::FromNanoseconds(1'000'000'000), 1'700'000'000'000} {
  Step(StartTerm{}, nullptr);
  for (int i = 0; i < shape.nodes; ++i) AddNode("node-" + std::to_string(i), shape.cpus, shape.devices);
}

void SimulatedCluster::AddNode(const std::string& name, double cpus, int devices) {
  SessionId& session = sessions_[name];
  if (session != 0) Step(SessionClosed{session}, nullptr);
  session = ++last_session_;
  FromNode event{session, {}, now_.monotonic};
  v1::RegisterNode& node = *event.messages.add_messages()->mutable_register_node();
  node.set_node_id(name);
  node.set_protocol_version(kNodeProtocolVersion);
  node.mutable_resources()->set_cpus(cpus);
  node.mutable_resources()->set_devices(devices);
  node.mutable_resources()->set_device_kind("sim");
  Decide(event);
}

absl::StatusOr<std::string> SimulatedCluster::Submit(const v1::JobSpec& spec) {
  SubmitJob event{++last_call_, {}, last_call_ * 0x9e3779b97f4a7c15u};
  *event.request.mutable_spec() = spec;
  Decide(event);
  Answer answer = answers_.extract(last_call_).mapped();
  if (!answer.status.ok()) return answer.status;
  return answer.submit.job_id();
}

void SimulatedCluster::Cancel(const std::string& job_id) {
  CancelJob event{++last_call_, {}};
  event.request.set_job_id(job_id);
  Decide(event);
}

void SimulatedCluster::Decide(const Event& event) {
  last_ = {};
  last_.took = Step(event, &last_.placed);
  Report();
}

// Until nobody has anything to say.
void SimulatedCluster::Report() {
  while (!reports_.empty()) {
    for (auto& [session, messages] : std::exchange(reports_, {})) {
      Step(FromNode{session, std::move(messages), now_.monotonic}, nullptr);
    }
  }
}

absl::Duration SimulatedCluster::Step(const Event& event, int* placed) {
  now_.monotonic = now_.monotonic + kStep;
  const Monotonic begin = MonotonicNow();
  StepResult result = cluster_.Step(event, now_);
  const absl::Duration took = MonotonicNow() - begin;
  deciding_ += took;
  auto act = [&](const Action& action) {
    if (const auto* answer = std::get_if<Answer>(&action)) answers_[answer->call] = *answer;
    const auto* send = std::get_if<SendToNode>(&action);
    if (send == nullptr) return;
    if (send->message.has_start_worker()) {
      if (placed != nullptr) ++*placed;
      v1::ActorAddress& address = *reports_[send->session].add_messages()->mutable_worker_ready()->mutable_address();
      *address.mutable_actor() = send->message.start_worker().actor();
      address.set_endpoint("unix:/simulated");
    } else if (send->message.has_stop_worker()) {
      v1::WorkerExited& exited = *reports_[send->session].add_messages()->mutable_worker_exited();
      *exited.mutable_actor() = send->message.stop_worker().actor();
      exited.mutable_cause()->set_kind(v1::ExitCause::STOPPED);
    }
  };
  for (const Action& action : result.observed) act(action);
  for (const Action& action : result.actions) act(action);
  return took;
}

}  // namespace troupe::scheduler
