// SPDX-License-Identifier: Apache-2.0
// From tokens to a parsed template.
#pragma once

#include <string_view>

#include "actors/tokenizer/jinja/ast.h"

namespace troupe::jinja {

// Throws TemplateError.
Body ParseTemplate(std::string_view source);

}  // namespace troupe::jinja
