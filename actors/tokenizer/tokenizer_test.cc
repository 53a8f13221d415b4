// SPDX-License-Identifier: Apache-2.0
// Tokenizers against golden ids, texts and conversations.
#include "actors/tokenizer/tokenizer.h"

#include <map>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> MustLoad(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(path);
  INFO(StatusText(tokenizer.status()));
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

Ids MustEncode(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options = {}) {
  absl::StatusOr<Ids> ids = tokenizer.Encode(text, options);
  INFO(text << ": " << StatusText(ids.status()));
  REQUIRE(ids.ok());
  return *std::move(ids);
}

const Tokenizer& Smollm2() {
  static const std::unique_ptr<Tokenizer> tokenizer = MustLoad(GoldenModelPath());
  return *tokenizer;
}

// The ids, texts and decoded texts of the golden `tokenize` cases.
void CheckTokenizeCases(const Tokenizer& tokenizer) {
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "tokenize")) {
    INFO(golden.name << ": " << golden.inputs.dump());
    std::string text = golden.inputs.at("text");
    Ids ids = golden.outputs.at("ids");
    CHECK(MustEncode(tokenizer, text) == ids);
    CHECK(MustEncode(tokenizer, text, {.parse_special_tokens = false}) ==
          golden.outputs.at("ids_specials_as_text").get<Ids>());
    CHECK(tokenizer.Decode(ids) == golden.outputs.at("decoded"));
    CHECK(tokenizer.Decode(ids, {.skip_special_tokens = true}) == golden.outputs.at("decoded_skip_special"));
  }
}

// Those of a folder of tokenizers.json that this issue covers.
void CheckFamily(const std::string& family) {
  std::unique_ptr<Tokenizer> tokenizer = MustLoad(GoldenPath("tokenizers/" + family));
  for (const GoldenCase& golden : GoldenCases("tokenizers.json", "tokenizer/" + family)) {
    INFO(golden.name << ": " << golden.inputs.dump());
    std::string text = golden.inputs.at("text");
    Ids ids = golden.outputs.at("ids");
    CHECK(MustEncode(*tokenizer, text) == ids);
    if (golden.outputs.contains("ids_with_special")) {
      CHECK(MustEncode(*tokenizer, text, {.add_special_tokens = true}) ==
            golden.outputs.at("ids_with_special").get<Ids>());
    }
    CHECK(tokenizer->Decode(ids) == golden.outputs.at("decoded"));
    CHECK(tokenizer->Decode(ids, {.skip_special_tokens = true}) == golden.outputs.at("decoded_skip_special"));
  }
}

}  // namespace

TEST_CASE("Tokenizer: SmolLM2's ids and texts equal the reference's", "[tokenizer]") { CheckTokenizeCases(Smollm2()); }

TEST_CASE("Tokenizer: SmolLM2 written as tokenizer.json and read again gives the same ids", "[tokenizer]") {
  auto again = Tokenizer::FromJson(Smollm2().ToTokenizerJson(), Smollm2().ToTokenizerConfigJson());
  INFO(StatusText(again.status()));
  REQUIRE(again.ok());
  CheckTokenizeCases(**again);
  CHECK((*again)->chat_template() == Smollm2().chat_template());
  CHECK((*again)->special().eos == Smollm2().special().eos);
}

TEST_CASE("Tokenizer: decoding a growing prefix replaces what is no UTF-8", "[tokenizer]") {
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "decode")) {
    INFO(golden.name);
    Ids ids = golden.inputs.at("ids");
    if (golden.outputs.contains("decoded_prefixes")) {
      for (size_t n = 0; n <= ids.size(); ++n) {
        CHECK(Smollm2().Decode(absl::MakeConstSpan(ids).subspan(0, n)) == golden.outputs.at("decoded_prefixes").at(n));
      }
    } else {
      CHECK(Smollm2().Decode(ids) == golden.outputs.at("decoded"));
      for (size_t i = 0; i < ids.size(); ++i) CHECK(Smollm2().Decode({ids[i]}) == golden.outputs.at("each").at(i));
    }
  }
}

TEST_CASE("StreamingDecoder: pieces are whole characters and join to the whole text", "[tokenizer]") {
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "decode")) {
    StreamingDecoder decoder(Smollm2());
    std::string joined;
    Ids ids = golden.inputs.at("ids");
    for (int32_t id : ids) {
      std::string piece = decoder.Push(id);
      CHECK(piece.find("\xEF\xBF\xBD") == std::string::npos);
      joined += piece;
    }
    CHECK(joined + decoder.Finish() == Smollm2().Decode(ids));
  }
}

TEST_CASE("StreamingDecoder: an unfinished character comes out at the end only", "[tokenizer]") {
  StreamingDecoder decoder(Smollm2(), {.skip_special_tokens = true});
  CHECK(decoder.Push(10813) == "");
  CHECK(decoder.Push(2) == "");  // special
  CHECK(decoder.Finish() == "\xEF\xBF\xBD");
  CHECK(decoder.Finish() == "");
}

