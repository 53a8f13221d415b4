// SPDX-License-Identifier: Apache-2.0
// JSON as block YAML, for people: every scalar stays as JSON writes it, which YAML reads back to the same value.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

// Objects and lists of objects as blocks, other lists in one line; the keys in their order. "" when `json` is none.
std::string YamlOfJson(std::string_view json);

}  // namespace troupe
