// SPDX-License-Identifier: Apache-2.0
// TransitScope: while one is open on a thread, who encodes a message keeps the objects that its refs name, and lets go
// of them when they have arrived. Without one the store keeps them for a while (ObjectStore::kTransitMax).
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace troupe {

class ObjectEntry;
using ObjectHandle = std::shared_ptr<ObjectEntry>;  // object_store.h

class TransitScope {
 public:
  TransitScope() : outer_(current_) { current_ = this; }
  ~TransitScope() { current_ = outer_; }
  TransitScope(const TransitScope&) = delete;
  TransitScope& operator=(const TransitScope&) = delete;

  // Null: none is open.
  static TransitScope* Current() { return current_; }
  void Keep(ObjectHandle handle) { kept_.push_back(std::move(handle)); }
  std::vector<ObjectHandle> Take() { return std::move(kept_); }

 private:
  inline static thread_local TransitScope* current_ = nullptr;
  TransitScope* const outer_;
  std::vector<ObjectHandle> kept_;
};

}  // namespace troupe
