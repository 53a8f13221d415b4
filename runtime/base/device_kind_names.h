// SPDX-License-Identifier: Apache-2.0
// The names of the kinds of devices, for those who check them. What each kind is stands in
// runtime/device/device_kinds.h.
#pragma once

#include <string_view>

namespace troupe {

inline constexpr std::string_view kDeviceKindNames[] = {"ppu", "cuda", "rocm", "ascend", "kunlun", "sim"};

inline bool IsDeviceKind(std::string_view name) {
  for (std::string_view known : kDeviceKindNames) {
    if (known == name) return true;
  }
  return false;
}

}  // namespace troupe
