// SPDX-License-Identifier: Apache-2.0
#include "actors/data/prompt_set.h"

#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "actors/data/text_lines.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

// One token a byte; a conversation is "role:content;".
class ByteTokenizer final : public Tokenizer {
 public:
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions&) const override {
    return std::vector<int32_t>(text.begin(), text.end());
  }
  std::string Decode(absl::Span<const int32_t> ids, const DecodeOptions&) const override {
    return {ids.begin(), ids.end()};
  }
  absl::StatusOr<std::string> ApplyChatTemplate(const nlohmann::ordered_json& messages,
                                                const ChatTemplateOptions&) const override {
    std::string text;
    for (const auto& message : messages) {
      text += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + ";";
    }
    return text;
  }
  int64_t vocab_size() const override { return 256; }
  std::optional<std::string> IdToToken(int32_t) const override { return std::nullopt; }
  std::optional<int32_t> TokenToId(std::string_view) const override { return std::nullopt; }
  bool IsSpecial(int32_t) const override { return false; }
  const SpecialTokenIds& special() const override { return special_; }
  const std::string& chat_template() const override { return none_; }
  std::string TokenBytes(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  std::string ToTokenizerJson() const override { return ""; }
  std::string ToTokenizerConfigJson() const override { return ""; }
  std::string ToSpecialTokensMapJson() const override { return ""; }

 private:
  SpecialTokenIds special_;
  std::string none_;
};

absl::StatusOr<PromptSet> LoadText(const std::string& text, const PromptSetOptions& options = {}) {
  std::string folder = *MakeTemporaryDirectory("prompt-set-test");
  REQUIRE(WriteFileAtomic(folder + "/data.jsonl", text).ok());
  absl::StatusOr<PromptSet> set = PromptSet::Load(folder + "/data.jsonl", ByteTokenizer(), options);
  RemoveTree(folder).IgnoreError();
  return set;
}

std::string ErrorOf(const std::string& text, const PromptSetOptions& options = {}) {
  absl::StatusOr<PromptSet> set = LoadText(text, options);
  REQUIRE_FALSE(set.ok());
  return std::string(set.status().message());
}

constexpr char kTwoRows[] =
    "{\"prompt\": \"ab\", \"answer\": 7, \"level\": 1}\n\n{\"prompt\": \"cde\", \"answer\": \"x\"}\n";

}  // namespace

TEST_CASE("PromptSet: raw prompts, answers as text, other columns kept", "[data]") {
  PromptSet set = *LoadText(kTwoRows);
  REQUIRE(set.prompts().size() == 2);
  CHECK(set.prompts()[0].ids == std::vector<int32_t>{'a', 'b'});
  CHECK(set.prompts()[0].answer == "7");
  CHECK(set.prompts()[0].extra_json == "{\"level\":1}");
  CHECK(set.Find(1)->answer == "x");
  CHECK(set.Find(2) == nullptr);
}

TEST_CASE("PromptSet: conversations go through the template, verl's ground truth is the answer", "[data]") {
  PromptSetOptions options;
  options.system_prompt = "be brief";
  PromptSet set =
      *LoadText(R"({"prompt": [{"role": "user", "content": "hi"}], "reward_model": {"ground_truth": "42"}})", options);
  CHECK(set.prompts()[0].text == "system:be brief;user:hi;");
  CHECK(set.prompts()[0].answer == "42");
}

TEST_CASE("PromptSet: long prompts are left out and counted, cut, or refused by line", "[data]") {
  PromptSetOptions options;
  options.max_prompt_length = 2;
  PromptSet filtered = *LoadText(kTwoRows, options);
  CHECK(filtered.prompts().size() == 1);
  CHECK(filtered.filtered_lines() == std::vector<int64_t>{3});
  options.filter_overlong = false;
  CHECK(ErrorOf(kTwoRows, options).find(":3: the prompt has 3 tokens") != std::string::npos);
  options.truncation = "left";
  CHECK(LoadText(kTwoRows, options)->Find(1)->ids == std::vector<int32_t>{'d', 'e'});
  options.truncation = "right";
  CHECK(LoadText(kTwoRows, options)->Find(1)->ids == std::vector<int32_t>{'c', 'd'});
}

