// SPDX-License-Identifier: Apache-2.0
// Golden functions of tokenizers: the byte-level families, SmolLM2's ids, texts, special tokens and conversations.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/ascii.h"
#include "actors/tokenizer/tokenizer.h"
#include "runtime/base/status.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/smollm2_model.h"

namespace troupe::golden {
namespace {

using Ids = std::vector<int32_t>;
using TokenizerFunction = void (*)(const Case&, const Tokenizer&, Check&);

// Token ids, texts...: equal or not.
template <class T>
void Same(const std::string& what, const T& got, const nlohmann::json& want, Check& check) {
  const nlohmann::json value = got;
  check.That(value == want, what + " is " + value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                                ", not " + want.dump());
}

void SameIds(const std::string& what, const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options,
             const nlohmann::json& want, Check& check) {
  const absl::StatusOr<Ids> ids = tokenizer.Encode(text, options);
  if (!ids.ok()) return check.That(false, MessageOf(ids.status()));
  Same(what, *ids, want, check);
}

// What an output's absence means: the case does not say.
void RunTokenize(const Case& one, const Tokenizer& tokenizer, Check& check) {
  const std::string text = one.inputs.at("text");
  const nlohmann::json& want = one.outputs;
  const Ids ids = want.at("ids");
  SameIds("ids", tokenizer, text, {}, ids, check);
  if (want.contains("ids_specials_as_text"))
    SameIds("ids_specials_as_text", tokenizer, text, {.parse_special_tokens = false}, want["ids_specials_as_text"],
            check);
  if (want.contains("ids_with_special"))
    SameIds("ids_with_special", tokenizer, text, {.add_special_tokens = true}, want["ids_with_special"], check);
  std::vector<std::string> tokens, want_tokens;
  for (int32_t id : ids) tokens.push_back(tokenizer.IdToToken(id).value_or(""));
  // An added token that takes the spaces around it is spelled with them in the case.
  for (const auto& token : want.at("tokens"))
    want_tokens.emplace_back(absl::StripAsciiWhitespace(token.get_ref<const std::string&>()));
  Same("tokens", tokens, want_tokens, check);
  Same("decoded", tokenizer.Decode(ids), want.at("decoded"), check);
  Same("decoded_skip_special", tokenizer.Decode(ids, {.skip_special_tokens = true}), want.at("decoded_skip_special"),
       check);
}

void RunDecode(const Case& one, const Tokenizer& tokenizer, Check& check) {
  const Ids ids = one.inputs.at("ids");
  std::vector<std::string> prefixes, each;
  for (size_t n = 0; n <= ids.size(); ++n) prefixes.push_back(tokenizer.Decode(absl::MakeConstSpan(ids).first(n)));
  for (int32_t id : ids) each.push_back(tokenizer.Decode({id}));
  const nlohmann::json& want = one.outputs;
  if (want.contains("decoded_prefixes")) Same("decoded_prefixes", prefixes, want["decoded_prefixes"], check);
  if (want.contains("each")) Same("each", each, want["each"], check);
  if (want.contains("decoded")) Same("decoded", prefixes.back(), want["decoded"], check);
}

void RunSpecialTokens(const Case& one, const Tokenizer& tokenizer, Check& check) {
  const SpecialTokenIds& special = tokenizer.special();
  const nlohmann::json& want = one.outputs;
  const auto token = [&](const std::optional<int32_t>& id) { return id ? tokenizer.IdToToken(*id).value_or("") : ""; };
  Same("bos", token(special.bos), want.at("bos"), check);
  Same("bos_id", special.bos.value_or(-1), want.at("bos_id"), check);
  Same("eos", token(special.eos), want.at("eos"), check);
  Same("eos_id", special.eos.value_or(-1), want.at("eos_id"), check);
  Same("pad", token(special.pad), want.at("pad"), check);
  Same("pad_id", special.pad.value_or(-1), want.at("pad_id"), check);
  Same("unk", token(special.unk), want.at("unk"), check);
  Same("vocab_size", tokenizer.vocab_size(), want.at("vocab_size"), check);
  // The reference's list has only the tokens with a role; the vocabulary marks more as special.
  for (int32_t id : want.at("all_special_ids").get<Ids>())
    check.That(tokenizer.IsSpecial(id), "token " + std::to_string(id) + " is not special");
}

void RunChatTemplate(const Case& one, const Tokenizer& tokenizer, Check& check) {
  const auto messages = nlohmann::ordered_json::parse(one.inputs.at("messages").dump());
  const absl::StatusOr<std::string> text =
      tokenizer.ApplyChatTemplate(messages, {.add_generation_prompt = one.config.at("add_generation_prompt")});
  if (!text.ok()) return check.That(false, MessageOf(text.status()));
  Same("text", *text, one.outputs.at("text"), check);
  SameIds("ids", tokenizer, *text, {}, one.outputs.at("ids"), check);
}

// With the tokenizer of a case's folder; each is loaded once.
void RunFamily(const Case& one, Check& check) {
  static auto* loaded = new std::map<std::string, absl::StatusOr<std::unique_ptr<Tokenizer>>>;
  const std::string folder = one.folder + "/" + one.config.at("folder").get<std::string>();
  auto found = loaded->find(folder);
  if (found == loaded->end()) found = loaded->emplace(folder, Tokenizer::Load(folder)).first;
  if (!found->second.ok()) return check.That(false, MessageOf(found->second.status()));
  RunTokenize(one, **found->second, check);
}

template <TokenizerFunction run>
void WithSmolLm2(const Case& one, Check& check) {
  static const auto* tokenizer = new absl::StatusOr<std::unique_ptr<Tokenizer>>(Tokenizer::Load(SmolLm2Path()));
  if (!tokenizer->ok()) return check.That(false, MessageOf(tokenizer->status()));
  run(one, ***tokenizer, check);
}

[[maybe_unused]] const bool kRegistered =
    Register("tokenizer/added_token_options", &RunFamily) && Register("tokenizer/gpt2_bytelevel", &RunFamily) &&
    Register("tokenizer/gpt2_prefix_space", &RunFamily) && Register("tokenizer/llama3_split", &RunFamily) &&
    Register("tokenizer/qwen2_split_nfc", &RunFamily) && Register("tokenizer/smollm_digits", &RunFamily) &&
    Register("tokenize", &WithSmolLm2<RunTokenize>) && Register("decode", &WithSmolLm2<RunDecode>) &&
    Register("special_tokens", &WithSmolLm2<RunSpecialTokens>) &&
    Register("chat_template", &WithSmolLm2<RunChatTemplate>);

}  // namespace
}  // namespace troupe::golden
