// SPDX-License-Identifier: Apache-2.0
// CallRoutes: the routes that this process' calls take, each made once. Pure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "runtime/transport/envelope.h"

namespace troupe {

class CallRoutes {
 public:
  // What is forgotten is made again.
  static constexpr size_t kRoutesMax = 4096;

  std::shared_ptr<const CallRoute> Get(const ActorLife& target, std::string_view method) {
    auto found = routes_.find(Key{target, method});
    if (found != routes_.end()) return *found;
    if (routes_.size() >= kRoutesMax) routes_.clear();
    return *routes_.insert(std::make_shared<const CallRoute>(CallRoute{target, std::string(method)})).first;
  }

 private:
  struct Key {
    const ActorLife& target;
    std::string_view method;
  };
  static Key KeyOf(const Key& key) { return key; }
  static Key KeyOf(const std::shared_ptr<const CallRoute>& route) { return {route->target, route->method}; }
  struct Hash {
    using is_transparent = void;
    template <typename T>
    size_t operator()(const T& of) const {
      Key key = KeyOf(of);
      return absl::HashOf(key.target.path.role, key.target.path.replica, key.target.incarnation,
                          std::hash<std::string_view>()(key.method));
    }
  };
  struct Same {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      Key first = KeyOf(a), second = KeyOf(b);
      return first.method == second.method && first.target == second.target;
    }
  };
  absl::flat_hash_set<std::shared_ptr<const CallRoute>, Hash, Same> routes_;
};

}  // namespace troupe
