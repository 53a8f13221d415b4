// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "actors/worker/model_options.h"
#include "actors/worker/number_within.h"
#include "runtime/base/nearest.h"
#include "runtime/device/device_kinds.h"
#include "tools/cli/version.h"

namespace troupe::cli {
namespace {

constexpr double kMessageBytesMax = 8 << 20;  // what one message between processes holds

// What was wrong, the nearest option to one that is not known, and where to read on.
std::string WrongUse(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* command = app->get_subcommands().empty() ? app : app->get_subcommands().front();
  std::string text = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::vector<std::string> unknown = app->remaining(/*recurse=*/true), names;
    auto first = std::find_if(unknown.begin(), unknown.end(), [](const std::string& word) { return word[0] == '-'; });
    if (first == unknown.end()) first = unknown.begin();
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    std::string nearest = NearestOf(*first, names);
    text = "no option or argument '" + *first + "' here" +
           (nearest.empty() ? std::string() : ": did you mean '" + nearest + "'?");
  }
  std::string prefix = command == app ? "" : command->get_name() + " ";
  return "troupe: " + text + "\n  see troupe " + prefix + "--help\n";
}

class Grammar {
 public:
  explicit Grammar(Options& options) : options_(options), app_("Troupe: RL post-training of language models.") {
    app_.name("troupe");
    app_.set_version_flag("--version", std::string(kVersion));
    app_.require_subcommand(1);
    app_.failure_message(WrongUse);
    app_.footer("Example: troupe run examples/addition/job.yaml trainer.total_steps=12");
    AddJobs();
    AddCluster();
    AddOperations();
    AddQueue();
    AddModels();
    AddBench();
  }

  CLI::App& app() { return app_; }

 private:
  CLI::App* Command(const std::string& name, const std::string& what, const std::string& example) {
    CLI::App* command = app_.add_subcommand(name, what);
    command->footer("Example: " + example);
    command->callback([this, name] { options_.command = name; });
    return command;
  }

  void Duration(CLI::App* command, const std::string& name, absl::Duration& value, const std::string& what) {
    command->add_option_function<std::string>(
        name,
        [&value, name](const std::string& text) {
          if (!absl::ParseDuration(text, &value) || value < absl::ZeroDuration()) {
            throw CLI::ValidationError(name, "expected a duration such as 30s or 5m, got '" + text + "'");
          }
        },
        what);
  }

  void Connect(CLI::App* command) {
    command->add_option("--head", options_.connection.head,
                        "HOST:PORT of the head ($TROUPE_HEAD, else 127.0.0.1:7400)");
    Secure(command);
  }

  void Secure(CLI::App* command) {
    Connection& c = options_.connection;
    command->add_option("--token-file", c.token_file, "file with the token (default ~/.config/troupe/token)");
    command->add_option("--ca-file", c.ca_file, "certificate authority (PEM): turns TLS on");
    command->add_option("--cert-file", c.cert_file, "own certificate (PEM)");
    command->add_option("--key-file", c.key_file, "its key (PEM)");
    command->add_flag("--insecure", c.insecure, "without TLS off loopback; anybody on the network can read the token");
  }

  void List(CLI::App* command) {
    Connect(command);
    command->add_option("-o,--output", options_.output, "table, wide, json or yaml")
        ->check(CLI::IsMember({"table", "wide", "json", "yaml"}));
    command->add_flag("--watch,-w", options_.watch, "print again at each change, until interrupted");
  }

  void JobFile(CLI::App* command) {
    command->add_option("JOB.yaml", options_.target, "the job file")->required();
    command->add_option("overrides", options_.overrides, "path.to.field=value");
  }

  void Job(CLI::App* command, const std::string& what = "the job's id") {
    command->add_option("JOB", options_.target, what)->required();
  }

  void AddJobs() {
    CLI::App* run = Command("run", "Run a job on this machine: a private head and node, nothing left behind.",
                            "troupe run examples/addition/job.yaml rollout.n=16");
    JobFile(run);
    run->add_flag("-q,--quiet", options_.quiet, "print only errors and the summary");
    run->add_flag("--json-summary", options_.json_summary, "print the outcome as one JSON object on stdout");
    CLI::App* submit = Command("submit", "Send a job to a head; prints its id.",
                               "troupe submit job.yaml --follow --head 10.0.0.1:7400");
    Connect(submit);
    JobFile(submit);
    submit->add_flag("-f,--follow", options_.follow, "follow it to its end");
    submit->add_flag("--dry-run", options_.dry_run, "show where everything would be placed and why, start nothing");
    submit->add_flag("-q,--quiet", options_.quiet, "print only the id and errors");
    CLI::App* explain = Command("explain", "Every value of a job file and where it came from; or why a job waits.",
                                "troupe explain job.yaml trainer.total_steps=3");
    Connect(explain);
    explain->add_option("JOB", options_.target, "a job file, or job/ID")->required();
    explain->add_option("overrides", options_.overrides, "path.to.field=value");
    explain->add_option("-o,--output", options_.output, "table, json or yaml")
        ->check(CLI::IsMember({"table", "wide", "json", "yaml"}));
    CLI::App* resume =
        Command("resume", "Go on with a run from its newest checkpoint.", "troupe resume runs/addition/1");
    resume->add_option("DIR", options_.target, "a run's folder, or one of its checkpoints")->required();
    resume->add_option("overrides", options_.overrides, "path.to.field=value");
    resume->add_flag("-q,--quiet", options_.quiet, "print only errors and the summary");
    resume->add_flag("--json-summary", options_.json_summary, "print the outcome as one JSON object on stdout");
  }

