// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text before it is split.
#include "actors/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/utf8.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

class Identity : public Normalizer {
 public:
  std::string Apply(std::string_view text) const override { return std::string(text); }
  bool IsIdentity() const override { return true; }
};

// NFC, NFD, NFKC, NFKD.
class NormalForm : public Normalizer {
 public:
  explicit NormalForm(int options) : options_(options) {}
  std::string Apply(std::string_view text) const override {
    utf8proc_uint8_t* out = nullptr;
    utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &out, static_cast<utf8proc_option_t>(options_ | UTF8PROC_STABLE));
    if (length < 0) return std::string(text);  // only for what is no UTF-8, which the caller excludes
    std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(length));
    std::free(out);
    return result;
  }

 private:
  int options_;
};

// Replaces each character by what `Map` appends.
template <void (*Map)(char32_t code, std::string& out)>
class EachCharacter : public Normalizer {
 public:
  std::string Apply(std::string_view text) const override {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
      Utf8Character character = ReadUtf8(text);
      Map(character.code, out);
      text.remove_prefix(character.length);
    }
    return out;
  }
};

void Lower(char32_t code, std::string& out) {
  if (code == 0x130) {  // the one character whose lower case is two: i and a dot above
    out += "i\u0307";
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

void DropAccent(char32_t code, std::string& out) {
  if (utf8proc_category(static_cast<utf8proc_int32_t>(code)) != UTF8PROC_CATEGORY_MN) AppendUtf8(code, out);
}

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  std::string Apply(std::string_view text) const override {
    std::string out(text);
    for (const auto& step : steps_) out = step->Apply(out);
    return out;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> Normalizer::FromJson(const Json& json) {
  if (json.is_null()) return std::make_unique<Identity>();
  std::string type = json.is_object() ? json.value("type", "") : "";
  if (type == "NFC") return std::make_unique<NormalForm>(UTF8PROC_COMPOSE);
  if (type == "NFD") return std::make_unique<NormalForm>(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return std::make_unique<NormalForm>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFKD") return std::make_unique<NormalForm>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  if (type == "Lowercase") return std::make_unique<EachCharacter<Lower>>();
  if (type == "StripAccents") return std::make_unique<EachCharacter<DropAccent>>();
  if (type == "Sequence" && json.contains("normalizers") && json["normalizers"].is_array()) {
    std::vector<std::unique_ptr<Normalizer>> steps;
    for (const Json& step : json["normalizers"]) {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Normalizer> normalizer, FromJson(step));
      steps.push_back(std::move(normalizer));
    }
    return std::make_unique<Sequence>(std::move(steps));
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: the normalizer '", type,
                                               "' is not supported; supported: NFC, NFD, NFKC, NFKD, Lowercase, "
                                               "StripAccents, Sequence"));
}

}  // namespace troupe
