// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/callback.h"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace troupe {
namespace {

using Length = Callback<size_t(std::string)>;

TEST_CASE("Callback: calls what it was made of, copied and moved, small and large", "[callback]") {
  auto shared = std::make_shared<std::string>("shared");
  std::array<char, 200> large{};
  large[0] = 'x';
  for (const Length& made : {Length([shared](const std::string& text) { return text.size() + shared->size(); }),
                             Length([shared, large](const std::string& text) {
                               return text.size() + shared->size() + (large[0] == 'x' ? 0 : 1);
                             })}) {
    Length copy = made;
    Length moved = std::move(copy);
    CHECK_FALSE(copy);  // NOLINT: what it is after a move is the point.
    CHECK(made("ab") == 8);
    CHECK(moved(std::string(100, 'x')) == 106);
    moved = nullptr;
    CHECK_FALSE(moved);
    moved = made;
    CHECK(moved("") == 6);
  }
  CHECK(shared.use_count() == 1);  // Nothing is kept.
}

TEST_CASE("Callback: passes on what can only be moved, and keeps a state of its own", "[callback]") {
  Callback<int(std::unique_ptr<int>)> take = [calls = 0](std::unique_ptr<int> value) mutable {
    return *value + calls++;
  };
  CHECK(take(std::make_unique<int>(5)) == 5);
  CHECK(take(std::make_unique<int>(5)) == 6);
  Callback<int(std::unique_ptr<int>)> copy = take;
  CHECK(copy(std::make_unique<int>(5)) == 7);
  CHECK(take(std::make_unique<int>(5)) == 7);
  CHECK_FALSE(Callback<void()>());
}

}  // namespace
}  // namespace troupe
