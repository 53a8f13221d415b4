// SPDX-License-Identifier: Apache-2.0
// A parsed template, and the boundary where errors become statuses.
#include "actors/tokenizer/jinja/template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/jinja/ast.h"
#include "actors/tokenizer/jinja/parser.h"
#include "nlohmann/json.hpp"

namespace troupe::jinja {
namespace {

constexpr size_t kSourceBytesMax = 1 << 20;

absl::Status ErrorStatus(const TemplateError& error) {
  std::string where = error.line > 0 ? absl::StrCat("chat template, line ", error.line) : "chat template";
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", error.what()));
}

}  // namespace

class Program {
 public:
  explicit Program(Body body) : body_(std::move(body)) {}
  const Body& body() const { return body_; }

 private:
  Body body_;
};

Template::Template(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Template::~Template() = default;

absl::StatusOr<std::unique_ptr<Template>> Template::Parse(std::string_view source) {
  if (source.size() > kSourceBytesMax) return absl::InvalidArgumentError("a chat template is too long");
  try {
    return std::unique_ptr<Template>(new Template(std::make_unique<Program>(ParseTemplate(source))));
  } catch (const TemplateError& error) {
    return ErrorStatus(error);
  }
}

absl::StatusOr<std::string> Template::Render(const nlohmann::ordered_json& variables,
                                             const RenderOptions& options) const {
  try {
    Context context(options.limits, options.now);
    for (const auto& [name, value] : variables.items()) context.Assign(name, Value::FromJson(value));
    OutputCapture output(context);
    ExecuteBody(program_->body(), context);
    return output.Take();
  } catch (const TemplateError& error) {
    return ErrorStatus(error);
  } catch (const nlohmann::json::exception& error) {  // text that is no UTF-8, in JSON
    return absl::InvalidArgumentError(absl::StrCat("chat template: ", error.what()));
  }
}

}  // namespace troupe::jinja
