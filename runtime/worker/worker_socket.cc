// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/worker_socket.h"

#include <cstdint>
#include <filesystem>

namespace troupe {

std::string WorkerSocketPath(const std::string& agent_socket, const ActorLife& life) {
  // FNV-1a, 64 bits.
  uint64_t hash = 0xCBF29CE484222325u;
  for (unsigned char byte : life.ToString()) hash = (hash ^ byte) * 0x100000001B3u;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "w-";
  for (int shift = 60; shift >= 0; shift -= 4) name.push_back(kDigits[(hash >> shift) & 15]);
  return (std::filesystem::path(agent_socket).parent_path() / (name + ".sock")).string();
}

}  // namespace troupe
