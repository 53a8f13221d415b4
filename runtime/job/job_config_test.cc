// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/job_config.h"

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/job/config_tree.h"
#include "runtime/job/yaml_text.h"

namespace troupe {
namespace {

constexpr char kJob[] = R"(name: addition
model: {path: model.gguf}
data: {train: train.jsonl, val: /data/val.jsonl}
roles:
  rollout: {replicas: 2, resources: {cpu: 2, memory: 4GiB}, restart: {max: 3, window: 1m}}
  reward: {function: regex, pattern: '[0-9]+', match: first}
placement: colocated
algorithm: {adv_epsilon: 1e-4}
rollout: {n: 8, response_length: 8}
actor: {optim: {lr: 1e-5, weight_decay: 0}}
trainer: {total_steps: 40, train_batch_size: 8, test_freq: 10}
)";

absl::StatusOr<LoadedJob> Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return LoadJobText(text, "job.yaml", "/jobs", overrides);
}

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<LoadedJob> loaded = Load(text, overrides);
  return loaded.ok() ? "" : MessageOf(loaded.status());
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("JobConfig: a job file is read with its defaults filled in", "[job]") {
  JobConfig config = Load(kJob).value().config;
  CHECK(config.model.path == "/jobs/model.gguf");
  CHECK(config.data.val == "/data/val.jsonl");
  CHECK(config.roles.at("rollout").replicas == 2);
  CHECK(config.roles.at("rollout").resources.memory == 4LL << 30);
  CHECK(config.roles.at("rollout").restart.window == absl::Minutes(1));
  CHECK(config.roles.at("actor").replicas == 1);
  REQUIRE(config.reward.functions.size() == 1);
  CHECK(config.reward.functions[0].pattern == "[0-9]+");
  CHECK(config.algorithm.adv_epsilon == 1e-4);
  CHECK(config.actor.optim.betas == std::vector<double>{0.9, 0.999});
  CHECK_FALSE(config.needs_reference());
}

TEST_CASE("JobConfig: JSON and YAML of a config read back to the same config", "[job]") {
  JobConfig config = Load(kJob).value().config;
  std::string json = JobConfigToJson(config);
  CHECK(JobConfigToJson(JobConfigFromJson(json).value()) == json);
  JobConfig from_yaml = LoadJobText(JobConfigToYaml(config), "run/job.yaml", "/elsewhere", {}).value().config;
  CHECK(JobConfigToJson(from_yaml) == json);
}

TEST_CASE("JobConfig: programs run in the job file's folder, also when the job is read back elsewhere", "[job]") {
  auto folder = [](const JobConfig& config) { return config.reward.functions[0].working_dir; };
  JobConfig config = Load(kJob).value().config;
  CHECK(folder(config) == "/jobs");
  CHECK(folder(LoadJobText(JobConfigToYaml(config), "run/job.yaml", "/elsewhere", {}).value().config) == "/jobs");
  CHECK(folder(Load(kJob, {"roles.reward.working_dir=scripts"}).value().config) == "/jobs/scripts");
}

TEST_CASE("JobConfig: an override wins and is named as the source", "[job]") {
  LoadedJob loaded = Load(kJob, {"trainer.total_steps=3", "actor.optim.betas=[0.5, 0.6]", "model.seed=9"}).value();
  CHECK(loaded.config.trainer.total_steps == 3);
  CHECK(loaded.config.actor.optim.betas == std::vector<double>{0.5, 0.6});
  bool seen = false;
  for (const ExplainedValue& value : loaded.values) {
    if (value.path == "trainer.total_steps") seen = value.source == "command line" && value.value == "3";
    if (value.path == "trainer.test_freq") CHECK(value.source == "job.yaml:11");
    if (value.path == "rollout.top_p") CHECK(value.source == "default");
  }
  CHECK(seen);
}

