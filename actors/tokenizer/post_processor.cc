// SPDX-License-Identifier: Apache-2.0
// The special tokens that a tokenizer adds before and after a text.
#include "actors/tokenizer/post_processor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

absl::StatusOr<PostProcessor> ParseTemplate(const Json& json) {
  PostProcessor out;
  bool seen_text = false;
  for (const Json& item : json.at("single")) {
    if (item.contains("Sequence")) {
      if (seen_text)
        return absl::UnimplementedError("tokenizer.json: a post-processor that repeats the text is not supported");
      seen_text = true;
      continue;
    }
    std::string name = item.at("SpecialToken").at("id").get<std::string>();
    for (const Json& id : json.at("special_tokens").at(name).at("ids")) {
      (seen_text ? out.suffix : out.prefix).push_back(id.get<int32_t>());
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::FromJson(const Json& json) {
  if (json.is_null()) return PostProcessor();
  std::string type = json.at("type").get<std::string>();
  if (type == "ByteLevel") return PostProcessor();  // about offsets only
  if (type == "TemplateProcessing") return ParseTemplate(json);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    return PostProcessor{{json.at("cls").at(1).get<int32_t>()}, {json.at("sep").at(1).get<int32_t>()}};
  }
  if (type == "Sequence") {
    PostProcessor out;
    for (const Json& step : json.at("processors")) {
      TROUPE_ASSIGN_OR_RETURN(PostProcessor inner, FromJson(step));
      out.prefix.insert(out.prefix.begin(), inner.prefix.begin(), inner.prefix.end());
      out.suffix.insert(out.suffix.end(), inner.suffix.begin(), inner.suffix.end());
    }
    return out;
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: the post-processor '", type, "' is not supported"));
}

}  // namespace troupe
