// SPDX-License-Identifier: Apache-2.0
// A user's worker program that hosts Counter, and DeviceHolder.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "runtime/env/file.h"
#include "tests/integration/counter.h"

namespace troupe::tests {
TROUPE_ACTOR_REGISTER(Counter, TROUPE_INIT(int64_t));

// As a program with a GPU: what it starts goes on using the device when it ends. A lock on a file stands for the memory
// that it has there. It does not start while somebody else has that.
class DeviceHolder : public Actor {
 public:
  DeviceHolder() {
    const std::string devices = EnvironmentVariable("TROUPE_SIM_DEVICES");
    const int lock = ::open(("device-" + devices).c_str(), O_RDWR | O_CREAT, 0600);
    if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) throw std::runtime_error("the device is still held");
    // The child has the lock, in a session of its own, and does not end when asked.
    if (::fork() == 0) {
      ::setsid();
      ::signal(SIGTERM, SIG_IGN);
      while (true) ::pause();
    }
    ::close(lock);
  }
};
TROUPE_ACTOR(DeviceHolder, TROUPE_METHODS(), TROUPE_INIT());
}  // namespace troupe::tests

int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
