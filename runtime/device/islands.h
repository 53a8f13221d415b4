// SPDX-License-Identifier: Apache-2.0
// Islands: which devices of a node reach each other by fast links.
#pragma once

#include <string>
#include <vector>

namespace troupe::device {

// One end of a fast link that is up: the device, and what is at the other end: another device's name, or a switch's.
struct FastLink {
  int device = 0;
  std::string peer;
};

// The connected components of `links` over the devices called `names`, numbered from 0 in the order of their first
// device; -1 for a device that no link joins to another one. Links of devices that are not there do not count. Pure.
std::vector<int> Islands(const std::vector<std::string>& names, const std::vector<FastLink>& links);

}  // namespace troupe::device
