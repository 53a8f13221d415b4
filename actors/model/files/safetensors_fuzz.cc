// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the header of a safetensors file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "actors/model/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto header = troupe::ParseSafetensorsHeader({reinterpret_cast<const std::byte*>(data), size});
  if (!header.ok()) return 0;
  for (const troupe::SafetensorsEntry& entry : header->entries) {
    if (entry.begin > entry.end || entry.end > size - header->data_begin) std::abort();
  }
  return 0;
}