TEST_CASE("JobConfig: a mistyped key is answered with line and the nearest right one", "[job]") {
  CHECK(ErrorOf(Replace(kJob, "response_length", "response_lenght")) ==
        "job.yaml:9: unknown key 'rollout.response_lenght': did you mean 'response_length'?");
  CHECK(ErrorOf(Replace(kJob, "optim:", "optm:")) == "job.yaml:10: unknown key 'actor.optm': did you mean 'optim'?");
  CHECK(ErrorOf(Replace(kJob, "trainer:", "trainr:")) == "job.yaml:11: unknown key 'trainr': did you mean 'trainer'?");
  CHECK(ErrorOf(kJob, {"actor.lr=3"}) ==
        "command line: unknown key 'actor.lr'; known here: use_kl_loss kl_loss_coef "
        "kl_loss_type entropy_coeff optim ppo_epochs ppo_mini_batch_size "
        "ppo_max_token_len loss_agg_mode loss_scale_factor clip_ratio_low "
        "clip_ratio_high clip_ratio_c policy_loss");
}

TEST_CASE("JobConfig: a wrong value is answered with line, key and what was expected", "[job]") {
  CHECK(ErrorOf(Replace(kJob, "n: 8,", "n: many,")) == "job.yaml:9: rollout.n: expected a whole number, got 'many'");
  CHECK(ErrorOf(Replace(kJob, "n: 8,", "n: 0,")) == "job.yaml:9: rollout.n: expected a value of at least 1, got 0");
  CHECK(ErrorOf(kJob, {"rollout.min_p=1.5"}) == "command line: rollout.min_p: expected a value of at most 1, got 1.5");
  CHECK(ErrorOf(kJob, {"algorithm.kl_ctrl.type=adaptiv"}).find("did you mean 'adaptive'?") != std::string::npos);
  CHECK(ErrorOf(Replace(kJob, "window: 1m", "window: 60")).find("expected a duration such as 30s") !=
        std::string::npos);
  CHECK(ErrorOf(Replace(kJob, "function: regex", "function: regexp")).find("did you mean 'regex'?") !=
        std::string::npos);
  CHECK(ErrorOf(Replace(kJob, "lr: 1e-5", "lr: nan")).find("expected a number, got 'nan'") != std::string::npos);
  CHECK(ErrorOf(Replace(kJob, "4GiB", "4 bananas")).find("expected bytes such as") != std::string::npos);
}

TEST_CASE("JobConfig: what no single key can tell is checked", "[job]") {
  CHECK(ErrorOf(Replace(kJob, "total_steps: 40, ", "")).find("trainer.total_steps: needed") != std::string::npos);
  CHECK(ErrorOf(kJob, {"actor.ppo_mini_batch_size=3"}).find("must divide") != std::string::npos);
  CHECK(ErrorOf(kJob, {"rollout.n=1"}).find("at least 2") != std::string::npos);
  CHECK(ErrorOf(kJob, {"actor.clip_ratio_low=1"}).find("[0, 1)") != std::string::npos);
  CHECK(ErrorOf(Replace(kJob, ", val: /data/val.jsonl", "")).find("validation is asked for") != std::string::npos);
  CHECK(ErrorOf(Replace(kJob, "function: regex", "command: x, function: regex")).find("exactly one") !=
        std::string::npos);
  CHECK(
      ErrorOf(Replace(kJob, "placement: colocated", "placement: [[rolout, actor]]")).find("did you mean 'rollout'?") !=
      std::string::npos);
}