TEST_CASE("PromptSet: an empty or broken file is named with its line", "[data]") {
  CHECK(ErrorOf("").find("the data set is empty") != std::string::npos);
  CHECK(ErrorOf("{\"prompt\": \"a\"}\n[1]\n").find("data.jsonl:2: expected a JSON object") != std::string::npos);
  CHECK(ErrorOf("{\"prompt\": \"a\"}\n{broken\n").find("data.jsonl:2: the line is not valid JSON") !=
        std::string::npos);
  CHECK(ErrorOf("{\"question\": 1}\n").find("there are: question") != std::string::npos);
  CHECK(ErrorOf("{\"prompt\": 3}\n").find(":1: the prompt is neither") != std::string::npos);
  CHECK(PromptSet::Load("/nonexistent/x.jsonl", ByteTokenizer(), {}).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("PromptSet: a row nested or wide without end is refused with its line", "[data]") {
  std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK_THAT(ErrorOf("{\"prompt\": \"a\"}\n{\"prompt\": \"a\", \"x\": " + deep + "}"),
             Catch::Contains("data.jsonl:2: the line: nested deeper than 64"));
  std::string wide = "{\"prompt\": \"a\"";
  for (int i = 0; i < 5000; ++i) wide += ", \"" + std::to_string(i) + "\": 1";
  CHECK_THAT(ErrorOf(wide + "}"), Catch::Contains("data.jsonl:1: the line: an object of more than 4096 keys"));
}

TEST_CASE("PromptSet: a line that is too long, and what is no file, are refused by name", "[data]") {
  std::string line = "{\"prompt\": \"a\", \"x\": \"" + std::string(kLineBytesMax, 'x') + "\"}\n";
  CHECK_THAT(ErrorOf("{\"prompt\": \"a\"}\n" + line + "{\"prompt\": \"a\"}\n"),
             Catch::Contains("data.jsonl:2: a line of more than 4 MiB"));
  std::string folder = *MakeTemporaryDirectory("prompt-set-test");
  REQUIRE(::mkfifo((folder + "/fifo").c_str(), 0600) == 0);
  for (const std::string& path : {folder, folder + "/fifo", std::string("/dev/zero")}) {
    absl::Status status = PromptSet::Load(path, ByteTokenizer(), {}).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::Contains(path + ": expected a file, found a "));
  }
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("PromptSet: a wrong column is named with the nearest; only a default answer may be absent", "[data]") {
  PromptSetOptions options;
  options.answer_key = "anwser";
  CHECK_THAT(ErrorOf(kTwoRows, options), Catch::Contains("data.jsonl:1: no column 'anwser' (data.answer_key") &&
                                             Catch::Contains("did you mean 'answer'?"));
  options = {};
  options.prompt_key = "promt";
  CHECK_THAT(ErrorOf(kTwoRows, options),
             Catch::Contains(":1: no column 'promt' (data.prompt_key): did you mean 'prompt'"));
  options = {};
  std::string without = "{\"prompt\": \"a\"}";
  CHECK(LoadText(without, options)->prompts()[0].answer == "");
  options.answer_required = true;
  CHECK_THAT(ErrorOf(without, options), Catch::Contains("no column 'answer' (data.answer_key"));
  options.answer_key = "";
  CHECK(LoadText(without, options)->prompts()[0].answer == "");
}

TEST_CASE("PromptSet: a key with dots leads into a column that is an object", "[data]") {
  PromptSetOptions options;
  options.prompt_key = "turn.text";
  options.answer_key = "turn.solution.value";
  PromptSet set = *LoadText(R"({"turn": {"text": "ab", "solution": {"value": 4}}})", options);
  CHECK(set.prompts()[0].text == "ab");
  CHECK(set.prompts()[0].answer == "4");
  options.answer_key = "turn.answer";
  CHECK_THAT(ErrorOf(R"({"turn": {"text": "ab", "answers": 1}})", options),
             Catch::Contains("did you mean 'turn.answers'?"));
}

TEST_CASE("PromptSet: the rows of the guide are read as it says", "[data]") {
  std::string guide = *ReadFile("docs/data.md", 1 << 20);
  std::vector<PromptSet> sets;
  for (size_t at = 0; (at = guide.find("```json\n", at)) != std::string::npos;) {
    size_t begin = at + 8;
    at = guide.find("```", begin);
    PromptSetOptions options;
    if (sets.size() == 2) {
      options.prompt_key = "question.text";
      options.answer_key = "solution.value";
    }
    sets.push_back(*LoadText(guide.substr(begin, at - begin), options));
    CHECK(sets.back().prompts()[0].answer == "12");
  }
  REQUIRE(sets.size() == 4);
  CHECK(sets[0].prompts()[0].text == "7 + 5 =");
  CHECK(sets[0].prompts()[0].extra_json == "{\"level\":1}");
  CHECK(sets[1].prompts()[0].text == "user:What is 7 + 5?;");
  CHECK(sets[2].prompts()[0].text == "7 + 5 =");
  size_t told = guide.find("no column 'anwser'");
  REQUIRE(told != std::string::npos);
  CHECK_THAT(ErrorOf("{\"prompt\": \"a\", \"answer\": 1}", {.answer_key = "anwser"}),
             Catch::EndsWith(guide.substr(told, guide.find('\n', told) - told)));
}

TEST_CASE("PromptSet: gzip and zstd files, and damaged ones", "[data]") {
  std::string plain = kTwoRows;
  std::string gz(1000, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(gz.data());
  stream.avail_out = static_cast<uInt>(gz.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  gz.resize(gz.size() - stream.avail_out);
  deflateEnd(&stream);
  std::string zst(1000, '\0');
  zst.resize(ZSTD_compress(zst.data(), zst.size(), plain.data(), plain.size(), 3));
  for (const std::string& packed : {gz, zst}) {
    CHECK(LoadText(packed)->prompts().size() == 2);
    CHECK(ErrorOf(packed.substr(0, packed.size() - 6)).find("damaged or cut off") != std::string::npos);
  }
}

}  // namespace troupe
