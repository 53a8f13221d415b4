// SPDX-License-Identifier: Apache-2.0
// MapReader: the visitor of job_fields.h that reads one map of a job file, notes where each value came from, and
// refuses unknown keys with the nearest right one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/job/config_tree.h"
#include "runtime/job/job_fields.h"

namespace troupe::job_internal {

class MapReader {
 public:
  // `node` may be nullptr: every value keeps its default. `path` is "" or ends with a dot.
  MapReader(const ConfigNode* node, std::string path, std::vector<ExplainedValue>* values)
      : node_(node), path_(std::move(path)), values_(values) {
    if (node_ != nullptr && node_->kind == ConfigNode::Kind::kNull) node_ = nullptr;
    if (node_ != nullptr && node_->kind != ConfigNode::Kind::kMap) Fail(*node_, "", "expected keys and values");
  }

  template <typename T>
  void Field(const char* key, T&& value, const char* doc, const Rule& rule = {}) {
    const ConfigNode* child = Child(key);
    if (child != nullptr && status_.ok()) {
      std::string error = Parse(*child, value, rule);
      if (!error.empty()) Fail(*child, key, error);
    }
    values_->push_back({path_ + key, Show(value), child == nullptr ? "default" : child->source, WithWords(doc, rule)});
  }

  template <typename T>
  void Section(const char* key, T& section) {
    const ConfigNode* child = Child(key);
    MapReader reader(child, path_ + key + ".", values_);
    VisitFields(reader, section);
    Keep(reader.Finish());
  }

  // The value under `key`, which then counts as known; nullptr when it is not given.
  const ConfigNode* Child(const char* key) {
    known_.push_back(key);
    return node_ == nullptr ? nullptr : node_->Find(key);
  }
  void Fail(const ConfigNode& at, const std::string& key, const std::string& message);
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  // After every key was visited: the first error, an unknown key among them.
  absl::Status Finish();

  const std::string& path() const { return path_; }
  std::vector<ExplainedValue>* values() { return values_; }

 private:
  // Each returns "" or what was expected.
  static std::string Parse(const ConfigNode& node, std::string& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, bool& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, int64_t& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, double& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, absl::Duration& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, std::vector<std::string>& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, std::vector<double>& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, PathText& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, Bytes& value, const Rule& rule);
  static std::string Parse(const ConfigNode& node, JsonText& value, const Rule& rule);

  // The meaning, and the words that it may be unless the meaning says them.
  static std::string WithWords(const std::string& doc, const Rule& rule);

  static std::string Show(const std::string& value);
  static std::string Show(bool value) { return value ? "true" : "false"; }
  static std::string Show(int64_t value) { return std::to_string(value); }
  static std::string Show(double value);
  static std::string Show(absl::Duration value) { return absl::FormatDuration(value); }
  static std::string Show(const std::vector<std::string>& value);
  static std::string Show(const std::vector<double>& value);
  static std::string Show(const PathText& value) { return Show(value.value); }
  static std::string Show(const Bytes& value);
  static std::string Show(const JsonText& value) { return value.value; }

  const ConfigNode* node_;
  std::string path_;
  std::vector<ExplainedValue>* values_;
  std::vector<std::string> known_;
  absl::Status status_;
};

// The whole job. Paths are as written.
absl::Status ReadJob(const ConfigNode& root, JobConfig& config, std::vector<ExplainedValue>& values);

// What no single key can tell: required keys, sizes that must divide, names that must exist. `root` gives the lines.
absl::Status CheckJob(const JobConfig& config, const ConfigNode& root);

// job_config.cc. "": the role takes turns with no other one.
std::string ColocationGroup(const JobConfig& config, const std::string& role);

// The files that it names must be there. Paths are absolute.
absl::Status CheckFiles(const JobConfig& config, const ConfigNode& root);

}  // namespace troupe::job_internal
