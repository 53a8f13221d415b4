// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/job_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/byte_size.h"
#include "runtime/base/nearest.h"
#include "runtime/base/status.h"

namespace troupe::job_internal {
namespace {

std::string Quoted(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kScalar) return "'" + node.scalar + "'";
  return node.kind == ConfigNode::Kind::kList ? "a list" : node.kind == ConfigNode::Kind::kMap ? "a map" : "nothing";
}

std::string Plain(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

std::string CheckRange(double value, const Rule& rule, const std::string& text) {
  if (value < rule.min || (rule.above_min && value == rule.min)) {
    return "expected a value " + std::string(rule.above_min ? "above " : "of at least ") + Plain(rule.min) + ", got " +
           text;
  }
  return value > rule.max ? "expected a value of at most " + Plain(rule.max) + ", got " + text : "";
}

std::string WordsOf(const Rule& rule) {
  std::string words;
  for (const std::string& word : rule.words) {
    if (!word.empty()) words += (words.empty() ? "" : ", ") + word;
  }
  return words;
}

template <typename T>
bool ParseNumber(const std::string& text, T& out) {
  const char* begin = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  auto [end, error] = std::from_chars(begin, text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

void ReadRole(MapReader& parent, const std::string& name, RoleSection& role, const ConfigNode* node) {
  MapReader reader(node, parent.path() + name + ".", parent.values());
  VisitFields(reader, role);
  parent.Keep(reader.Finish());
}

void ReadFunctions(MapReader& parent, const ConfigNode& list, RewardSection& reward) {
  if (list.kind != ConfigNode::Kind::kList) return parent.Fail(list, "", "expected a list of reward functions");
  for (size_t i = 0; i < list.list.size(); ++i) {
    RewardFunction function;
    MapReader reader(&list.list[i], parent.path() + std::to_string(i) + ".", parent.values());
    VisitFields(reader, function);
    parent.Keep(reader.Finish());
    reward.functions.push_back(std::move(function));
  }
}

// `reward:` is one function beside the role's keys, a list of functions, or the role's keys with `functions: [...]`.
void ReadReward(MapReader& roles, RewardSection& reward, const ConfigNode* node) {
  MapReader reader(node != nullptr && node->kind == ConfigNode::Kind::kList ? nullptr : node, "roles.reward.",
                   roles.values());
  VisitFields(reader, reward.role);
  reader.Field("max_dropped_fraction", reward.max_dropped_fraction,
               "of a step's rows lost to faults of reward programs: beyond it the job fails", Between(0, 1));
  const ConfigNode* functions = reader.Child("functions");
  if (node != nullptr && node->kind == ConfigNode::Kind::kList) {
    ReadFunctions(reader, *node, reward);
  } else if (functions != nullptr) {
    ReadFunctions(reader, *functions, reward);
  } else if (node != nullptr) {
    RewardFunction function;
    VisitFields(reader, function);
    bool given = !function.function.empty() || !function.python.empty() || !function.command.empty();
    if (given || reward.role.class_name.empty()) reward.functions.push_back(std::move(function));
  }
  roles.Keep(reader.Finish());
}

void ReadRoles(MapReader& job, JobConfig& config) {
  const ConfigNode* node = job.Child("roles");
  ConfigNode empty;
  empty.kind = ConfigNode::Kind::kMap;
  if (node == nullptr) node = &empty;
  if (node->kind != ConfigNode::Kind::kMap) return job.Fail(*node, "roles", "expected roles and their keys");
  MapReader roles(node, "roles.", job.values());
  if (config.trains()) {
    for (const char* name : {"rollout", "reference", "actor", "controller"}) {
      if (std::string_view(name) == "controller") config.roles[name].resources.cpu = 0;
      ReadRole(roles, name, config.roles[name], roles.Child(name));
    }
    ReadReward(roles, config.reward, roles.Child("reward"));
  }
  for (const auto& [name, child] : node->map) {
    if (config.roles.contains(name) || (config.trains() && name == "reward")) continue;
    const ConfigNode* user_class = child.Find("class");
    if (config.trains() && user_class == nullptr) continue;  // an unknown key: Finish says so
    ReadRole(roles, name, config.roles[name], roles.Child(name.c_str()));
  }
  job.Keep(roles.Finish());
}

void ReadPlacement(MapReader& job, JobConfig& config) {
  const ConfigNode* node = job.Child("placement");
  std::string source = node == nullptr ? "default" : node->source;
  if (node != nullptr && node->kind == ConfigNode::Kind::kList) {
    config.placement = "hybrid";
    for (const ConfigNode& item : node->list) {
      std::vector<std::string> group;
      for (const ConfigNode& role : item.list) group.push_back(role.scalar);
      if (item.kind != ConfigNode::Kind::kList || group.empty()) {
        return job.Fail(item, "placement", "expected lists of roles, as in [[rollout, actor]]");
      }
      config.colocate.push_back(std::move(group));
    }
  } else if (node != nullptr) {
    config.placement = node->scalar;
    if (config.placement != "colocated" && config.placement != "disaggregated") {
      return job.Fail(*node, "placement", "expected colocated, disaggregated, or lists of roles that take turns");
    }
  }
  job.values()->push_back({"placement", config.placement, source, "which roles take turns on the same resources"});
}

}  // namespace

void MapReader::Fail(const ConfigNode& at, const std::string& key, const std::string& message) {
  std::string where = key.empty() ? path_.substr(0, path_.empty() ? 0 : path_.size() - 1) : path_ + key;
  Keep(absl::InvalidArgumentError(at.source + ": " + (where.empty() ? "" : where + ": ") + message));
}

absl::Status MapReader::Finish() {
  if (node_ == nullptr || !status_.ok()) return status_;
  for (const auto& [key, child] : node_->map) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string nearest = NearestOf(key, known_);
    std::string message = child.source + ": unknown key '" + path_ + key + "'";
    message += nearest.empty() ? "; known here:" : ": did you mean '" + nearest + "'?";
    if (nearest.empty()) {
      for (const std::string& known : known_) message += " " + known;
    }
    return absl::InvalidArgumentError(message);
  }
  return status_;
}

std::string MapReader::Parse(const ConfigNode& node, std::string& value, const Rule& rule) {
  if (node.kind == ConfigNode::Kind::kNull) {
    value.clear();
  } else if (node.kind == ConfigNode::Kind::kScalar) {
    value = node.scalar;
  } else {
    return "expected text, got " + Quoted(node);
  }
  if (rule.words.empty() || std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end()) return "";
  const std::string expected = WordsOf(rule);
  std::string nearest = NearestOf(value, rule.words);
  return "'" + value + "' is not one of " + expected + (nearest.empty() ? "" : ": did you mean '" + nearest + "'?");
}

std::string MapReader::Parse(const ConfigNode& node, bool& value, const Rule&) {
  value = node.scalar == "true";
  return node.kind == ConfigNode::Kind::kScalar && (value || node.scalar == "false")
             ? ""
             : "expected true or false, got " + Quoted(node);
}

std::string MapReader::Parse(const ConfigNode& node, int64_t& value, const Rule& rule) {
  if (!ParseNumber(node.scalar, value)) return "expected a whole number, got " + Quoted(node);
  return CheckRange(static_cast<double>(value), rule, node.scalar);
}

std::string MapReader::Parse(const ConfigNode& node, double& value, const Rule& rule) {
  if (!ParseNumber(node.scalar, value) || !std::isfinite(value)) return "expected a number, got " + Quoted(node);
  return CheckRange(value, rule, node.scalar);
}

std::string MapReader::Parse(const ConfigNode& node, absl::Duration& value, const Rule& rule) {
  if (!absl::ParseDuration(node.scalar, &value)) return "expected a duration such as 30s or 10m, got " + Quoted(node);
  return CheckRange(absl::ToDoubleSeconds(value), rule, node.scalar);
}

std::string MapReader::Parse(const ConfigNode& node, std::vector<std::string>& value, const Rule& rule) {
  if (node.kind != ConfigNode::Kind::kList) return "expected a list, got " + Quoted(node);
  value.clear();
  for (const ConfigNode& item : node.list) {
    std::string error = Parse(item, value.emplace_back(), rule);
    if (!error.empty()) return error;
  }
  return "";
}

std::string MapReader::Parse(const ConfigNode& node, std::vector<double>& value, const Rule& rule) {
  if (node.kind != ConfigNode::Kind::kList) return "expected a list of numbers, got " + Quoted(node);
  value.clear();
  for (const ConfigNode& item : node.list) {
    std::string error = Parse(item, value.emplace_back(), rule);
    if (!error.empty()) return error;
  }
  return "";
}

std::string MapReader::Parse(const ConfigNode& node, PathText& value, const Rule& rule) {
  return Parse(node, value.value, rule);
}

std::string MapReader::Parse(const ConfigNode& node, Bytes& value, const Rule& rule) {
  if (std::optional<double> bytes = ParseByteSize(node.scalar)) {
    value.value = static_cast<int64_t>(*bytes);
    return CheckRange(*bytes, rule, node.scalar);
  }
  return "expected bytes such as 512MiB or 4GiB, got " + Quoted(node);
}

std::string MapReader::Parse(const ConfigNode& node, JsonText& value, const Rule&) {
  value.value = node.ToJson();
  return "";
}

std::string MapReader::WithWords(const std::string& doc, const Rule& rule) {
  bool said = std::all_of(rule.words.begin(), rule.words.end(),
                          [&](const std::string& word) { return doc.find(word) != std::string::npos; });
  return said ? doc : doc + ": " + WordsOf(rule);
}

std::string MapReader::Show(const Bytes& bytes) {
  static constexpr std::pair<const char*, int64_t> kUnits[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
  for (const auto& [name, factor] : kUnits) {
    if (bytes.value > 0 && bytes.value % factor == 0) return std::to_string(bytes.value / factor) + name;
  }
  return std::to_string(bytes.value);
}

std::string MapReader::Show(const std::string& value) {
  bool plain = !value.empty() && value.find_first_of("#:{}[],&*!|>'\"%@`\n\\ ") == std::string::npos;
  return plain ? value : nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string MapReader::Show(double value) { return Plain(value); }

std::string MapReader::Show(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) text += (text.empty() ? "" : ", ") + Show(item);
  return "[" + text + "]";
}

std::string MapReader::Show(const std::vector<double>& value) {
  std::string text;
  for (double item : value) text += (text.empty() ? "" : ", ") + Show(item);
  return "[" + text + "]";
}

absl::Status ReadJob(const ConfigNode& root, JobConfig& config, std::vector<ExplainedValue>& values) {
  MapReader job(&root, "", &values);
  job.Field("name", config.name, "of the job and of its default folder");
  job.Section("model", config.model);
  job.Section("data", config.data);
  ReadRoles(job, config);
  ReadPlacement(job, config);
  job.Section("algorithm", config.algorithm);
  job.Section("rollout", config.rollout);
  job.Section("actor", config.actor);
  job.Section("trainer", config.trainer);
  job.Section("scheduling", config.scheduling);
  job.Field("deterministic", config.deterministic, "bit for bit the same result after a fault");
  job.Field("hang_timeout", config.hang_timeout, "a worker without a heartbeat for that long is killed", Above(0));
  job.Field("stop_grace", config.stop_grace, "a worker that was asked to stop is killed after that", AtLeast(0));
  return job.Finish();
}

}  // namespace troupe::job_internal
