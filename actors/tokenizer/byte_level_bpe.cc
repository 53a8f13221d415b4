// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding over bytes: a heap of merges over a linked list of symbols, n log n in the piece's length, and a
// cache of the words seen.
#include "actors/tokenizer/byte_level_bpe.h"

#include <array>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "actors/tokenizer/byte_level.h"
#include "runtime/base/mutex.h"

namespace troupe {
namespace {

constexpr size_t kCachedWordsMax = 1 << 15;  // about 4 MB
constexpr size_t kCachedWordBytesMax = 64;   // longer pieces seldom come again

struct Merge {
  uint32_t rank;
  int32_t id;  // what the pair becomes
};

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

class WordCache {
 public:
  bool Find(const std::string& word, std::vector<int32_t>& ids) const {
    MutexLock lock(mutex_);
    auto found = words_.find(word);
    if (found == words_.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }
  void Add(std::string word, const int32_t* begin, const int32_t* end) {
    MutexLock lock(mutex_);
    if (words_.size() < kCachedWordsMax) words_.try_emplace(std::move(word), begin, end);
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::vector<int32_t>> words_ ABSL_GUARDED_BY(mutex_);
};

class ByteLevelBpe : public VocabularyModel {
 public:
  ByteLevelBpe(Vocabulary vocabulary, bool ignore_merges)
      : VocabularyModel(std::move(vocabulary)), ignore_merges_(ignore_merges) {
    byte_ids_.fill(-1);
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      char raw = static_cast<char>(byte);
      auto found = vocabulary_.find(BytesToSpelling({&raw, 1}));
      if (found != vocabulary_.end()) byte_ids_[byte] = found->second;
    }
  }

  absl::Status Init(const std::vector<TokenMerge>& merges) {
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      auto left = vocabulary_.find(merges[rank].left), right = vocabulary_.find(merges[rank].right);
      auto both = vocabulary_.find(merges[rank].left + merges[rank].right);
      if (left == vocabulary_.end() || right == vocabulary_.end() || both == vocabulary_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("tokenizer.json: merge ", rank, " ('", merges[rank].left.substr(0, 50), "', '",
                         merges[rank].right.substr(0, 50), "') names a token that is not in the vocabulary"));
      }
      // A pair that stands twice keeps its last rank, as in the reference.
      merges_[PairKey(left->second, right->second)] = {static_cast<uint32_t>(rank), both->second};
    }
    return absl::OkStatus();
  }

  absl::Status Encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    std::string word(piece);
    bool cacheable = word.size() <= kCachedWordBytesMax;
    if (cacheable && cache_.Find(word, ids)) return absl::OkStatus();
    size_t begin = ids.size();
    if (!ignore_merges_ || !AppendWhole(word, ids)) AppendMerged(word, ids);
    if (cacheable) cache_.Add(std::move(word), ids.data() + begin, ids.data() + ids.size());
    return absl::OkStatus();
  }

 private:
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // -1: none
    bool alive;
  };
  // Lowest rank first, then leftmost.
  using Candidate = std::tuple<uint32_t, int32_t, int32_t>;  // rank, position of the left symbol, id that it becomes
  using Candidates = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>>;

  bool AppendWhole(const std::string& word, std::vector<int32_t>& ids) const {
    auto found = vocabulary_.find(BytesToSpelling(word));
    if (found == vocabulary_.end()) return false;
    ids.push_back(found->second);
    return true;
  }

  const Merge* FindMerge(int32_t left, int32_t right) const {
    auto found = merges_.find(PairKey(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

  void PushMerge(const std::vector<Symbol>& symbols, int32_t left, Candidates& candidates) const {
    if (left < 0 || symbols[static_cast<size_t>(left)].next < 0) return;
    const Symbol& symbol = symbols[static_cast<size_t>(left)];
    const Merge* merge = FindMerge(symbol.id, symbols[static_cast<size_t>(symbol.next)].id);
    if (merge != nullptr) candidates.emplace(merge->rank, left, merge->id);
  }

  void AppendMerged(std::string_view word, std::vector<int32_t>& ids) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (char byte : word) {
      int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
      if (id < 0) continue;  // a vocabulary without this byte loses it, as in the reference
      int32_t at = static_cast<int32_t>(symbols.size());
      if (at > 0) symbols.back().next = at;
      symbols.push_back({id, at - 1, -1, true});
    }
    Candidates candidates;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) PushMerge(symbols, static_cast<int32_t>(i), candidates);
    while (!candidates.empty()) {
      auto [rank, left, id] = candidates.top();
      candidates.pop();
      MergeAt(symbols, left, id, candidates);
    }
    for (const Symbol& symbol : symbols) {
      if (symbol.alive) ids.push_back(symbol.id);
    }
  }

  // Joins the symbol at `left` with the one after it, if they still make `id`.
  void MergeAt(std::vector<Symbol>& symbols, int32_t left, int32_t id, Candidates& candidates) const {
    Symbol& symbol = symbols[static_cast<size_t>(left)];
    if (!symbol.alive || symbol.next < 0) return;
    Symbol& gone = symbols[static_cast<size_t>(symbol.next)];
    const Merge* merge = FindMerge(symbol.id, gone.id);
    if (merge == nullptr || merge->id != id) return;
    symbol.id = id;
    symbol.next = gone.next;
    gone.alive = false;
    if (gone.next >= 0) symbols[static_cast<size_t>(gone.next)].previous = left;
    PushMerge(symbols, symbol.previous, candidates);
    PushMerge(symbols, left, candidates);
  }

  bool ignore_merges_;
  std::array<int32_t, 256> byte_ids_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  mutable WordCache cache_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<VocabularyModel>> MakeByteLevelBpe(Vocabulary vocabulary,
                                                                  const std::vector<TokenMerge>& merges,
                                                                  bool ignore_merges) {
  auto model = std::make_unique<ByteLevelBpe>(std::move(vocabulary), ignore_merges);
  absl::Status status = model->Init(merges);
  if (!status.ok()) return status;
  return model;
}

}  // namespace troupe
