// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/check.h"

namespace troupe {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t filled = 0;
  while (filled < count) {
    ssize_t got = ::getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    TROUPE_CHECK(got > 0, "the kernel gives no random bytes");
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

std::string RandomHex(size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes);
  for (unsigned char byte : RandomBytes(bytes)) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

uint64_t RandomUint64() {
  std::string bytes = RandomBytes(sizeof(uint64_t));
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace troupe
