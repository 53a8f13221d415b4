// SPDX-License-Identifier: Apache-2.0
//
// Who holds which page of the KV cache. Pure: it decides about page numbers and never sees their bytes.

#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/model/model_version.h"

namespace troupe::rollout {

// Copy the keys and values of page `from` to page `to`, in all layers, before anything of this step is computed.
struct PageCopy {
  int32_t from = 0;
  int32_t to = 0;
};

// The pages of one sequence: position p lies in pages[p / page_tokens]. Owned by the scheduler, changed only here.
struct PageTable {
  std::vector<int32_t> pages;
  uint64_t prefix_node = 0;  // of the last full page that is in the prefix cache; 0 at the start
  int64_t prefix_pages = 0;  // how many full pages have been offered to the prefix cache
  bool cacheable = true;     // false once some page was computed under another version than the rest
};

// Pages are counted by reference. Sequences that begin with the same tokens share pages, also a last, partly filled
// one, until one of them writes there: then it gets a copy.
//
// Prefix cache: a page that was computed is found again by (version, the pages before it, its tokens), compared
// exactly. A page that nobody holds keeps its entry until it is given out again, the least recently freed first.
//
// Invariants (CheckInvariants): KV-1: a page's count is the number of tables that list it. KV-2: a page is free if and
// only if its count is zero. KV-3: an entry of the cache names a page that lists it.
class BlockManager {
 public:
  BlockManager(int64_t num_pages, int64_t page_tokens);

  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t free_pages() const { return free_pages_; }
  int64_t page_tokens() const { return page_tokens_; }

  // Fills an empty table with cached pages of the longest known prefix of `tokens`. Returns for how many positions keys
  // and values are there: at most tokens.size() - 1, since the last one must be computed to know what follows.
  int64_t Attach(PageTable& table, std::span<const int32_t> tokens, const ModelVersion& version);

  // Makes positions [begin, end) writable: adds pages, and replaces a shared page by a copy (appended to `copies`).
  // False, and nothing changed, if there are too few free pages.
  bool Reserve(PageTable& table, int64_t begin, int64_t end, std::vector<PageCopy>& copies);

  // A second table over the same pages; `child` must be empty.
  void Share(const PageTable& parent, PageTable& child);

  // Offers what was computed, positions [0, computed) holding `tokens`, to the prefix cache: full pages, and with
  // `with_tail` the partly filled last one (worth it at the end of a prompt, which other samples share).
  void Publish(PageTable& table, std::span<const int32_t> tokens, int64_t computed, const ModelVersion& version,
               bool with_tail);

  // Gives all pages back and empties the table.
  void Release(PageTable& table);

  // Forgets the prefix cache. Tables keep their pages.
  void ForgetPrefixes();

  // Ends the process if an invariant is broken; `tables` are all tables there are.
  void CheckInvariants(std::span<const PageTable* const> tables) const;

 private:
  struct PrefixKey {
    ModelVersion version;
    uint64_t parent = 0;
    std::vector<int32_t> tokens;

    friend bool operator==(const PrefixKey&, const PrefixKey&) = default;
  };
  struct PrefixKeyHash {
    size_t operator()(const PrefixKey& key) const;
  };
  struct PrefixNode {
    uint64_t id = 0;
    int32_t page = 0;
  };
  struct Page {
    int32_t references = 0;
    int32_t previous_free = -1;  // a doubly linked list, so that a cached page can be taken out of its middle
    int32_t next_free = -1;
    std::vector<PrefixKey> keys;  // its entries in the cache
  };

  int32_t TakeFree();
  void Hold(int32_t page);
  void Drop(int32_t page);
  void PushFree(int32_t page);
  void UnlinkFree(int32_t page);
  // Removes the page's entries that cover more than `tokens_kept` tokens.
  void Forget(int32_t page, int64_t tokens_kept);
  const PrefixNode* FindPrefix(PrefixKey& key, uint64_t parent, std::span<const int32_t> tokens) const;
  uint64_t AddPrefix(PrefixKey key, int32_t page);

  int64_t page_tokens_;
  std::vector<Page> pages_;
  int32_t first_free_ = -1;
  int32_t last_free_ = -1;
  int64_t free_pages_ = 0;
  std::unordered_map<PrefixKey, PrefixNode, PrefixKeyHash> prefixes_;
  uint64_t next_node_ = 1;  // never reused, so that a forgotten parent is never met again
};

}  // namespace troupe::rollout
