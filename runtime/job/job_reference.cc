// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/job_reference.h"

#include "runtime/base/check.h"
#include "runtime/job/job_config.h"

namespace troupe {
namespace {

constexpr char kIntroduction[] = R"(# The job file

One YAML file describes a job. Any value can be overridden on the command line: `troupe run job.yaml actor.optim.lr=2e-5`.
`troupe explain job.yaml` prints every value and where it came from. Unknown keys are errors that name the nearest right one.

- Batch sizes count prompts. Durations are written `30s`, `10m`, `1h30m`; bytes `512MiB`, `4GiB`.
- [Data files](data.md) and [reward functions](rewards.md) have guides of their own.
- Paths are relative to the job file; `~` is the home folder. `trainer.output_dir` is relative to where you stand.
- `placement: colocated` (roles take turns on the same resources: a node needs the largest role's, not the sum),
  `disaggregated` (each role its own), or lists of roles that take turns: `placement: [[rollout, actor], [reward]]`.
- `roles.reward` is one function beside the role's keys, or a list of functions whose weighted scores are added:
  `reward: [{name: right, function: numeric}, {name: short, python: "length.py:score", weight: 0.1}]`.
- `class` and `worker_binary` put a class of your own in the place of a built-in role (`roles.reward`: instead of a function). It has
  methods of the same names and messages; `examples/custom_reward` shows one.
- A role of your own names an actor class: `roles: {hello: {class: Hello, args: [3], worker_binary: bin/hello}}`.

This page is made from the source: `bazel run //runtime/job:write_reference > docs/job-file.md`.
)";

constexpr char kMinimalJob[] =
    "name: x\nmodel: {path: m}\ndata: {train: t}\nroles: {reward: {function: numeric}}\ntrainer: {total_steps: 1}\n";

// The other built-in roles have the keys of roles.rollout.
bool IsRepeated(const std::string& path) {
  return path.rfind("roles.actor.", 0) == 0 || path.rfind("roles.controller.", 0) == 0 ||
         path.rfind("roles.reference.", 0) == 0;
}

}  // namespace

std::string JobReferenceMarkdown() {
  absl::StatusOr<LoadedJob> job = LoadJobText(kMinimalJob, "job.yaml", "/", {});
  TROUPE_CHECK(job.ok(), "the minimal job is valid");
  std::string text = kIntroduction;
  std::string section;
  for (const ExplainedValue& value : job->values) {
    if (IsRepeated(value.path)) continue;
    std::string of = value.path.substr(0, value.path.find('.'));
    if (of != section) {
      text += "\n## " + of + "\n";
      if (of == "roles")
        text += "The keys of `rollout` are those of `reference`, `actor`, `controller` and of your own roles.\n";
      text += "| key | default | meaning |\n|---|---|---|\n";
      section = of;
    }
    std::string shown = value.source == "default" ? "`" + value.value + "`" : "(needed)";
    text += "| `" + value.path + "` | " + shown + " | " + value.doc + " |\n";
  }
  return text;
}

}  // namespace troupe
