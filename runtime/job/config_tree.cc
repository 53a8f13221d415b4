// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/config_tree.h"

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "runtime/base/nearest.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

absl::Status At(std::string_view source, std::string_view message) {
  return absl::InvalidArgumentError(std::string(source) + ": " + std::string(message));
}

class Converter {
 public:
  explicit Converter(std::string_view name) : name_(name) {}

  absl::StatusOr<ConfigNode> Convert(const YAML::Node& node, int depth) {
    ConfigNode out;
    out.source = Source(node);
    if (depth > kConfigDepthMax) return At(out.source, "nested too deeply");
    if (++nodes_ > kConfigNodesMax) return At(out.source, "too many values");
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        out.kind = ConfigNode::Kind::kScalar;
        out.scalar = node.Scalar();
        out.quoted = node.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        out.kind = ConfigNode::Kind::kList;
        for (const YAML::Node& item : node) {
          TROUPE_ASSIGN_OR_RETURN(ConfigNode child, Convert(item, depth + 1));
          out.list.push_back(std::move(child));
        }
        break;
      case YAML::NodeType::Map:
        return ConvertMap(node, depth, std::move(out));
      default:
        break;
    }
    return out;
  }

 private:
  absl::StatusOr<ConfigNode> ConvertMap(const YAML::Node& node, int depth, ConfigNode out) {
    out.kind = ConfigNode::Kind::kMap;
    for (const auto& item : node) {
      std::string source = Source(item.first);
      if (!item.first.IsScalar()) return At(source, "a key must be a word");
      std::string key = item.first.Scalar();
      if (out.Find(key) != nullptr) return At(source, "the key '" + key + "' is given twice");
      TROUPE_ASSIGN_OR_RETURN(ConfigNode child, Convert(item.second, depth + 1));
      child.source = source;
      out.map.emplace_back(std::move(key), std::move(child));
    }
    return out;
  }

  std::string Source(const YAML::Node& node) const {
    return node.Mark().line < 0 ? name_ : name_ + ":" + std::to_string(node.Mark().line + 1);
  }

  std::string name_;
  int nodes_ = 0;
};

ordered_json JsonOf(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return nullptr;
    case ConfigNode::Kind::kScalar: {
      if (node.quoted) return node.scalar;
      if (node.scalar == "~" || node.scalar == "null") return nullptr;
      ordered_json value = ordered_json::parse(node.scalar, nullptr, /*allow_exceptions=*/false);
      return value.is_number() || value.is_boolean() ? value : ordered_json(node.scalar);
    }
    case ConfigNode::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const ConfigNode& item : node.list) list.push_back(JsonOf(item));
      return list;
    }
    case ConfigNode::Kind::kMap: {
      ordered_json map = ordered_json::object();
      for (const auto& [key, value] : node.map) map[key] = JsonOf(value);
      return map;
    }
  }
  return nullptr;
}

void MarkSource(ConfigNode& node, const std::string& source) {
  node.source = source;
  for (ConfigNode& item : node.list) MarkSource(item, source);
  for (auto& [key, value] : node.map) MarkSource(value, source);
}

absl::StatusOr<ConfigNode*> Descend(ConfigNode* node, std::string_view key, std::string_view path) {
  if (node->kind == ConfigNode::Kind::kList) {
    size_t index = 0;
    for (char c : key) {
      if (c < '0' || c > '9' || index > 10000) index = SIZE_MAX;
      if (index != SIZE_MAX) index = index * 10 + static_cast<size_t>(c - '0');
    }
    if (key.empty() || index >= node->list.size()) {
      return At("command line", "'" + std::string(path) + "': the list has no element '" + std::string(key) + "'");
    }
    return &node->list[index];
  }
  if (node->kind == ConfigNode::Kind::kScalar) {
    return At("command line", "'" + std::string(path) + "': '" + std::string(key) + "' stands under a plain value");
  }
  node->kind = ConfigNode::Kind::kMap;
  if (ConfigNode* found = node->Find(key)) return found;
  node->map.emplace_back(std::string(key), ConfigNode{});
  node->map.back().second.source = "command line";
  return &node->map.back().second;
}

}  // namespace

const ConfigNode* ConfigNode::Find(std::string_view key) const {
  for (const auto& [name, value] : map) {
    if (name == key) return &value;
  }
  return nullptr;
}

ConfigNode* ConfigNode::Find(std::string_view key) {
  return const_cast<ConfigNode*>(static_cast<const ConfigNode*>(this)->Find(key));
}

std::string ConfigNode::ToJson() const {
  return JsonOf(*this).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

absl::StatusOr<ConfigNode> ParseYaml(std::string_view text, std::string_view name) {
  if (text.size() > kConfigBytesMax) return At(name, "larger than 4 MiB; this is not a job file");
  try {
    YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) return At(name, "expected keys and values at the top level, as in 'name: addition'");
    return Converter(name).Convert(root, 0);
  } catch (const YAML::Exception& error) {
    std::string line = error.mark.line < 0 ? "" : ":" + std::to_string(error.mark.line + 1);
    return At(std::string(name) + line, "not valid YAML: " + error.msg);
  }
}

absl::Status ApplyOverride(ConfigNode& root, std::string_view assignment) {
  size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return At("command line", "'" + std::string(assignment) + "' is no override: expected path.to.field=value");
  }
  std::string_view path = assignment.substr(0, equals);
  std::string wrapped = "v: " + std::string(assignment.substr(equals + 1));
  absl::StatusOr<ConfigNode> parsed = ParseYaml(wrapped, "command line");
  if (!parsed.ok()) return Annotate(parsed.status(), "'" + std::string(path) + "'");
  ConfigNode* node = &root;
  for (std::string_view rest = path; !rest.empty();) {
    size_t dot = rest.find('.');
    std::string_view key = rest.substr(0, dot);
    if (key.empty()) return At("command line", "'" + std::string(path) + "' has an empty part");
    TROUPE_ASSIGN_OR_RETURN(node, Descend(node, key, path));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  *node = std::move(*parsed->Find("v"));
  MarkSource(*node, "command line");
  return absl::OkStatus();
}

}  // namespace troupe
