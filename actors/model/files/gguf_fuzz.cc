// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the header of a GGUF file.
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "actors/model/files/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto contents = troupe::ParseGguf({reinterpret_cast<const std::byte*>(data), size});
  if (!contents.ok()) return 0;
  for (const troupe::GgufTensor& tensor : contents->tensors) {  // every byte that was promised can be read
    if (!tensor.bytes.empty() && (tensor.bytes.front() == std::byte{1}) == (tensor.bytes.back() == std::byte{2}))
      continue;
  }
  return 0;
}
