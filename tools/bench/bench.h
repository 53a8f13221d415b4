// SPDX-License-Identifier: Apache-2.0
// `troupe bench`. actor: calls within a process and between two, over each transport, with small and large arguments;
// starts, deaths and restarts of actors; what an idle cluster, an actor and the program cost. objects: put, got and
// passed between processes. scheduler: decisions on thousands of simulated nodes, and gangs through a head and its
// disk.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/embed/runtime.h"
#include "runtime/env/temporary_folder.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_peer.h"
#include "tools/bench/machine.h"
#include "tools/bench/meter.h"
#include "tools/bench/transport_pair.h"

namespace troupe::bench {

// Measures and prints; while this process has one thread. `what`: "actor", "objects" or "scheduler". The exit status:
// 0, or 1 when something could not be measured.
int RunBench(const std::string& what, const BenchOptions& options);

// Holds a head and a node that have nothing to do until stdin is closed; for the figures of an idle cluster.
int RunIdleCluster();

// What the works share. Each part is made when it is first needed.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Start(const BenchOptions& options);
  ~Bench();

  const BenchOptions& options() const { return options_; }
  const Machine& machine() const { return *machine_; }
  TransportPair& pair() { return *pair_; }
  const std::string& folder() const { return folder_->path(); }
  static std::string Program();  // This one.

  // The runtime is there from then on.
  absl::Status StartRuntime();
  Runtime& runtime() { return *runtime_; }
  // In a process of its own. `program`: of that process; "": this one.
  absl::StatusOr<Ref<BenchPeer>> Spawn(RestartOptions restart = {}, const std::string& program = "");

 private:
  explicit Bench(BenchOptions options) : options_(std::move(options)) {}

  const BenchOptions options_;
  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<TransportPair> pair_;
  std::optional<Runtime> runtime_;
};

// The works of one file each, measured.
void MeasureCalls(Bench& bench, Meter& meter);      // call_works.cc
void MeasureGrpc(Bench& bench, Meter& meter);       // grpc_works.cc
void MeasureLocal(Bench& bench, Meter& meter);      // local_works.cc
void MeasureLives(Bench& bench, Meter& meter);      // life_works.cc
void MeasureGangs(Bench& bench, Meter& meter);      // gang_works.cc
void MeasureObjects(Bench& bench, Meter& meter);    // object_works.cc
void MeasureScheduler(Bench& bench, Meter& meter);  // scheduler_works.cc
void MeasureFootprint(Bench& bench, Meter& meter);  // footprint_works.cc

}  // namespace troupe::bench
