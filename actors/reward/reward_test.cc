// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "actors/reward/program_reward.h"
#include "actors/reward/reward_function.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

double BuiltinScore(RewardFunction function, const std::string& response, const std::string& answer) {
  std::unique_ptr<RewardScorer> scorer = *MakeBuiltinReward(function);
  RewardInput input{
      .id = "r", .prompt = "", .response = response, .response_ids = {}, .answer = answer, .extra_json = "{}"};
  return scorer->Score({&input, 1})[0].score;
}

std::vector<RewardInput> Rows(const std::vector<std::string>& responses) {
  std::vector<RewardInput> rows;
  for (const std::string& response : responses) {
    rows.push_back({.id = "r",
                    .prompt = "p",
                    .response = response,
                    .response_ids = {1},
                    .answer = "7",
                    .extra_json = R"({"level":3,"data_source":"sums","extra_info":{"k":5}})"});
  }
  return rows;
}

std::unique_ptr<ProgramReward> Shell(const std::string& script, absl::Duration timeout = absl::Milliseconds(300)) {
  return *ProgramReward::Start({.argv = {"/bin/sh", "-c", script}, .timeout = timeout});
}

// A program by cases of the response: the last word of a shell `case`.
std::string Cases(const std::string& cases) {
  return "while read -r line; do id=${line#*\\\"id\\\":\\\"}; id=${id%%\\\"*}; case \"$line\" in " + cases +
         " *) echo \"{\\\"id\\\":\\\"$id\\\",\\\"score\\\":1}\";; esac; done";
}

class PythonFile {
 public:
  explicit PythonFile(const std::string& text) : folder_(*MakeTemporaryDirectory("reward-test")) {
    REQUIRE(WriteFileAtomic(folder_ + "/score.py", text).ok());
  }
  ~PythonFile() { RemoveTree(folder_).IgnoreError(); }
  RewardFunction Function(const std::string& name) const {
    RewardFunction function{.name = name};
    function.python = folder_ + "/score.py:" + name;
    function.timeout = absl::Seconds(20);
    return function;
  }
  std::unique_ptr<RewardScorer> Make(const std::string& name) const { return *MakeProgramReward(Function(name)); }

 private:
  std::string folder_;
};

}  // namespace

TEST_CASE("Reward: built-in functions compare what a response says with the answer", "[reward]") {
  RewardFunction regex{.function = "regex", .pattern = "[0-9]+", .match = "first"};
  CHECK(BuiltinScore(regex, " 12.\nSo 7", "12") == 1);
  CHECK(BuiltinScore(regex, " twelve", "12") == 0);
  regex.match = "last";
  CHECK(BuiltinScore(regex, "12 then 7", "7") == 1);
  regex.pattern = "is ([0-9]+)";
  CHECK(BuiltinScore(regex, "it is 41, it is 42", "42") == 1);
  regex.pattern = "^$|x*";
  CHECK(BuiltinScore(regex, "abc", "nothing") == 0);  // empty matches end
  RewardFunction numeric{.function = "numeric"};
  CHECK(BuiltinScore(numeric, "about 1,234.50 coins", "1234.5") == 1);
  CHECK(BuiltinScore(numeric, "-3", "3") == 0);
  CHECK(BuiltinScore(numeric, "no number", "3") == 0);
  RewardFunction exact{.function = "exact_match"};
  CHECK(BuiltinScore(exact, " yes\n", "yes") == 1);
  CHECK(BuiltinScore(exact, "yes.", "yes") == 0);
}

TEST_CASE("Reward: a built-in function tells what it took for the answer", "[reward]") {
  auto pred = [](const RewardFunction& function, const std::string& response) {
    return (*MakeBuiltinReward(function))->Score(Rows({response}))[0].pred;
  };
  CHECK(pred({.function = "regex", .pattern = "[0-9]+", .match = "first"}, "12 or 7") == "12");
  CHECK(pred({.function = "regex", .pattern = "[0-9]+", .match = "first"}, "none") == "");
  CHECK(pred({.function = "exact_match"}, " yes\n") == "yes");
  CHECK(pred({.function = "exact_match"}, std::string(1000, 'x')).size() == kPredBytesMax + 3);
}

