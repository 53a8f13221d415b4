// SPDX-License-Identifier: Apache-2.0
// JSON from files that may be hostile: bounded depth and size, no key twice, errors with line and column.
#include "actors/model/files/checked_json.h"

#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace troupe {
namespace {

// Leaves the parser from its callback; caught below.
struct LimitExceeded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Watches the events of nlohmann's parser.
template <typename Json>
class Watcher {
 public:
  explicit Watcher(const JsonLimits& limits) : limits_(limits) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, Json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (static_cast<size_t>(depth) >= limits_.depth_max) {
        throw LimitExceeded(absl::StrCat("nested deeper than ", limits_.depth_max));
      }
      keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
      return true;
    } else if (event == Event::key) {
      const std::string& key = parsed.template get_ref<const std::string&>();
      if (keys_.back().size() >= limits_.keys_max) {
        throw LimitExceeded(absl::StrCat("an object of more than ", limits_.keys_max, " keys"));
      }
      if (!keys_.back().insert(key).second) {
        throw LimitExceeded(absl::StrCat("the key '", key.substr(0, 100), "' stands twice in an object"));
      }
    }
    if (++nodes_ > limits_.nodes_max) throw LimitExceeded(absl::StrCat("more than ", limits_.nodes_max, " values"));
    return true;
  }

 private:
  const JsonLimits& limits_;
  size_t nodes_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each open object
};

template <typename Json>
absl::StatusOr<Json> Parse(std::string_view text, const std::string& what, const JsonLimits& limits) {
  try {
    Watcher<Json> watcher(limits);
    return Json::parse(text.begin(), text.end(), std::ref(watcher));
  } catch (const LimitExceeded& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what()));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not valid JSON: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return Parse<nlohmann::json>(text, what, limits);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(std::string_view text, const std::string& what,
                                                        const JsonLimits& limits) {
  return Parse<nlohmann::ordered_json>(text, what, limits);
}

}  // namespace troupe