  void AddCluster() {
    CLI::App* head = Command("head", "Start the scheduler.", "troupe head --listen 127.0.0.1:7400");
    head->add_option("--listen", options_.listen, "address (default 127.0.0.1:7400; port 0 picks one)");
    head->add_option("--data-dir", options_.data_dir, "its records (default ~/.local/share/troupe/head)");
    Secure(head);
    CLI::App* node =
        Command("node", "Join this machine to a head.", "troupe node --head 10.0.0.1:7400 --devices sim:8");
    Connect(node);
    node->add_option("--devices", options_.devices,
                     "auto, none, a kind (" + device::DeviceKindNames() +
                         "), some of it as in cuda:0,2, or for trials sim:8,memory=80GiB,island=4,numa=4");
    node->add_option("--label", options_.labels, "key=value");
    node->add_option("--resource", options_.resources, "name=number: a further kind of resource, as in licence=2");
    node->add_option("--cpu-isolation", options_.cpu_isolation,
                     "none; weight: CPUs as asked for when all are busy; set: whole CPUs of a worker's own, near its "
                     "devices")
        ->check(CLI::IsMember({"none", "weight", "set"}));
    node->add_option("--worker-objects", options_.worker_object_bytes,
                     "the most bytes of objects of one worker in this node's memory, as in 4GiB (default: no quota)")
        ->transform(CLI::AsSizeValue(false));
    node->add_option("--cpus", options_.cpus, "cores to offer (default: all)")->check(CLI::PositiveNumber);
    node->add_option("--node-id", options_.node_id, "its name (default: the host's and a random number)");
    node->add_option("--host", options_.host, "name or address for other machines (default: the way to the head)");
    node->add_option("--data-dir", options_.data_dir, "its runtime folder");
    List(Command("jobs", "List jobs, newest first.", "troupe jobs -o json"));
    List(Command("nodes", "List nodes.", "troupe nodes"));
    List(Command("devices", "List devices: what each is, how it is, and who holds it.", "troupe devices -o wide"));
    List(Command("queues", "List queues: what each holds and may hold, and how many jobs wait.", "troupe queues"));
    CLI::App* actors = Command("actors", "List actors.", "troupe actors --job addition-1f3c");
    List(actors);
    actors->add_option("--job", options_.job_filter, "only of this job");
    CLI::App* groups =
        Command("groups", "List groups of replicas: policy, generation, how many run.", "troupe groups addition-1f3c");
    List(groups);
    groups->add_option("JOB", options_.target, "only of this job");
    Command("doctor", "Check this machine: processors, devices, memory, limits, disk, model.", "troupe doctor");
  }

  void AddOperations() {
    CLI::App* logs = Command("logs", "Log lines of every process of a job, merged by time.",
                             "troupe logs addition-1f3c rollout/0 -f --since 5m");
    Connect(logs);
    Job(logs, "the job's id, or a run's folder");
    logs->add_option("ROLE", options_.role, "ROLE or ROLE/N");
    logs->add_flag("-f,--follow", options_.follow, "go on printing");
    Duration(logs, "--since", options_.since, "only lines younger than this, such as 5m");
    CLI::App* cancel = Command("cancel", "End a job; safe to repeat.", "troupe cancel addition-1f3c --grace 30s");
    Connect(cancel);
    Job(cancel);
    Duration(cancel, "--grace", options_.grace, "how long its processes may take to stop");
    cancel->add_flag("--no-wait", options_.no_wait, "return at once");
    CLI::App* scale = Command("scale", "Change how many replicas of roles run; safe to repeat.",
                              "troupe scale addition-1f3c rollout=4 reward=2");
    Connect(scale);
    Job(scale);
    scale->add_option("ROLE=N", options_.scales, "the new number of a role's replicas")->required();
    scale->add_flag("--no-wait", options_.no_wait, "return when it is decided");
    CLI::App* drain = Command("drain", "Move what runs on a node elsewhere; nothing new goes there. Safe to repeat.",
                              "troupe drain node-7 --deadline 10m --reason 'new memory'");
    Connect(drain);
    drain->add_option("NODE", options_.target, "its id, as 'troupe nodes' shows it")->required();
    Duration(drain, "--deadline", options_.deadline, "then what is left is stopped and placed anew (10m)");
    drain->add_option("--reason", options_.reason, "for people");
    drain->add_flag("--no-wait", options_.no_wait, "return when it is decided");
    CLI::App* undrain =
        Command("undrain", "Let a drained node get work again; safe to repeat.", "troupe undrain node-7");
    Connect(undrain);
    undrain->add_option("NODE", options_.target, "its id")->required();
    undrain->add_flag("--no-wait", options_.no_wait, "accepted: it returns at once anyway");
  }