TEST_CASE("Reward: a wrong pattern or name is refused with the place", "[reward]") {
  absl::Status status = MakeBuiltinReward({.function = "regex", .pattern = "a(b"}).status();
  CHECK(status.message().find("at character 3") != absl::string_view::npos);
  CHECK(MakeBuiltinReward({.function = "fuzzy"}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Reward: a program answers in any order, with metrics, and chatter is counted", "[reward]") {
  auto program = Shell(
      "echo hello; read a; read b; echo '{\"id\":\"1\",\"score\":0.5,\"length\":9}'; "
      "echo '{\"id\":\"0\",\"score\":2}'; cat >/dev/null");
  std::vector<RewardOutcome> out = program->Score(Rows({"x", "y"}));
  CHECK(out[0].score == 2);
  CHECK(out[1].score == 0.5);
  CHECK(out[1].metrics.at("length") == 9);
  CHECK(program->nonsense_lines() == 1);
}

TEST_CASE("Reward: a crash is retried once, then only its row is dropped", "[reward]") {
  auto program = Shell(Cases("*crash*) exit 3;;"), absl::Seconds(5));
  std::vector<RewardOutcome> out = program->Score(Rows({"a", "crash", "b", "c"}));
  CHECK(out[1].fault == RewardFault::kProgram);
  CHECK(out[1].fault_text.find("exit status 3") != std::string::npos);
  for (size_t i : {0, 2, 3}) CHECK((out[i].fault == RewardFault::kNone && out[i].score == 1));
  CHECK(program->restarts() == 2);
}

TEST_CASE("Reward: rows of a batch that crashes are told apart, and a program that always crashes is given up",
          "[reward]") {
  PythonFile file(
      "import os\n"
      "def third(completions, **kwargs):\n"
      "    if 'bad' in completions: os._exit(3)\n"
      "    return [1.0] * len(completions)\n"
      "def always(completions, **kwargs):\n"
      "    os._exit(3)\n");
  std::unique_ptr<RewardScorer> third = file.Make("third");
  std::vector<RewardOutcome> out = third->Score(Rows({"a", "b", "bad", "c"}));
  for (size_t i : {0, 1, 3}) CHECK((out[i].fault == RewardFault::kNone && out[i].score == 1));
  CHECK(out[2].fault == RewardFault::kProgram);
  CHECK(third->broken().ok());
  std::unique_ptr<RewardScorer> always = file.Make("always");
  for (const RewardOutcome& outcome : always->Score(Rows(std::vector<std::string>(200, "x")))) {
    REQUIRE(outcome.fault == RewardFault::kProgram);
  }
  CHECK_THAT(std::string(always->broken().message()), Catch::Contains("exit status 3") &&
                                                          Catch::Contains("10 times in a row") &&
                                                          Catch::Contains("max_crashes"));
}

TEST_CASE("Reward: crashes between answers do not add up to giving up", "[reward]") {
  auto program = Shell(Cases("*crash*) exit 3;;"), absl::Seconds(5));
  std::vector<std::string> responses;
  for (int i = 0; i < 12; ++i) responses.insert(responses.end(), {"crash", "fine"});
  std::vector<RewardOutcome> out = program->Score(Rows(responses));
  CHECK(program->broken().ok());
  for (size_t i = 0; i < out.size(); ++i) CHECK((out[i].fault == RewardFault::kNone) == (responses[i] == "fine"));
}

TEST_CASE("Reward: a program's own time limit is the answer's fault", "[reward]") {
  auto program = Shell(Cases(R"(*slow*) echo "{\"id\":\"$id\",\"score\":1,\"timeout\":true}";;)"), absl::Seconds(5));
  std::vector<RewardOutcome> out = program->Score(Rows({"slow", "b"}));
  CHECK(out[0].fault == RewardFault::kAnswer);
  CHECK(out[0].score == 0);
  CHECK((out[1].fault == RewardFault::kNone && out[1].score == 1));
}

TEST_CASE("Reward: an answer that takes too long scores 0, the program goes on", "[reward]") {
  auto program = Shell(Cases("*slow*) sleep 60;;"));
  std::vector<RewardOutcome> out = program->Score(Rows({"a", "slow", "b"}));
  CHECK(out[1].fault == RewardFault::kAnswer);
  CHECK(out[1].score == 0);
  CHECK(out[0].score == 1);
  CHECK(out[2].score == 1);
}

TEST_CASE("Reward: a program that was started again and hangs from its start is to blame itself", "[reward]") {
  std::string folder = *MakeTemporaryDirectory("reward-test");
  auto program = Shell("cd " + folder + "; [ -e again ] && sleep 60; touch again; " + Cases("*slow*) sleep 60;;"));
  std::vector<RewardOutcome> out = program->Score(Rows({"a", "slow", "b"}));
  CHECK(out[1].fault == RewardFault::kAnswer);
  CHECK(out[2].fault == RewardFault::kProgram);
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("Reward: a program that hangs or prints nonsense gets every row dropped and named", "[reward]") {
  for (const char* script : {"sleep 60", "while read x; do echo what; done"}) {
    auto program = Shell(script, absl::Milliseconds(100));
    for (const RewardOutcome& outcome : program->Score(Rows({"a", "b"}))) CHECK(outcome.fault == RewardFault::kProgram);
  }
}

TEST_CASE("Reward: a program that prints on and on is given up at once", "[reward]") {
  auto program = Shell("yes nonsense", absl::Seconds(50));
  CHECK(program->Score(Rows({"a"}))[0].fault == RewardFault::kProgram);
  CHECK_THAT(program->Score(Rows({"a"}))[0].fault_text, Catch::Contains("10000 lines without an answer"));
}

TEST_CASE("Reward: lines nested, long and wide without end are no answers", "[reward]") {
  const char* deep = "for i in 1 2; do head -c 200000 /dev/zero | tr '\\0' '['; done; echo";
  const char* answer = "echo '{\"id\":\"0\",\"score\":1}'";
  auto program = Shell(
      "read a; printf '{\"id\":\"0\",\"score\":1,\"x\":'; " + std::string(deep) + "; " + answer + "; cat >/dev/null",
      absl::Seconds(20));
  CHECK(program->Score(Rows({"x"}))[0].score == 1);
  CHECK(program->nonsense_lines() == 1);
  auto spaces = Shell(
      "read a; printf '{\"id\":\"0\",\"score\":2,\"x\":'; head -c 1000000 /dev/zero | tr '\\0' ' '; "
      "echo '-Infinity}'; cat >/dev/null",
      absl::Seconds(20));
  CHECK(spaces->Score(Rows({"x"}))[0].score == 2);
  auto endless = Shell("read a; tr '\\0' 'x' </dev/zero", absl::Seconds(20));
  CHECK_THAT(endless->Score(Rows({"x"}))[0].fault_text, Catch::Contains("a line of more than 4 MiB"));
}

TEST_CASE("Reward: the metrics of an answer are bounded", "[reward]") {
  auto program = Shell(
      "read a; printf '{\"id\":\"0\",\"score\":1'; "
      "i=0; while [ $i -lt 5000 ]; do printf ',\"m%s\":1' $i; i=$((i+1)); done; echo '}'; cat >/dev/null",
      absl::Seconds(20));
  RewardOutcome out = program->Score(Rows({"x"}))[0];
  CHECK(out.score == 1);
  CHECK(out.metrics.size() == kRewardMetricsMax);
  std::string longest(kRewardMetricNameBytesMax, 'n');
  auto names = Shell("read a; echo '{\"id\":\"0\",\"score\":1,\"" + longest + "\":2,\"" + longest +
                         "n\":3,\"text\":\"4\"}'; cat >/dev/null",
                     absl::Seconds(20));
  CHECK(names->Score(Rows({"x"}))[0].metrics == std::map<std::string, double>{{longest, 2}});
}

TEST_CASE("Reward: rows are shared among the workers, few at a time", "[reward]") {
  PythonFile file(
      "import os\n"
      "def at_once(completions, **kwargs):\n"
      "    return [float(len(completions))] * len(completions)\n"
      "def process(completions, **kwargs):\n"
      "    return [float(os.getpid())] * len(completions)\n");
  std::vector<RewardInput> rows = Rows(std::vector<std::string>(200, "x"));
  for (const RewardOutcome& outcome : file.Make("at_once")->Score(rows)) {
    CHECK((outcome.score >= 1 && outcome.score <= static_cast<double>(kProgramRowsInFlightMax)));
  }
  RewardFunction function = file.Function("process");
  function.workers = 3;
  std::set<double> processes;
  for (const RewardOutcome& outcome : (*MakeProgramReward(function))->Score(rows)) processes.insert(outcome.score);
  CHECK(processes.size() == 3);
}

TEST_CASE("Reward: how a program ended is told with its last word on stderr", "[reward]") {
  auto ending = [](const std::string& command) {
    RewardFunction function{.command = command, .timeout = absl::Seconds(20), .max_crashes = 1};
    std::unique_ptr<RewardScorer> scorer = *MakeProgramReward(function);
    scorer->Score(Rows({"x"}));
    return std::string(scorer->broken().message());
  };
  CHECK_THAT(ending("./nothing.py"),
             Catch::Contains("exit status 127: ") && Catch::Contains("./nothing.py: not found"));
  CHECK_THAT(ending("sh -c 'echo one >&2; printf \"the \\377 end\\n\\n\" >&2; exit 3'"),
             Catch::Contains("exit status 3: the ? end), 1 times"));
}

TEST_CASE("Reward: programs run in the folder of the job", "[reward]") {
  std::string folder = *MakeTemporaryDirectory("reward-test");
  REQUIRE(WriteFileAtomic(folder + "/score.sh",
                          "#!/bin/sh\nread a\necho '{\"id\":\"0\",\"score\":4}'\ncat >/dev/null\n", 0755)
              .ok());
  RewardFunction function{.command = "./score.sh", .working_dir = folder, .timeout = absl::Seconds(20)};
  CHECK((*MakeProgramReward(function))->Score(Rows({"x"}))[0].score == 4);
  RemoveTree(folder).IgnoreError();
  CHECK(MakeProgramReward(function).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Reward: a Python function that does not keep to its shape stops the job with the reason", "[reward]") {
  PythonFile file(
      "def short(completions, **kwargs):\n"
      "    return [1.0]\n"
      "def number(completions, **kwargs):\n"
      "    return 1.0\n"
      "def column(completions, colour):\n"
      "    return [1.0] * len(completions)\n");
  auto reason = [&](const std::string& name) {
    std::unique_ptr<RewardScorer> scorer = file.Make(name);
    for (const RewardOutcome& outcome : scorer->Score(Rows({"a", "b", "c"}))) {
      REQUIRE(outcome.fault == RewardFault::kProgram);
    }
    REQUIRE(scorer->broken().code() == absl::StatusCode::kInvalidArgument);
    return std::string(scorer->broken().message());
  };
  CHECK(reason("short") == "score.py: short() returned 1 scores for 3 completions");
  CHECK(reason("number") == "score.py: number() returned float, not a list of scores");
  CHECK_THAT(reason("column"), Catch::StartsWith("score.py: column() asks for 'colour', which is none of: answer,"));
  CHECK(reason("colum") == "score.py: has no function colum; there are: short, number, column");
  PythonFile broken("import no_such_module\n");
  std::unique_ptr<RewardScorer> scorer = broken.Make("score");
  scorer->Score(Rows({"a"}));
  CHECK(scorer->broken() == absl::InvalidArgumentError("score.py: cannot be imported: ModuleNotFoundError: No module "
                                                       "named 'no_such_module'"));
}

TEST_CASE("Reward: a score that float32 does not hold is the program's fault, also a weighted sum", "[reward]") {
  auto program = Shell(Cases("*large*) echo \"{\\\"id\\\":\\\"$id\\\",\\\"score\\\":1e39}\";;"), absl::Seconds(5));
  CHECK(program->Score(Rows({"large"}))[0].fault == RewardFault::kProgram);
  RewardFunction right{.name = "right", .weight = 1e39, .function = "exact_match"};
  CHECK((*MakeWeightedReward({right}))->Score(Rows({"7"}))[0].fault == RewardFault::kProgram);
}

TEST_CASE("Reward: NaN is the program's fault", "[reward]") {
  auto program = Shell(Cases("*nan*) echo \"{\\\"id\\\":\\\"$id\\\",\\\"score\\\":NaN}\";;"), absl::Seconds(5));
  std::vector<RewardOutcome> out = program->Score(Rows({"nan", "b"}));
  CHECK(out[0].fault == RewardFault::kProgram);
  CHECK(out[1].score == 1);
}

TEST_CASE("Reward: a program never sees the token", "[reward]") {
  ::setenv("TROUPE_TOKEN_FD", "9", 1);
  auto program = Shell(
      "read a; n=$(env | grep -c ^TROUPE_); f=$(ls /proc/self/fd | wc -l); "
      "echo \"{\\\"id\\\":\\\"0\\\",\\\"score\\\":$n,\\\"fds\\\":$f}\"");
  std::vector<RewardOutcome> out = program->Score(Rows({"a"}));
  CHECK(out[0].score == 0);
  CHECK(out[0].metrics.at("fds") <= 5);
}

TEST_CASE("Reward: Python functions as verl and TRL write them", "[reward]") {
  PythonFile file(
      "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
      "    print('{\"id\": \"0\", \"score\": 9}')\n"
      "    if solution_str == 'raise': raise ValueError('no')\n"
      "    return {'score': float(solution_str == ground_truth), 'length': len(solution_str), 's': data_source,\n"
      "            'pred': solution_str, 'source': float(data_source == 'sums'), 'k': extra_info['k']}\n"
      "def lengths(prompts, completions, level, **kwargs):\n"
      "    if 'raise' in completions: raise ValueError('no')\n"
      "    return [float('nan') if c == 'nan' else len(c) + l for c, l in zip(completions, level)]\n");
  std::vector<RewardOutcome> verl = file.Make("compute_score")->Score(Rows({"7", "raise", "88"}));
  CHECK(verl[0].score == 1);
  CHECK(verl[0].metrics == std::map<std::string, double>{{"length", 1}, {"source", 1}, {"k", 5}});
  CHECK(verl[0].pred == "7");
  CHECK(verl[1].fault == RewardFault::kProgram);
  CHECK(verl[1].fault_text.find("ValueError: no") != std::string::npos);
  CHECK(verl[2].score == 0);
  std::vector<RewardOutcome> trl = file.Make("lengths")->Score(Rows({"ab", "nan", "raise", "abc"}));
  CHECK(trl[0].score == 5);
  CHECK(trl[1].fault == RewardFault::kProgram);
  CHECK(trl[2].fault_text.find("ValueError: no") != std::string::npos);
  CHECK((trl[3].fault == RewardFault::kNone && trl[3].score == 6));  // not its fault
}

TEST_CASE("Reward: the programs of the guide run and score as it says", "[reward]") {
  std::string guide = *ReadFile("docs/rewards.md", 1 << 20);
  std::vector<std::string> programs;
  for (size_t at = 0; (at = guide.find("```python\n", at)) != std::string::npos;) {
    size_t begin = at + 10;
    at = guide.find("```", begin);
    programs.push_back(guide.substr(begin, at - begin));
  }
  REQUIRE(programs.size() == 3);
  std::vector<RewardOutcome> verl = PythonFile(programs[0]).Make("compute_score")->Score(Rows({"7", "88"}));
  CHECK(verl[0].score == 1);
  CHECK(verl[1].score == 0);
  CHECK(verl[1].metrics.at("length") == 2);
  std::vector<RewardOutcome> trl = PythonFile(programs[1]).Make("even_length")->Score(Rows({"7", "88"}));
  CHECK(trl[0].score == 0);
  CHECK(trl[1].score == 3);
  std::string folder = *MakeTemporaryDirectory("reward-test");
  REQUIRE(WriteFileAtomic(folder + "/score.py", programs[2], 0755).ok());
  RewardFunction function{.command = "./score.py --strict", .working_dir = folder, .timeout = absl::Seconds(20)};
  std::vector<RewardOutcome> own = (*MakeProgramReward(function))->Score(Rows({"so it is 7", "no"}));
  RemoveTree(folder).IgnoreError();
  CHECK(own[0].score == 1);
  CHECK(own[0].metrics.at("words") == 4);
  CHECK(own[1].score == 0);
}

TEST_CASE("Reward: several functions are weighted, and each is reported", "[reward]") {
  RewardFunction right{.name = "right", .weight = 1, .function = "exact_match"};
  RewardFunction number{.name = "number", .weight = 0.25, .function = "numeric"};
  std::unique_ptr<RewardScorer> scorer = *MakeWeightedReward({right, number});
  std::vector<RewardOutcome> out = scorer->Score(Rows({"7", "it is 7"}));
  CHECK(out[0].score == 1.25);
  CHECK(out[1].score == 0.25);
  CHECK(out[1].metrics == std::map<std::string, double>{{"right", 0}, {"number", 1}});
}

TEST_CASE("Reward: a row that one of several functions fails on is failed on, and which one did is told", "[reward]") {
  PythonFile file(
      "def raises(completions, **kwargs):\n"
      "    raise ValueError('no')\n"
      "def short(completions, **kwargs):\n"
      "    return []\n");
  RewardFunction right{.name = "right", .function = "exact_match"};
  RewardOutcome out = (*MakeWeightedReward({right, file.Function("raises"), right}))->Score(Rows({"7"}))[0];
  CHECK(out.fault == RewardFault::kProgram);
  CHECK(out.fault_text == "raises: ValueError: no");
  std::unique_ptr<RewardScorer> scorer = *MakeWeightedReward({right, file.Function("short")});
  scorer->Score(Rows({"7"}));
  CHECK(scorer->broken() == absl::InvalidArgumentError("short: score.py: short() returned 0 scores for 1 completions"));
}

}  // namespace troupe