TEST_CASE("JobConfig: the terms of scheduling reach the scheduler", "[job]") {
  const std::vector<std::string> terms = {"scheduling.queue=q",          "scheduling.priority=-7",
                                          "scheduling.preemptible=true", "scheduling.after=[a-1, b-2:failed]",
                                          "scheduling.time_limit=2m",    "scheduling.expected_time=1m",
                                          "scheduling.max_retries=3"};
  const v1::JobSpec spec = MakeJobSpec(LoadJobText(kJob, "job.yaml", "/", terms).value().config, "/tmp/x");
  CHECK(spec.queue() == "q");
  CHECK(spec.priority() == -7);
  CHECK(spec.preemptible());
  REQUIRE(spec.after_size() == 2);
  CHECK(spec.after(0).condition() == v1::JobDependency::SUCCEEDED);
  CHECK(spec.after(1).job_id() == "b-2");
  CHECK(spec.after(1).condition() == v1::JobDependency::FAILED);
  CHECK(spec.time_limit_ms() == 120'000);
  CHECK(spec.expected_ms() == 60'000);
  CHECK(spec.max_retries() == 3);
  CHECK(ErrorOf(kJob, {"scheduling.after=[a:won]"}).find("got 'a:won'") != std::string::npos);
  CHECK(ErrorOf(kJob, {"scheduling.time_limit=1m", "scheduling.expected_time=2m"}).find("longer than") !=
        std::string::npos);
}

TEST_CASE("JobConfig: groups of replicas reach the scheduler, and what contradicts is refused with its key", "[job]") {
  auto role = [](const v1::JobSpec& spec, const std::string& name) {
    for (const v1::RoleSpec& role : spec.roles()) {
      if (role.role() == name) return role;
    }
    return v1::RoleSpec();
  };
  const std::vector<std::string> apart = {"placement=disaggregated"};
  const v1::JobSpec plain = MakeJobSpec(LoadJobText(kJob, "job.yaml", "/", apart).value().config, "/tmp/x");
  CHECK(role(plain, "actor").policy() == v1::ALL_FOR_ONE);
  CHECK(role(plain, "rollout").policy() == v1::ONE_FOR_ONE);
  CHECK(role(plain, "rollout").grow_only());
  const std::vector<std::string> grouped = {"placement=disaggregated",     "roles.reward.policy=elastic",
                                            "roles.reward.replicas=2",     "roles.reward.min_replicas=1",
                                            "roles.reward.max_replicas=4", "roles.reward.group=scorers"};
  const v1::RoleSpec reward =
      role(MakeJobSpec(LoadJobText(kJob, "job.yaml", "/", grouped).value().config, "/tmp/x"), "reward");
  CHECK(reward.policy() == v1::ELASTIC);
  CHECK(reward.group() == "scorers");
  CHECK(reward.min_replicas() == 1);
  CHECK(reward.max_replicas() == 4);
  CHECK(ErrorOf(kJob, {"roles.reward.min_replicas=2"}).find("roles.reward.min_replicas: it is above replicas") !=
        std::string::npos);
  CHECK(ErrorOf(kJob, {"roles.actor.policy=all"}).find("all_for_one") != std::string::npos);
  CHECK(ErrorOf(kJob, {"placement=disaggregated", "roles.rollout.policy=elastic"}).find("roles.rollout.policy") !=
        std::string::npos);
  CHECK(ErrorOf(kJob, {"placement=colocated", "roles.reward.policy=elastic"}).find("takes turns") != std::string::npos);
}

TEST_CASE("JobConfig: broken YAML names file and line and never throws", "[job]") {
  CHECK(ErrorOf("name: [1, 2\n").rfind("job.yaml:", 0) == 0);
  CHECK(ErrorOf("name: a\nname: b\n") == "job.yaml:2: the key 'name' is given twice");
  CHECK(ErrorOf("- 1\n").find("top level") != std::string::npos);
  CHECK(ErrorOf("") != "");
  CHECK(ErrorOf("a: &a [*a]\n") != "");
}

TEST_CASE("JobConfig: the scheduler's spec has the roles that are needed", "[job]") {
  JobConfig config = Load(kJob).value().config;
  v1::JobSpec spec = MakeJobSpec(config, "/runs/1");
  REQUIRE(spec.roles_size() == 4);  // actor controller rollout reward; no reference without a KL coefficient
  for (const v1::RoleSpec& role : spec.roles()) {
    CHECK(role.colocation_group() == (role.role() == "controller" ? "" : "colocated"));
  }
  config.actor.use_kl_loss = true;
  CHECK(MakeJobSpec(config, "/runs/1").roles_size() == 5);
  config.actor.use_kl_loss = false;
  config.algorithm.use_kl_in_reward = true;
  CHECK(MakeJobSpec(config, "/runs/1").roles_size() == 5);
  config.algorithm.kl_ctrl.kl_coef = 0;
  CHECK(MakeJobSpec(config, "/runs/1").roles_size() == 4);
}

TEST_CASE("JobConfig: a class takes the place of a reward function", "[job]") {
  std::string own = Replace(kJob, "function: regex, pattern: '[0-9]+', match: first", "class: Own, args: [2]");
  JobConfig config = Load(own).value().config;
  CHECK(config.reward.functions.empty());
  CHECK(config.reward.role.class_name == "Own");
  CHECK(LoadJobText(JobConfigToJson(config), "job.json", "/", {}).ok());
  CHECK(ErrorOf(Replace(own, "class: Own", "class: Own, function: numeric")).find("not both") != std::string::npos);
}

TEST_CASE("JobConfig: a job of user classes needs no model", "[job]") {
  JobConfig config = Load("name: hello\nroles: {hello: {class: Hello, args: [3], replicas: 2}}\n").value().config;
  CHECK_FALSE(config.trains());
  v1::JobSpec spec = MakeJobSpec(config, "/runs/1");
  REQUIRE(spec.roles_size() == 1);
  CHECK(spec.roles(0).actor_class() == "Hello");
  CHECK(spec.roles(0).args_json() == "[3]");
  CHECK(ErrorOf("name: hello\nroles: {hello: {replicas: 2}}\n").find("a class is needed") != std::string::npos);
}

TEST_CASE("JobConfig: a file that is not there is told with line, key and the nearest name", "[job]") {
  std::string folder = MakeTemporaryDirectory("job-config").value();
  REQUIRE(MakeDirs(folder + "/model").ok());
  REQUIRE(WriteFileAtomic(folder + "/train.jsonl", "{}\n").ok());
  auto load = [&](const std::string& model, const std::string& train, std::vector<std::string> overrides = {}) {
    std::string text = "name: a\nmodel: {path: " + model + "}\ndata:\n  train: " + train +
                       "\nroles: {reward: {function: numeric}}\ntrainer: {total_steps: 1}\n";
    REQUIRE(WriteFileAtomic(folder + "/job.yaml", text).ok());
    return MessageOf(LoadJobFile(folder + "/job.yaml", overrides).status());
  };
  CHECK(load("model", "train.jsonl") == "");
  CHECK_THAT(load("modle", "train.jsonl"),
             Catch::Contains("job.yaml:2: model.path: '") && Catch::Contains("did you mean 'model'?"));
  CHECK_THAT(load("model", "training.jsonl"),
             Catch::Contains("job.yaml:4: data.train: '") && Catch::Contains("did you mean 'train.jsonl'?"));
  CHECK_THAT(load("model", "train.jsonl", {"trainer.resume=atuo"}),
             Catch::Contains("command line: trainer.resume: ") && Catch::Contains("auto, never, or"));
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("YamlOfJson: what YAML reads back is what was written", "[job]") {
  std::string json = R"({"jobs":[{"id":"a: b","n":1,"empty":{},"of":{"x y":[1,2]}},{"id":"true"}],"none":[],"t":"\n"})";
  std::string yaml = YamlOfJson(json);
  CHECK_THAT(yaml, Catch::StartsWith("jobs:\n  - id: \"a: b\"\n    n: 1\n") && Catch::Contains("\n  - id: \"true\"\n"));
  CHECK(ParseYaml(yaml, "x").value().ToJson() == json);
}

}  // namespace
}  // namespace troupe
