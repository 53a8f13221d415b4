// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/yaml_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using nlohmann::ordered_json;

bool IsBlock(const ordered_json& value) {
  if (value.is_object()) return !value.empty();
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const ordered_json& item) {
           return item.is_object() && !item.empty();
         });
}

std::string Inline(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string Key(const std::string& key) {
  bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/';
  });
  return plain ? key : Inline(ordered_json(key));
}

void Emit(const ordered_json& value, size_t indent, std::string& out) {
  for (const auto& [key, item] : value.items()) {
    out += std::string(indent, ' ') + Key(key) + ":" + (IsBlock(item) ? "" : " " + Inline(item)) + "\n";
    if (!IsBlock(item)) continue;
    if (item.is_object()) {
      Emit(item, indent + 2, out);
      continue;
    }
    for (const ordered_json& element : item) {
      size_t begin = out.size();
      Emit(element, indent + 4, out);
      out[begin + indent + 2] = '-';
    }
  }
}

}  // namespace

std::string YamlOfJson(std::string_view json) {
  ordered_json value = ordered_json::parse(json, nullptr, false);
  std::string out;
  if (value.is_object()) Emit(value, 0, out);
  return out;
}

}  // namespace troupe
