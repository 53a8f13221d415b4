// SPDX-License-Identifier: Apache-2.0
// Fuzz target: tokenizer.json, and texts through what it makes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "actors/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string json(reinterpret_cast<const char*>(data), size);
  auto tokenizer = troupe::Tokenizer::FromJson(json, "");
  if (!tokenizer.ok()) return 0;
  auto ids = (*tokenizer)->Encode("Hello <s> world 12\n\u00e9", {.add_special_tokens = true});
  if (ids.ok()) (*tokenizer)->Decode(*ids, {.skip_special_tokens = true});
  return 0;
}
