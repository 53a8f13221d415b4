// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/small_pool.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace troupe {
namespace {

TEST_CASE("SmallPool: blocks that are held at once do not overlap, of any size", "[pool]") {
  for (size_t bytes : {size_t{1}, size_t{64}, size_t{65}, size_t{500}, size_t{1024}, size_t{5000}}) {
    std::vector<char*> blocks;
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(static_cast<char*>(SmallPool::Take(bytes)));
      std::memset(blocks.back(), i, bytes);
    }
    for (int i = 0; i < 100; ++i) {
      for (size_t at : {size_t{0}, bytes - 1}) REQUIRE(blocks[static_cast<size_t>(i)][at] == static_cast<char>(i));
    }
    for (char* block : blocks) SmallPool::Give(block, bytes);
  }
}

TEST_CASE("SmallPool: what one thread makes and another ends goes round, and none is given twice", "[pool]") {
  constexpr size_t kBytes = 200, kRound = 5000;
  std::set<void*> all;
  for (int round = 0; round < 10; ++round) {
    std::vector<void*> blocks;
    for (size_t i = 0; i < kRound; ++i) blocks.push_back(SmallPool::Take(kBytes));
    CHECK(std::set<void*>(blocks.begin(), blocks.end()).size() == kRound);
    all.insert(blocks.begin(), blocks.end());
    std::thread([&blocks] {
      for (void* block : blocks) SmallPool::Give(block, kBytes);
    }).join();
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(all.size() < 3 * kRound);
#endif
}

TEST_CASE("SmallPool: a thread takes and gives while it ends", "[pool]") {
  static int ended = 0;
  struct Late {
    ~Late() {
      SmallPool::Give(std::memset(SmallPool::Take(100), 1, 100), 100);
      ++ended;
    }
  };
  for (int i = 0; i < 20; ++i) {
    std::thread([] {
      thread_local Late late;
      (void)&late;
      SmallPool::Give(SmallPool::Take(100), 100);
    }).join();
  }
  CHECK(ended == 20);
}

}  // namespace
}  // namespace troupe
