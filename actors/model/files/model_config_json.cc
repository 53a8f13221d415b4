// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json, as Transformers 4 and 5 write them.
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/checked_json.h"
#include "actors/model/files/element_type.h"
#include "actors/model/files/model_config.h"
#include "nlohmann/json.hpp"

namespace troupe {
namespace {

using Json = nlohmann::json;

// Reads fields of one object; the first error stays and ends the reading.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const absl::Status& status() const { return status_; }
  bool Has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  // Leaves `out` alone where the key is missing or null, and where the value has another type, which is an error.
  template <typename T>
  void Optional(const char* key, T& out) {
    if (!status_.ok() || !Has(key)) return;
    const Json& value = object_[key];
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) return Fail(key, "true or false");
      out = value.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) return Fail(key, "a string");
      out = value.get<std::string>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!value.is_number()) return Fail(key, "a number");
      out = value.get<double>();
    } else {
      if (!IsInt64(value)) return Fail(key, "a whole number");
      out = value.get<int64_t>();
    }
  }
  template <typename T>
  void Optional(const char* key, std::optional<T>& out) {
    if (!status_.ok() || !Has(key)) return;
    T value{};
    Optional(key, value);
    if (status_.ok()) out = value;
  }
  template <typename T>
  void Required(const char* key, T& out) {
    if (status_.ok() && !Has(key)) {
      status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, " is missing"));
    }
    Optional(key, out);
  }
  // One id or a list of them.
  void Ids(const char* key, std::vector<int64_t>& out) {
    if (!status_.ok() || !Has(key)) return;
    const Json& value = object_[key];
    if (IsInt64(value)) return out.push_back(value.get<int64_t>());
    if (!value.is_array() || value.size() > 1024) return Fail(key, "a token id or a list of them");
    for (const Json& id : value) {
      if (!IsInt64(id)) return Fail(key, "a token id or a list of them");
      out.push_back(id.get<int64_t>());
    }
  }
  void Fail(const char* key, const char* expected) {
    std::string value = object_[key].dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100);
    status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, " is ", value, "; expected ", expected));
  }

 private:
  static bool IsInt64(const Json& value) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() ||
            value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  }

  const Json& object_;
  std::string where_;
  absl::Status status_;
};

constexpr std::pair<const char*, RopeType> kRopeTypes[] = {{"default", RopeType::kDefault},
                                                           {"linear", RopeType::kLinear},
                                                           {"dynamic", RopeType::kDynamic},
                                                           {"llama3", RopeType::kLlama3},
                                                           {"yarn", RopeType::kYarn}};

absl::StatusOr<RopeType> ParseRopeType(const std::string& name) {
  for (const auto& [known, type] : kRopeTypes) {
    if (name == known) return type;
  }
  return absl::UnimplementedError(absl::StrCat(
      "config.json: rope type '", name, "' is not supported; supported: default, linear, dynamic, llama3, yarn"));
}

const char* RopeTypeName(RopeType type) { return kRopeTypes[static_cast<int>(type)].first; }

// `object` is rope_scaling (Transformers 4: rope_type, earlier type) or rope_parameters (5, with rope_theta in it).
absl::Status ParseRope(const Json& object, const char* where, ModelConfig& config) {
  if (!object.is_object()) return absl::InvalidArgumentError(absl::StrCat("config.json: ", where, " is not an object"));
  Fields fields(object, absl::StrCat("config.json: ", where));
  RopeScaling rope;
  std::string name = "default";
  fields.Optional(fields.Has("rope_type") ? "rope_type" : "type", name);
  if (!fields.status().ok()) return fields.status();
  absl::StatusOr<RopeType> type = ParseRopeType(name);
  if (!type.ok()) return type.status();
  rope.type = *type;
  fields.Optional("rope_theta", config.rope_theta);
  if (rope.type != RopeType::kDefault) fields.Required("factor", rope.factor);
  if (rope.type == RopeType::kLlama3) {
    fields.Required("low_freq_factor", rope.low_freq_factor);
    fields.Required("high_freq_factor", rope.high_freq_factor);
    fields.Required("original_max_position_embeddings", rope.original_max_position_embeddings);
  } else if (rope.type == RopeType::kDynamic || rope.type == RopeType::kYarn) {
    fields.Optional("original_max_position_embeddings", rope.original_max_position_embeddings);
  }
  if (rope.type == RopeType::kYarn) {
    fields.Optional("beta_fast", rope.beta_fast);
    fields.Optional("beta_slow", rope.beta_slow);
    fields.Optional("truncate", rope.truncate);
    fields.Optional("attention_factor", rope.attention_factor);
    fields.Optional("mscale", rope.mscale);
    fields.Optional("mscale_all_dim", rope.mscale_all_dim);
  }
  config.rope_scaling = rope;
  return fields.status();
}

nlohmann::ordered_json RopeToJson(const RopeScaling& rope) {
  if (rope.type == RopeType::kDefault) return nullptr;
  nlohmann::ordered_json json;
  json["rope_type"] = RopeTypeName(rope.type);
  json["factor"] = rope.factor;
  if (rope.original_max_position_embeddings != 0) {
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.type == RopeType::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  } else if (rope.type == RopeType::kYarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    if (rope.attention_factor) json["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) json["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) json["mscale_all_dim"] = *rope.mscale_all_dim;
  }
  return json;
}

