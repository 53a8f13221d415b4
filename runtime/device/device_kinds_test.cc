// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_kinds.h"

#include <catch2/catch.hpp>

#include "runtime/base/device_kind_names.h"
#include "runtime/env/file.h"

namespace troupe::device {
namespace {

TEST_CASE("Device kinds: the table in docs/running.md is this one", "[device]") {
  std::string table =
      "| kind | of | found by | what a worker sees its devices by | health from |\n|---|---|---|---|---|\n";
  for (const DeviceKind& kind : DeviceKinds()) {
    std::string variables;
    for (const VisibleVariable& variable : kind.variables) {
      variables += (variables.empty() ? "`" : ", `") + variable.name + "`";
    }
    table += "| `" + kind.name + "` | " + kind.vendor + " | " + kind.found_by + " | " + variables + " | " +
             kind.health_from + " |\n";
  }
  INFO("the table should be:\n" << table);
  CHECK(ReadFile("docs/running.md", 1 << 20).value().find(table) != std::string::npos);
}

TEST_CASE("Device kinds: every kind is found by its name and has a variable", "[device]") {
  for (const DeviceKind& kind : DeviceKinds()) {
    CHECK(FindDeviceKind(kind.name) == &kind);
    REQUIRE_FALSE(kind.variables.empty());
    CHECK(kind.variables[0].form == VisibleForm::kNames);
  }
  CHECK(FindDeviceKind("gpu") == nullptr);
  std::string names;
  for (std::string_view name : kDeviceKindNames) names += (names.empty() ? "" : ", ") + std::string(name);
  CHECK(DeviceKindNames() == names);
}

}  // namespace
}  // namespace troupe::device
