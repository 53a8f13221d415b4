// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of a device on the PCI bus, and which processors are near it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::device {

// "00000000:1B:00.0" and "1b:00.0" as the kernel writes it: "0000:1b:00.0"; "" when it is no address. Pure.
std::string PciAddress(std::string_view text);

// The NUMA node of the device at `address`; -1: not known. `sys`: "/sys".
int NumaNodeOfPci(const std::string& sys, const std::string& address);

// The processors of a NUMA node; empty: not known.
std::vector<int> CpusOfNumaNode(const std::string& sys, int node);

}  // namespace troupe::device
