// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, and chat templates, as the model's own tokenizer does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

struct EncodeOptions {
  bool add_special_tokens = false;   // what the tokenizer's own post-processor adds (a beginning-of-text token...)
  bool parse_special_tokens = true;  // false: "<|im_end|>" in the text is plain characters
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  // An object of further variables for the template: tools, documents, enable_thinking... Not owned; may be null.
  const nlohmann::ordered_json* arguments = nullptr;
  // Used instead of the model's own template where not empty.
  std::string chat_template;
};

// The special tokens of a model and their ids, where it has them.
struct SpecialTokenIds {
  std::optional<int32_t> bos, eos, pad, unk;
};

// Immutable once loaded; any thread may use it.
// Covers byte-level BPE (GPT-2, Llama 3, Qwen2, SmolLM...) and word-level models; a tokenizer.json that needs something
// else (SentencePiece, Unigram, WordPiece) is UNIMPLEMENTED, and the error names what.
class Tokenizer {
 public:
  // `path`: a .gguf file, or a folder with tokenizer.json (and tokenizer_config.json, chat_template.jinja if there).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);

  // From the texts of tokenizer.json and tokenizer_config.json (may be empty).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(const std::string& tokenizer_json,
                                                             const std::string& tokenizer_config_json);

  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT if `text` is not UTF-8.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                                      const EncodeOptions& options = {}) const = 0;

  // Bytes that are no UTF-8 become U+FFFD. Ids outside the vocabulary are left out.
  virtual std::string Decode(absl::Span<const int32_t> ids, const DecodeOptions& options = {}) const = 0;

  // The text of a conversation. `messages`: an array of {role, content, ...}. FAILED_PRECONDITION: the model has no
  // template; INVALID_ARGUMENT: the template refused (raise_exception), or is wrong, with line and reason.
  virtual absl::StatusOr<std::string> ApplyChatTemplate(const nlohmann::ordered_json& messages,
                                                        const ChatTemplateOptions& options = {}) const = 0;

  // Largest id + 1, added tokens included. A model's vocab_size may be larger (padded).
  virtual int64_t vocab_size() const = 0;
  // As the vocabulary spells it ("Ġthe"); nothing for an id or token that does not exist.
  virtual std::optional<std::string> IdToToken(int32_t id) const = 0;
  virtual std::optional<int32_t> TokenToId(std::string_view token) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual const SpecialTokenIds& special() const = 0;
  virtual const std::string& chat_template() const = 0;  // empty: none

  // The bytes that `id` stands for, not yet checked as UTF-8; an added token's text. Empty for an unknown id.
  virtual std::string TokenBytes(int32_t id) const = 0;

  // Files from which Transformers' AutoTokenizer gives the same ids. A tokenizer loaded from tokenizer.json writes
  // it back as it was.
  virtual std::string ToTokenizerJson() const = 0;
  virtual std::string ToTokenizerConfigJson() const = 0;
  virtual std::string ToSpecialTokensMapJson() const = 0;
};

// Decodes a stream token by token and never cuts a character: what Push returns is always whole characters.
// The concatenation of all pieces equals Decode of all ids. Not thread-safe; the tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(tokenizer), options_(options) {}

  std::string Push(int32_t id);
  // The rest: a character that never became whole, as U+FFFD.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  std::string pending_;
};

}  // namespace troupe
