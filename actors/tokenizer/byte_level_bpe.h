// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding over bytes. Source: Sennrich et al. 2016; bytes as in Radford et al. 2019.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/tokenizer/vocabulary_model.h"

namespace troupe {

// Two tokens, as the vocabulary spells them, that become one. Earlier ones in the list go first.
struct TokenMerge {
  std::string left, right;
};

// `ignore_merges`: a piece that is a token is that token, whatever the merges say.
// INVALID_ARGUMENT: a merge names a token that is not in the vocabulary.
absl::StatusOr<std::unique_ptr<VocabularyModel>> MakeByteLevelBpe(Vocabulary vocabulary,
                                                                  const std::vector<TokenMerge>& merges,
                                                                  bool ignore_merges);

}  // namespace troupe
