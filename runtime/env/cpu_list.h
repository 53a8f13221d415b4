// SPDX-License-Identifier: Apache-2.0
// Processors by number, as the kernel lists them: "0-2,8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// "0-2,8" as 0, 1, 2, 8; empty when it is no such list, or names a processor beyond 8191. Pure.
std::vector<int> ParseCpuList(std::string_view text);
// The same back.
std::string CpuListText(const std::vector<int>& cpus);

// Those that this process may use; empty: not known.
std::vector<int> UsableCpus();

}  // namespace troupe
