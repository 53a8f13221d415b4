// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/block_manager.h"

#include <vector>

#include "catch2/catch.hpp"

namespace troupe::rollout {
namespace {

constexpr ModelVersion kVersion{.attempt = 0, .step = 1};

std::vector<int32_t> Tokens(int32_t begin, int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(begin + i);
  return tokens;
}

// Takes pages for all of `tokens`, as if they were computed and then offered to the cache.
PageTable Compute(BlockManager& blocks, const std::vector<int32_t>& tokens, bool with_tail = true) {
  PageTable table;
  std::vector<PageCopy> copies;
  REQUIRE(blocks.Reserve(table, 0, tokens.size(), copies));
  REQUIRE(copies.empty());
  blocks.Publish(table, tokens, tokens.size(), kVersion, with_tail);
  return table;
}

}  // namespace

TEST_CASE("BlockManager: pages are given out and come back", "[block_manager]") {
  BlockManager blocks(4, 8);
  PageTable table;
  std::vector<PageCopy> copies;
  CHECK(blocks.Reserve(table, 0, 17, copies));
  CHECK(table.pages.size() == 3);
  CHECK(blocks.free_pages() == 1);
  CHECK_FALSE(blocks.Reserve(table, 17, 33, copies));
  CHECK(table.pages.size() == 3);
  blocks.Release(table);
  CHECK(blocks.free_pages() == 4);
  blocks.CheckInvariants({});
}

TEST_CASE("BlockManager: a shared page is copied before it is written, by all but the last", "[block_manager]") {
  BlockManager blocks(8, 8);
  PageTable first = Compute(blocks, Tokens(0, 12));
  PageTable second;
  blocks.Share(first, second);
  CHECK(second.pages == first.pages);
  std::vector<PageCopy> copies;
  REQUIRE(blocks.Reserve(first, 12, 13, copies));
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from == second.pages[1]);
  CHECK(copies[0].to == first.pages[1]);
  REQUIRE(blocks.Reserve(second, 12, 13, copies));
  CHECK(copies.size() == 1);
  CHECK(first.pages[0] == second.pages[0]);
  const PageTable* tables[] = {&first, &second};
  blocks.CheckInvariants(tables);
}

TEST_CASE("BlockManager: a known prefix is found, but its last position is left to compute", "[block_manager]") {
  BlockManager blocks(8, 8);
  PageTable first = Compute(blocks, Tokens(0, 20));
  PageTable same, longer, other;
  CHECK(blocks.Attach(same, Tokens(0, 20), kVersion) == 19);
  CHECK(same.pages == first.pages);
  CHECK(blocks.Attach(longer, Tokens(0, 40), kVersion) == 20);
  CHECK(blocks.Attach(other, Tokens(1, 20), kVersion) == 0);
  blocks.Release(same);
  blocks.Release(longer);
  CHECK(blocks.Attach(same, Tokens(0, 16), kVersion) == 15);  // ends with a full page
  CHECK(same.pages.size() == 2);
}

TEST_CASE("BlockManager: a prefix is not served under another version", "[block_manager]") {
  BlockManager blocks(8, 8);  // lmdeploy#4917
  PageTable first = Compute(blocks, Tokens(0, 20));
  PageTable table;
  CHECK(blocks.Attach(table, Tokens(0, 20), {.attempt = 0, .step = 2}) == 0);
  CHECK(blocks.Attach(table, Tokens(0, 20), {.attempt = 1, .step = 1}) == 0);
}

TEST_CASE("BlockManager: freed pages are found until they are given out again", "[block_manager]") {
  BlockManager blocks(4, 8);
  PageTable first = Compute(blocks, Tokens(0, 20));
  blocks.Release(first);
  CHECK(blocks.free_pages() == 4);
  PageTable again;
  CHECK(blocks.Attach(again, Tokens(0, 20), kVersion) == 19);
  blocks.Release(again);
  PageTable other = Compute(blocks, Tokens(100, 32));
  blocks.Release(other);
  CHECK(blocks.Attach(again, Tokens(0, 20), kVersion) == 0);
  blocks.CheckInvariants({});
}

TEST_CASE("BlockManager: writing behind a known tail takes back what stood there", "[block_manager]") {
  BlockManager blocks(4, 8);
  PageTable first = Compute(blocks, Tokens(0, 12));  // a tail of 4
  std::vector<PageCopy> copies;
  REQUIRE(blocks.Reserve(first, 12, 16, copies));
  blocks.Publish(first, Tokens(0, 16), 16, kVersion, false);  // and the page filled up
  blocks.Release(first);

  PageTable second;
  std::vector<int32_t> tokens = Tokens(0, 12);
  tokens.push_back(99);
  CHECK(blocks.Attach(second, tokens, kVersion) == 12);
  REQUIRE(blocks.Reserve(second, 12, 13, copies));  // in place: nobody else holds it
  CHECK(copies.empty());
  PageTable third;
  CHECK(blocks.Attach(third, Tokens(0, 20), kVersion) == 12);  // not 16: the filled page is no longer what it was
  const PageTable* tables[] = {&second, &third};
  blocks.CheckInvariants(tables);
}

TEST_CASE("BlockManager: what is not cacheable stays out of the cache", "[block_manager]") {
  BlockManager blocks(4, 8);
  PageTable mixed;
  mixed.cacheable = false;
  std::vector<PageCopy> copies;
  REQUIRE(blocks.Reserve(mixed, 0, 16, copies));
  blocks.Publish(mixed, Tokens(0, 16), 16, kVersion, true);
  PageTable table;
  CHECK(blocks.Attach(table, Tokens(0, 16), kVersion) == 0);
}

}  // namespace troupe::rollout
