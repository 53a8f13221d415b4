// SPDX-License-Identifier: Apache-2.0
// How many threads LibTorch may use in this process; behind a header of its own, since its headers are slow to compile.
#pragma once

namespace troupe {

// Once, before the first computation.
void SetIntraOpThreads(int threads);

}  // namespace troupe
