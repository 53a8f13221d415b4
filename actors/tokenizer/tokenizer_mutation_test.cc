// SPDX-License-Identifier: Apache-2.0
// Damaged tokenizer.json files never crash the reader.
#include <string>

#include "catch2/catch.hpp"
#include "tests/mutations/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace troupe {

TEST_CASE("Tokenizer: damaged files never crash the reader", "[tokenizer]") {
  std::string json = R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true, "lstrip": true}], "normalizer":
    {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}, "pre_tokenizer": {"type": "Sequence",
    "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)| ?[^\\s]+"}, "behavior":
    "Isolated"}, {"type": "ByteLevel", "use_regex": true}]}, "post_processor": {"type": "TemplateProcessing", "single":
    [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [9]}}}, "decoder":
    {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "he": 4, "ll": 5, "hell":
    6, "hello": 7, "1": 8}, "merges": [["h", "e"], "l l", "he ll", "hell o"]}})";
  CHECK(RunMutations(LLVMFuzzerTestOneInput, json, 10'000, 1) == 10'000);
}

}  // namespace troupe
