// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a chat template, parsed and rendered.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "actors/tokenizer/jinja/template.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto parsed = troupe::jinja::Template::Parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  nlohmann::ordered_json variables = {{"messages", {{{"role", "user"}, {"content", "Hi \u00e9"}}}}, {"tools", nullptr}};
  troupe::jinja::RenderOptions options{.now = absl::UnixEpoch(), .limits = {.steps_max = 20'000}};
  auto text = (*parsed)->Render(variables, options);
  return text.ok() && text->size() > options.limits.output_bytes_max ? 1 : 0;
}
