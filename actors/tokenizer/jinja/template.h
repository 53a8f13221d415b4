// SPDX-License-Identifier: Apache-2.0
// The part of the Jinja template language that published chat templates use, rendered as Transformers does
// (trim_blocks, lstrip_blocks, immutable values, loop controls).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "actors/tokenizer/jinja/context.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe::jinja {

class Program;

struct RenderOptions {
  absl::Time now;  // of strftime_now
  Limits limits;
};

// Immutable; any thread may render.
class Template {
 public:
  // INVALID_ARGUMENT: not a valid template, with the line; UNIMPLEMENTED: a tag that is not supported.
  static absl::StatusOr<std::unique_ptr<Template>> Parse(std::string_view source);
  ~Template();

  // `variables`: an object. INVALID_ARGUMENT: the template refused (raise_exception), used something undefined, or went
  // over a limit; with the line.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& variables, const RenderOptions& options) const;

 private:
  explicit Template(std::unique_ptr<Program> program);

  std::unique_ptr<Program> program_;
};

}  // namespace troupe::jinja
