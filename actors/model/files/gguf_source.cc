// SPDX-License-Identifier: Apache-2.0
// A model in a GGUF file under Hugging Face's names and layout.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/model/files/gguf.h"
#include "actors/model/files/gguf_config.h"
#include "actors/model/files/model_source_kinds.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"},
};

// model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight. `name` is one of ParameterShapes.
std::string GgufName(std::string_view name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view kLayers = "model.layers.";
  name.remove_prefix(kLayers.size());
  size_t dot = name.find('.');
  size_t kind_dot = name.rfind('.');
  std::string_view module = name.substr(dot + 1, kind_dot - dot - 1);
  for (const auto& [hugging_face, gguf] : kLayerNames) {
    if (module == hugging_face) {
      return "blk." + std::string(name.substr(0, dot)) + "." + std::string(gguf) + std::string(name.substr(kind_dot));
    }
  }
  return "";
}

// In how many heads of permuted rows a tensor lies; 0: not permuted. llama.cpp interleaves the two halves of each
// head's rows of q and k, for its own form of rotary embedding.
int64_t PermutedHeads(const ModelConfig& config, std::string_view name) {
  if (name.find(".q_proj.") != name.npos) return config.num_attention_heads;
  if (name.find(".k_proj.") != name.npos) return config.num_key_value_heads;
  return 0;
}

// The row of the file that is row `row` of Hugging Face's tensor.
size_t StoredRow(size_t row, size_t head_dim) {
  size_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

class GgufSource : public ModelSource {
 public:
  explicit GgufSource(std::unique_ptr<GgufFile> file) : file_(std::move(file)) {}

  absl::Status Init() {
    TROUPE_ASSIGN_OR_RETURN(config_, ConfigFromGguf(*file_));
    std::set<std::string> used{"rope_freqs.weight"};  // part of the config
    for (const ParameterShape& parameter : ParameterShapes(config_)) {
      std::string stored_name = GgufName(parameter.name);
      const GgufTensor* tensor = file_->Find(stored_name);
      if (tensor == nullptr) return MissingTensor(parameter, stored_name);
      if (tensor->shape != parameter.shape) {
        return Annotate(ShapeMismatch(parameter, tensor->shape), absl::StrCat("'", stored_name, "'"));
      }
      AddTensor({parameter.name, parameter.shape, tensor->type->name});
      stored_.push_back(tensor);
      used.insert(std::move(stored_name));
    }
    for (const GgufTensor& tensor : file_->tensors()) {
      if (used.count(tensor.name) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", tensor.name, "' is in the file but the model's config does not imply it"));
      }
    }
    return absl::OkStatus();
  }

 protected:
  absl::Status ReadTensor(size_t index, absl::Span<float> out) const override {
    const GgufTensor& tensor = *stored_[index];
    if (PermutedHeads(config_, tensors()[index].name) == 0) return Dequantise(*tensor.type, tensor.bytes, out);
    size_t rows = static_cast<size_t>(tensor.shape[0]);
    size_t row_elements = out.size() / rows, row_bytes = tensor.bytes.size() / rows;
    size_t head_dim = static_cast<size_t>(config_.head_dim);
    for (size_t row = 0; row < rows; ++row) {
      absl::Span<const std::byte> bytes = tensor.bytes.subspan(StoredRow(row, head_dim) * row_bytes, row_bytes);
      TROUPE_RETURN_IF_ERROR(Dequantise(*tensor.type, bytes, out.subspan(row * row_elements, row_elements)));
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<GgufFile> file_;
  std::vector<const GgufTensor*> stored_;  // of each of tensors()
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelSource>> OpenGgufSource(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  auto source = std::make_unique<GgufSource>(std::move(file));
  absl::Status status = source->Init();
  if (!status.ok()) return Annotate(status, path);
  return source;
}

}  // namespace troupe
