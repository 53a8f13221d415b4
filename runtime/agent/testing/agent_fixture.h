// SPDX-License-Identifier: Apache-2.0
// The fixture of the tests of AgentState: the test plays the keeper, the head and the workers, and reads the actions.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/agent/agent_state.h"

namespace troupe::agent {

inline Monotonic At(double seconds) { return Monotonic::FromNanoseconds(static_cast<int64_t>(seconds * 1e9)); }

inline ActorLife Life(uint64_t incarnation, const std::string& role = "rollout") {
  return {{JobId("job"), role, 0}, incarnation};
}

inline v1::StartWorker StartOf(const ActorLife& actor, uint64_t term = 5) {
  v1::StartWorker start;
  *start.mutable_actor() = actor.ToProto();
  start.set_term(term);
  start.set_hang_timeout_ms(30'000);
  return start;
}

// An agent whose keeper and head are played by the test. Ticks as the driver does.
struct AgentFixture {
  v1::AgentIdentity identity = [] {
    v1::AgentIdentity id;
    id.set_node_id("node");
    id.set_node_incarnation(1);
    return id;
  }();
  AgentState state;
  double now = 0;
  std::vector<AgentAction> last;

  explicit AgentFixture(const std::vector<v1::AssignedWorker>& assigned = {}, int devices = 0)
      : state(Options(devices), identity, assigned, At(0)) {}
  static AgentStateOptions Options(int devices) {
    AgentStateOptions options;
    options.registration.mutable_resources()->set_devices(devices);
    for (int i = 0; i < devices; ++i) options.registration.add_devices()->set_index(i);
    return options;
  }

  // What the folder answers to KeepIdentity.
  absl::Status keep_identity;

  std::vector<AgentAction>& Step(const AgentEvent& event) {
    last = state.Step(event, At(now));
    if (!last.empty() && std::holds_alternative<KeepIdentity>(last.back())) {
      for (AgentAction& action : state.Step(IdentityKept{keep_identity}, At(now))) last.push_back(std::move(action));
    }
    return last;
  }
  // Time passes in ticks; all actions of them.
  std::vector<AgentAction> Wait(double seconds) {
    std::vector<AgentAction> all;
    for (double end = now + seconds; now < end;) {
      now += 0.25;
      for (AgentAction& action : state.Step(TimePassed(), At(now))) all.push_back(std::move(action));
    }
    return all;
  }
  void Head(v1::HeadToAgent message) { Step(HeadSaid{message}); }
  void Welcome(uint64_t term = 5, uint64_t incarnation = 1, std::vector<ActorLife> unknown = {}) {
    v1::HeadToAgent m;
    m.mutable_welcome_node()->set_term(term);
    m.mutable_welcome_node()->set_node_incarnation(incarnation);
    m.mutable_welcome_node()->set_head_loss_grace_ms(60'000);
    for (const ActorLife& life : unknown) *m.mutable_welcome_node()->add_unknown_workers() = life.ToProto();
    Head(m);
  }
  void Join() {
    Step(KeeperConnected());
    Step(HeadConnected());
    Welcome();
  }
  void Start(const ActorLife& actor, uint64_t term = 5) {
    v1::HeadToAgent m;
    *m.mutable_start_worker() = StartOf(actor, term);
    Head(m);
  }
  void Run(const ActorLife& actor) {
    Start(actor);
    Step(WorkerSpawned{actor, 100});
    Hello(actor, actor.incarnation);
  }
  void Stop(const ActorLife& actor, int64_t grace_ms, uint64_t term = 5) {
    v1::HeadToAgent m;
    *m.mutable_stop_worker()->mutable_actor() = actor.ToProto();
    m.mutable_stop_worker()->set_grace_ms(grace_ms);
    m.mutable_stop_worker()->set_reason("test");
    m.mutable_stop_worker()->set_term(term);
    Head(m);
  }
  void Acknowledge(const ActorLife& actor) {
    v1::HeadToAgent m;
    *m.mutable_acknowledge_exit()->mutable_actor() = actor.ToProto();
    Head(m);
  }
  void Hello(const ActorLife& actor, WorkerSessionId session, bool reconnect = false, bool ready = false) {
    v1::WorkerToAgent m;
    *m.mutable_hello()->mutable_actor() = actor.ToProto();
    m.mutable_hello()->set_reconnect(reconnect);
    m.mutable_hello()->set_ready(ready);
    m.mutable_hello()->set_endpoint(ready ? "unix:/w" : "");
    Step(WorkerSaid{session, m});
  }
  void Beat(WorkerSessionId session) {
    v1::WorkerToAgent m;
    m.mutable_heartbeat();
    Step(WorkerSaid{session, m});
  }
  void Gone(const ActorLife& actor, v1::ExitCause::Kind kind = v1::ExitCause::EXITED) {
    v1::ExitCause cause;
    cause.set_kind(kind);
    Step(WorkerGone{actor, cause});
  }
};

// The actions of one kind, in order.
template <typename T>
std::vector<T> All(const std::vector<AgentAction>& actions) {
  std::vector<T> found;
  for (const AgentAction& action : actions) {
    if (const T* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

// The exits that the actions tell the head of.
inline std::vector<v1::WorkerExited> Exits(const std::vector<AgentAction>& actions) {
  std::vector<v1::WorkerExited> exits;
  for (const TellHead& tell : All<TellHead>(actions)) {
    if (tell.message.has_worker_exited()) exits.push_back(tell.message.worker_exited());
  }
  return exits;
}

}  // namespace troupe::agent
