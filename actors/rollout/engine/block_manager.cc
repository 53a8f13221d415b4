// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/block_manager.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"

namespace troupe::rollout {

BlockManager::BlockManager(int64_t num_pages, int64_t page_tokens) : page_tokens_(page_tokens), pages_(num_pages) {
  for (int32_t page = 0; page < num_pages; ++page) PushFree(page);
}

int64_t BlockManager::Attach(PageTable& table, std::span<const int32_t> tokens, const ModelVersion& version) {
  TROUPE_CHECK(table.pages.empty(), "prefix pages go into an empty table");
  const int64_t size = static_cast<int64_t>(tokens.size());
  PrefixKey key{.version = version};
  int64_t covered = 0;
  while (covered < size) {
    // A full page first; at the end of what is known, the longest part of a page.
    const PrefixNode* node = nullptr;
    int64_t length = std::min(page_tokens_, size - covered);
    for (; length > 0; --length) {
      node = FindPrefix(key, table.prefix_node, tokens.subspan(covered, length));
      if (node != nullptr) break;
    }
    if (node == nullptr) break;
    Hold(node->page);
    table.pages.push_back(node->page);
    covered += length;
    if (length < page_tokens_ || covered >= size)
      break;  // the last position is written again, so its page is not settled
    table.prefix_node = node->id;
    ++table.prefix_pages;
  }
  return std::min(covered, size - 1);
}

bool BlockManager::Reserve(PageTable& table, int64_t begin, int64_t end, std::vector<PageCopy>& copies) {
  const int64_t have = static_cast<int64_t>(table.pages.size());
  const int64_t first = begin / page_tokens_;
  TROUPE_CHECK(first >= table.prefix_pages, "a settled page is not written again");
  const int64_t need = (end + page_tokens_ - 1) / page_tokens_;
  int64_t wanted = std::max<int64_t>(need - have, 0);
  for (int64_t i = first; i < std::min(have, need); ++i) wanted += pages_[table.pages[i]].references > 1;
  if (wanted > free_pages_) return false;

  for (int64_t i = first; i < std::min(have, need); ++i) {
    int32_t& page = table.pages[i];
    if (pages_[page].references > 1) {
      const int32_t copy = TakeFree();
      copies.push_back({page, copy});
      Drop(page);
      page = copy;
    } else {
      Forget(page, std::max<int64_t>(begin - i * page_tokens_, 0));  // what stands behind `begin` is overwritten
    }
  }
  while (static_cast<int64_t>(table.pages.size()) < need) table.pages.push_back(TakeFree());
  return true;
}

void BlockManager::Share(const PageTable& parent, PageTable& child) {
  TROUPE_CHECK(child.pages.empty(), "a table that holds pages cannot share another's");
  child = parent;
  for (int32_t page : child.pages) Hold(page);
}

void BlockManager::Publish(PageTable& table, std::span<const int32_t> tokens, int64_t computed,
                           const ModelVersion& version, bool with_tail) {
  if (!table.cacheable) return;
  PrefixKey key{.version = version};
  while ((table.prefix_pages + 1) * page_tokens_ <= computed) {
    const std::span<const int32_t> page_span = tokens.subspan(table.prefix_pages * page_tokens_, page_tokens_);
    const PrefixNode* node = FindPrefix(key, table.prefix_node, page_span);
    table.prefix_node = node != nullptr ? node->id : AddPrefix(std::move(key), table.pages[table.prefix_pages]);
    key = {.version = version};
    ++table.prefix_pages;
  }
  const int64_t covered = table.prefix_pages * page_tokens_;
  if (!with_tail || covered >= computed) return;
  if (FindPrefix(key, table.prefix_node, tokens.subspan(covered, computed - covered)) == nullptr) {
    AddPrefix(std::move(key), table.pages[table.prefix_pages]);
  }
}

void BlockManager::Release(PageTable& table) {
  // The last pages first: they are given out again before the pages that others are more likely to share.
  for (auto page = table.pages.rbegin(); page != table.pages.rend(); ++page) Drop(*page);
  table = PageTable();
}

void BlockManager::ForgetPrefixes() {
  prefixes_.clear();
  for (Page& page : pages_) page.keys.clear();
}

void BlockManager::CheckInvariants(std::span<const PageTable* const> tables) const {
  std::vector<int32_t> held(pages_.size(), 0);
  for (const PageTable* table : tables) {
    for (int32_t page : table->pages) ++held[page];
  }
  std::vector<bool> free(pages_.size(), false);
  int64_t free_count = 0;
  for (int32_t page = first_free_; page >= 0; page = pages_[page].next_free, ++free_count) free[page] = true;
  TROUPE_CHECK(free_count == free_pages_, "KV-2: the free list's length is free_pages");
  size_t entries = 0;
  for (size_t page = 0; page < pages_.size(); ++page) {
    TROUPE_CHECK(pages_[page].references == held[page], "KV-1: a page's count is the number of tables that list it");
    TROUPE_CHECK(free[page] == (pages_[page].references == 0), "KV-2: a page is free iff its count is zero");
    for (const PrefixKey& key : pages_[page].keys) {
      const auto found = prefixes_.find(key);
      TROUPE_CHECK(found != prefixes_.end() && found->second.page == static_cast<int32_t>(page),
                   "KV-3: an entry of the cache names a page that lists it");
    }
    entries += pages_[page].keys.size();
  }
  TROUPE_CHECK(entries == prefixes_.size(), "KV-3: an entry of the cache names a page that lists it");
}

size_t BlockManager::PrefixKeyHash::operator()(const PrefixKey& key) const {
  uint64_t hash = 0xCBF29CE484222325;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  };
  mix(static_cast<uint64_t>(key.version.attempt));
  mix(static_cast<uint64_t>(key.version.step));
  mix(key.parent);
  for (int32_t token : key.tokens) mix(static_cast<uint64_t>(token));
  return hash;
}

