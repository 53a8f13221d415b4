// SPDX-License-Identifier: Apache-2.0
#include "runtime/embed/embedded_cluster.h"

#include <utility>

namespace troupe {
namespace {

EmbeddedClusterFactory& Factory() {
  static auto* factory = new EmbeddedClusterFactory;  // Never destroyed: static objects of any file may use it.
  return *factory;
}

}  // namespace

bool RegisterEmbeddedCluster(EmbeddedClusterFactory factory) {
  Factory() = std::move(factory);
  return true;
}

const EmbeddedClusterFactory& RegisteredEmbeddedCluster() { return Factory(); }

}  // namespace troupe
