// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "runtime/base/status.h"
#include "runtime/env/process.h"

namespace troupe::bench {
namespace {

// Of a process that only answers: as many of them as a benchmark needs fit onto a node.
constexpr double kPeerCpus = 0.01;
// More than any benchmark has in flight.
constexpr size_t kMailboxMessages = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<Bench>> Bench::Start(const BenchOptions& options) {
  std::unique_ptr<Bench> bench(new Bench(options));
  TROUPE_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make("troupe-bench"));
  bench->folder_.emplace(std::move(folder));
  TROUPE_ASSIGN_OR_RETURN(bench->machine_, Machine::Start());
  TROUPE_ASSIGN_OR_RETURN(bench->pair_, TransportPair::Start(bench->folder(), options.spin));
  return bench;
}

Bench::~Bench() {
  runtime_.reset();
  pair_ = nullptr;
  machine_ = nullptr;
}

std::string Bench::Program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

absl::Status Bench::StartRuntime() {
  if (runtime_) return absl::OkStatus();
  absl::StatusOr<Runtime> runtime = Runtime::Local({.name = "bench"});
  if (!runtime.ok()) return runtime.status();
  runtime_.emplace(*std::move(runtime));
  return absl::OkStatus();
}

absl::StatusOr<Ref<BenchPeer>> Bench::Spawn(RestartOptions restart, const std::string& program) {
  TROUPE_RETURN_IF_ERROR(StartRuntime());
  SpawnOptions options;
  options.cpus = kPeerCpus;
  options.worker_binary = program;
  options.restart = restart;
  options.mailbox.messages_max = kMailboxMessages;
  return runtime_->Spawn<BenchPeer>(options);
}

int RunBench(const std::string& what, const BenchOptions& options) {
  using Measure = void (*)(Bench&, Meter&);
  static const std::map<std::string, std::vector<Measure>> kMeasures = {
      // The footprint first: its cluster is to be alone.
      {"actor", {MeasureFootprint, MeasureLives, MeasureGangs, MeasureLocal, MeasureCalls, MeasureGrpc}},
      {"objects", {MeasureObjects}},
      {"scheduler", {MeasureScheduler, MeasureGangs}}};
  TuneMalloc();
  absl::StatusOr<std::unique_ptr<Bench>> bench = Bench::Start(options);
  if (!bench.ok()) {
    std::cerr << "troupe: " << StatusText(bench.status()) << "\n";
    return 1;
  }
  Meter meter(options.meter);
  if (!options.meter.json) std::cout << Machine::Describe() << std::endl;
  for (Measure measure : kMeasures.at(what)) {
    if (!options.simulate || measure == MeasureScheduler) measure(**bench, meter);
  }
  if (meter.measured() + meter.failed() == 0) {
    std::cerr << "troupe: no work of 'bench " << what
              << "' begins with what --only names; docs/benchmarks.md lists them, and "
                 "without --only all are shown\n";
    return 2;
  }
  if (meter.not_clean() > 0) {
    std::cerr << "troupe: " << meter.not_clean() << " of " << meter.measured()
              << " figures are not clean: other processes used the processors meanwhile; run it again when they are "
                 "quiet\n";
  }
  return meter.failed() == 0 ? 0 : 1;
}

int RunIdleCluster() {
  absl::StatusOr<Runtime> runtime = Runtime::Local({.name = "idle"});
  absl::Status status = runtime.status();
  if (status.ok()) {
    SpawnOptions options;
    options.cpus = kPeerCpus;
    absl::StatusOr<Ref<BenchPeer>> peer = runtime->Spawn<BenchPeer>(options);
    status = peer.ok() ? runtime->Stop(*peer, "the cluster is to be idle") : peer.status();
  }
  if (!status.ok()) {
    std::cerr << "troupe: " << StatusText(status) << "\n";
    return 1;
  }
  std::cout << "idle" << std::endl;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace troupe::bench