TEST_CASE("Tokenizer: SmolLM2's special tokens", "[tokenizer]") {
  GoldenCase golden = GoldenCases("smollm2.json", "special_tokens").at(0);
  const SpecialTokenIds& special = Smollm2().special();
  CHECK(special.bos == golden.outputs.at("bos_id").get<int32_t>());
  CHECK(special.eos == golden.outputs.at("eos_id").get<int32_t>());
  CHECK(special.pad == golden.outputs.at("pad_id").get<int32_t>());
  CHECK(Smollm2().IdToToken(*special.unk) == golden.outputs.at("unk").get<std::string>());
  CHECK(Smollm2().vocab_size() == golden.outputs.at("vocab_size"));
  CHECK(Smollm2().TokenToId("<|im_end|>") == 2);
  CHECK(Smollm2().IsSpecial(2));
  CHECK_FALSE(Smollm2().IsSpecial(500));
  CHECK_FALSE(Smollm2().IdToToken(49152).has_value());
  CHECK(Smollm2().Decode({-1, 49152, 1 << 30}) == "");
}

TEST_CASE("Tokenizer: SmolLM2's conversations equal the reference's", "[tokenizer]") {
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "chat_template")) {
    INFO(golden.name);
    absl::StatusOr<std::string> text = Smollm2().ApplyChatTemplate(
        golden.inputs.at("messages"), {.add_generation_prompt = golden.config.at("add_generation_prompt")});
    INFO(StatusText(text.status()));
    REQUIRE(text.ok());
    CHECK(*text == golden.outputs.at("text"));
    CHECK(MustEncode(Smollm2(), *text) == golden.outputs.at("ids").get<Ids>());
  }
}

TEST_CASE("Tokenizer: every byte-level family of the golden set", "[tokenizer]") {
  for (const char* family : {"smollm_digits", "gpt2_bytelevel", "gpt2_prefix_space", "llama3_split", "qwen2_split_nfc",
                             "added_token_options"}) {
    CheckFamily(family);
  }
}

TEST_CASE("Tokenizer: what is not supported is named", "[tokenizer]") {
  std::map<std::string, std::string> families = {{"llama2_prepend_bytefallback", "Prepend"},
                                                 {"mistral_metaspace_first", "Metaspace"},
                                                 {"gemma_replace_bytefallback", "Replace"},
                                                 {"metaspace_nfkc_unk", "Replace"},
                                                 {"unigram_t5", "Replace"},
                                                 {"unigram_bytefallback", "Replace"}};
  for (const auto& [family, part] : families) {
    INFO(family);
    absl::Status status = Tokenizer::Load(GoldenPath("tokenizers/" + family)).status();
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    CHECK_THAT(MessageOf(status), Contains("'" + part + "'") && Contains("supported") && Contains(family));
  }
}

TEST_CASE("Tokenizer: text that is no UTF-8 is refused, with the place", "[tokenizer]") {
  absl::Status status = Smollm2().Encode("abc\xFFz").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(MessageOf(status), Contains("byte 3"));
}

TEST_CASE("Tokenizer: a long text without spaces takes time in proportion to its length", "[tokenizer]") {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += static_cast<char>('a' + i % 1000 * 7919 % 26);
  Ids ids = MustEncode(Smollm2(), text);
  CHECK(Smollm2().Decode(ids) == text);
}

TEST_CASE("Tokenizer: missing and malformed files are named", "[tokenizer]") {
  std::string dir = MakeTemporaryDirectory("tokenizer_test").value();
  CHECK_THAT(StatusText(Tokenizer::Load(dir).status()), Contains("NOT_FOUND") && Contains("tokenizer.json"));
  auto with = [&](const std::string& text) {
    REQUIRE(WriteFileAtomic(dir + "/tokenizer.json", text).ok());
    return StatusText(Tokenizer::Load(dir).status());
  };
  CHECK_THAT(with("{\"model\": "), Contains("INVALID_ARGUMENT") && Contains(dir) && Contains("JSON"));
  CHECK_THAT(with("[]"), Contains("no model"));
  CHECK_THAT(
      with(R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"},
                      "decoder": {"type": "ByteLevel"}})"),
      Contains("the id of token 'a'"));
  CHECK_THAT(with(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}, "pre_tokenizer":
                      {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}})"),
             Contains("merge 0") && Contains("not in the vocabulary"));
  CHECK_THAT(with(R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "pre_tokenizer": {"type": "Split", "pattern":
                      {"Regex": "(a"}, "behavior": "Isolated"}, "decoder": {"type": "Fuse"}})"),
             Contains("'(a'") && Contains("not valid"));
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("Tokenizer: without a chat template a conversation is refused", "[tokenizer]") {
  std::unique_ptr<Tokenizer> tokenizer = MustLoad(GoldenPath("tokenizers/gpt2_bytelevel"));
  CHECK(tokenizer->ApplyChatTemplate(nlohmann::ordered_json::array()).status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

}  // namespace troupe
