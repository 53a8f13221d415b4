// SPDX-License-Identifier: Apache-2.0
// Makes Functions() complete. Those that stand for a registry of the product are added here, after every static
// initialiser has run; the others register themselves.
#pragma once

namespace troupe::golden {

void RegisterFunctions();

}  // namespace troupe::golden