nlohmann::ordered_json IdOrNull(const std::optional<int64_t>& id) {
  return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json EosIds(const ModelConfig& config) {
  if (config.eos_token_ids.empty()) return nullptr;
  if (config.eos_token_ids.size() == 1) return config.eos_token_ids.front();
  return config.eos_token_ids;
}

void ReadFields(Fields& fields, ModelConfig& config) {
  fields.Required("vocab_size", config.vocab_size);
  fields.Required("hidden_size", config.hidden_size);
  fields.Required("intermediate_size", config.intermediate_size);
  fields.Required("num_hidden_layers", config.num_hidden_layers);
  fields.Required("num_attention_heads", config.num_attention_heads);
  config.num_key_value_heads = config.num_attention_heads;
  fields.Optional("num_key_value_heads", config.num_key_value_heads);
  if (config.num_attention_heads > 0) config.head_dim = config.hidden_size / config.num_attention_heads;
  fields.Optional("head_dim", config.head_dim);
  fields.Optional("max_position_embeddings", config.max_position_embeddings);
  fields.Optional("rms_norm_eps", config.rms_norm_eps);
  fields.Optional("rope_theta", config.rope_theta);
  fields.Optional("tie_word_embeddings", config.tie_word_embeddings);
  fields.Optional("attention_bias", config.attention_bias);
  fields.Optional("mlp_bias", config.mlp_bias);
  fields.Optional("initializer_range", config.initializer_range);
  fields.Optional("hidden_act", config.hidden_act);
  fields.Optional(fields.Has("dtype") ? "dtype" : "torch_dtype", config.dtype);
  fields.Optional("bos_token_id", config.bos_token_id);
  fields.Optional("pad_token_id", config.pad_token_id);
  fields.Ids("eos_token_id", config.eos_token_ids);
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(const nlohmann::json& value) {
  if (!value.is_object()) return absl::InvalidArgumentError("config.json: not an object");
  Fields fields(value, "config.json");
  ModelConfig config;
  fields.Required("model_type", config.model_type);
  if (fields.status().ok() && config.model_type != "llama")
    return ValidateModelConfig(config);  // says what is supported
  ReadFields(fields, config);
  if (!fields.status().ok()) return fields.status();
  if (config.num_attention_heads > 0 && !fields.Has("head_dim") &&
      config.hidden_size % config.num_attention_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: hidden_size (", config.hidden_size,
                                                   ") is not a multiple of num_attention_heads (",
                                                   config.num_attention_heads, "), and no head_dim is given"));
  }
  if (config.dtype == "auto") config.dtype = "float32";
  absl::Status status;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (status.ok() && fields.Has(key)) status = ParseRope(value[key], key, config);
  }
  if (status.ok()) status = ParseDtype(config.dtype).status();
  if (status.ok()) status = ValidateModelConfig(config);
  if (!status.ok()) return status;
  return config;
}

absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& text) {
  absl::StatusOr<Json> json = ParseJson(text, "config.json");
  if (!json.ok()) return json.status();
  return ParseModelConfig(*json);
}

absl::Status MergeGenerationConfig(const nlohmann::json& value, ModelConfig& config) {
  if (!value.is_object()) return absl::InvalidArgumentError("generation_config.json: not an object");
  Fields fields(value, "generation_config.json");
  std::vector<int64_t> ids;
  fields.Ids("eos_token_id", ids);
  if (!config.bos_token_id) fields.Optional("bos_token_id", config.bos_token_id);
  if (!config.pad_token_id) fields.Optional("pad_token_id", config.pad_token_id);
  if (!fields.status().ok()) return fields.status();
  for (int64_t id : ids) {
    bool known = false;
    for (int64_t other : config.eos_token_ids) known = known || other == id;
    if (!known) config.eos_token_ids.push_back(id);
  }
  return ValidateModelConfig(config);
}

nlohmann::ordered_json ModelConfigToJson(const ModelConfig& config) {
  nlohmann::ordered_json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = config.model_type;
  json["attention_bias"] = config.attention_bias;
  json["attention_dropout"] = 0.0;
  json["bos_token_id"] = IdOrNull(config.bos_token_id);
  json["eos_token_id"] = EosIds(config);
  json["head_dim"] = config.head_dim;
  json["hidden_act"] = config.hidden_act;
  json["hidden_size"] = config.hidden_size;
  json["initializer_range"] = config.initializer_range;
  json["intermediate_size"] = config.intermediate_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["mlp_bias"] = config.mlp_bias;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_key_value_heads"] = config.num_key_value_heads;
  json["pad_token_id"] = IdOrNull(config.pad_token_id);
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["rope_scaling"] = RopeToJson(config.rope_scaling);
  json["rope_theta"] = config.rope_theta;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["torch_dtype"] = config.dtype;
  json["use_cache"] = true;
  json["vocab_size"] = config.vocab_size;
  return json;
}

nlohmann::ordered_json GenerationConfigToJson(const ModelConfig& config) {
  nlohmann::ordered_json json;
  json["_from_model_config"] = true;
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  if (!config.eos_token_ids.empty()) json["eos_token_id"] = EosIds(config);
  if (config.pad_token_id) json["pad_token_id"] = *config.pad_token_id;
  return json;
}

}  // namespace troupe
