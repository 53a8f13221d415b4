// SPDX-License-Identifier: Apache-2.0
// troupe_keeper: the parent of a node's workers. Started by the node agent, never by hand.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/status.h"
#include "runtime/keeper/keeper.h"
#include "runtime/keeper/packets.h"

namespace {

constexpr char kUsage[] =
    "usage: troupe_keeper --runtime-dir DIR [--first-agent-grace-ms N] [--no-cgroups]\n"
    "The parent of a node's workers; the node agent starts it.\n"
    "example: troupe_keeper --runtime-dir /run/user/1000/troupe-1000/node\n";

// False when the arguments are wrong.
bool Parse(int argc, char** argv, troupe::keeper::KeeperOptions& options) {
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    bool has_value = i + 1 < argc;
    if (name == "--runtime-dir" && has_value) {
      options.runtime_dir = argv[++i];
    } else if (name == "--first-agent-grace-ms" && has_value) {
      options.first_agent_grace = absl::Milliseconds(std::atoll(argv[++i]));
    } else if (name == "--no-cgroups") {
      options.use_cgroups = false;
    } else {
      return false;
    }
  }
  return !options.runtime_dir.empty() && options.runtime_dir[0] == '/';
}

}  // namespace

int main(int argc, char** argv) {
  troupe::keeper::KeeperOptions options;
  if (!Parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // Whatever the agent had open is not ours to keep.
  ::syscall(SYS_close_range, 3, ~0U, 0);
  absl::Status status = troupe::keeper::RunKeeper(options);
  if (!status.ok()) {
    std::fprintf(stderr, "troupe_keeper: %s\n", troupe::StatusText(status).c_str());
    return absl::IsAlreadyExists(status) ? troupe::keeper::kFolderTakenExit : 1;
  }
  return 0;
}
