// SPDX-License-Identifier: Apache-2.0
// Filters of lists and mappings.
#pragma once

#include <string>

#include "actors/tokenizer/jinja/builtins.h"

namespace troupe::jinja {

// nullptr: none of that name.
Filter FindListFilter(const std::string& name);

}  // namespace troupe::jinja