int32_t BlockManager::TakeFree() {
  TROUPE_CHECK(first_free_ >= 0, "a page is taken only after free_pages was asked");
  const int32_t page = first_free_;
  Forget(page, 0);
  Hold(page);
  return page;
}

void BlockManager::Hold(int32_t page) {
  if (pages_[page].references++ == 0) UnlinkFree(page);
}

void BlockManager::Drop(int32_t page) {
  TROUPE_CHECK(pages_[page].references > 0, "KV-1: a page's count is the number of tables that list it");
  if (--pages_[page].references == 0) PushFree(page);
}

void BlockManager::PushFree(int32_t page) {
  pages_[page].previous_free = last_free_;
  pages_[page].next_free = -1;
  (last_free_ >= 0 ? pages_[last_free_].next_free : first_free_) = page;
  last_free_ = page;
  ++free_pages_;
}

void BlockManager::UnlinkFree(int32_t page) {
  const int32_t previous = pages_[page].previous_free;
  const int32_t next = pages_[page].next_free;
  (previous >= 0 ? pages_[previous].next_free : first_free_) = next;
  (next >= 0 ? pages_[next].previous_free : last_free_) = previous;
  --free_pages_;
}

void BlockManager::Forget(int32_t page, int64_t tokens_kept) {
  std::vector<PrefixKey>& keys = pages_[page].keys;
  std::erase_if(keys, [&](const PrefixKey& key) {
    if (static_cast<int64_t>(key.tokens.size()) <= tokens_kept) return false;
    prefixes_.erase(key);
    return true;
  });
}

const BlockManager::PrefixNode* BlockManager::FindPrefix(PrefixKey& key, uint64_t parent,
                                                         std::span<const int32_t> tokens) const {
  key.parent = parent;
  key.tokens.assign(tokens.begin(), tokens.end());
  const auto found = prefixes_.find(key);
  return found == prefixes_.end() ? nullptr : &found->second;
}

uint64_t BlockManager::AddPrefix(PrefixKey key, int32_t page) {
  const uint64_t id = next_node_++;
  prefixes_.emplace(key, PrefixNode{id, page});
  pages_[page].keys.push_back(std::move(key));
  return id;
}

}  // namespace troupe::rollout