  void AddQueue() {
    CLI::App* queue = Command("queue", "Create a queue, or set its limits; what is not given is not limited.",
                              "troupe queue research --weight 2 --devices 8 --jobs 20");
    Connect(queue);
    queue->add_option("NAME", options_.target, "its name")->required();
    v1::Queue& limits = options_.queue;
    queue->add_option_function<double>(
        "--weight", [&limits](double weight) { limits.set_weight(weight); },
        "its part of what is there when queues want more than that (1)");
    queue->add_option_function<double>(
        "--cpus", [&limits](double cpus) { limits.mutable_quota()->set_cpus(cpus); }, "the most that its jobs hold");
    queue->add_option_function<int>(
        "--devices", [&limits](int devices) { limits.mutable_quota()->set_devices(devices); }, "the same, of devices");
    queue
        ->add_option_function<uint64_t>(
            "--memory",
            [&limits](uint64_t bytes) { limits.mutable_quota()->set_memory_bytes(static_cast<int64_t>(bytes)); },
            "the same, of memory, as in 64GiB")
        ->transform(CLI::AsSizeValue(false));
    queue->add_option_function<int>(
        "--jobs", [&limits](int jobs) { limits.set_jobs_max(jobs); }, "the most jobs that hold places at one time");
  }

  // Checked here; the worker binary reads what was typed.
  void AddModels() {
    AddGenerateOptions(*Command("generate", "Try a model.", "troupe generate model.gguf \"What is 2 + 2?\""),
                       generate_);
    AddExportOptions(*Command("export", "Write a checkpoint as a Hugging Face folder that others load.",
                              "troupe export runs/addition/1/checkpoints/step_40 --to model --dtype bfloat16"),
                     export_);
  }

  void AddBench() {
    bench::BenchOptions& b = options_.bench;
    CLI::App* command =
        Command("bench", "Measure actors, objects and the scheduler beside what this machine itself can do.",
                "troupe bench actor --only call --seconds 3");
    command
        ->add_option("WHAT", options_.target,
                     "actor, objects or scheduler (idle: only holds an idle cluster until stdin ends)")
        ->required()
        ->check(CLI::IsMember({"actor", "objects", "scheduler", "idle"}));
    command->add_flag("--simulate", b.simulate,
                      "scheduler: only its decisions on simulated nodes, up to 10,000, without its disk");
    command->add_flag("--json", b.meter.json, "one object a line instead of a table (also -o json)");
    command
        ->add_option_function<std::string>(
            "-o,--output", [&b](const std::string& text) { b.meter.json = text == "json"; }, "table or json")
        ->check(CLI::IsMember({"table", "json"}));
    command->add_flag_callback(
        "--quick",
        [&b] {
          b.quick = true;
          b.meter.repeats = 2;
          b.meter.seconds = absl::Milliseconds(40);
        },
        "a look at whether everything works, in seconds; its figures mean nothing");
    command
        ->add_option_function<double>(
            "--seconds", [&b](double seconds) { b.meter.seconds = absl::Seconds(seconds); },
            "how long each figure is measured (1); its limit takes as long again")
        ->check(NumberWithin(0.01, 3600, false));
    command->add_option("--repeats", b.meter.repeats, "of which the median is taken (9)")
        ->check(NumberWithin(1, 1000, true));
    command->add_option("--payload", b.payload_bytes, "sizes of arguments, as in 1KiB,1MiB")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(NumberWithin(1, kMessageBytesMax, true));
    Duration(command, "--spin", b.spin, "how long readers spin in call_sync_spinning (1ms); 0: it is left out");
    command->add_option("--torch-worker", b.torch_worker,
                        "the program //tools/bench:torch_worker: processes with LibTorch are timed, too");
    command->add_option("--only", b.meter.only, "work whose name begins with one of these, as in call,kill")
        ->delimiter(',');
  }

  Options& options_;
  GenerateOptions generate_;
  ExportOptions export_;
  CLI::App app_;
};

// "troupe jbos" names the nearest command.
std::string NearestCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  for (const std::string& name : names) {
    if (name == argv[1]) return "";
  }
  std::string nearest = NearestOf(argv[1], names);
  return "troupe: no command '" + std::string(argv[1]) + "'" +
         (nearest.empty() ? "; see troupe --help" : ": did you mean '" + nearest + "'?");
}

}  // namespace

bool ParseOptions(int argc, char** argv, Options& options, int& exit_code) {
  for (int i = 1; i < argc; ++i) options.typed.push_back(argv[i]);
  Grammar grammar(options);
  CLI::App& app = grammar.app();
  if (std::string nearest = NearestCommand(app, argc, argv); !nearest.empty()) {
    std::cerr << nearest << "\n";
    exit_code = kWrongUse;
    return false;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error, std::cout, std::cerr) == 0 ? kDone : kWrongUse;
    return false;
  }
  return true;
}

}  // namespace troupe::cli
