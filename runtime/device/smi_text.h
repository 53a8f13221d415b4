// SPDX-License-Identifier: Apache-2.0
// What the vendors' tools print, read. Pure; text of any kind and length is taken, lines that are no device's are
// passed over.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// `npu-smi info`: two lines a chip, the first with its name and health, the second with its bus address and memory.
// Source: Huawei, "npu-smi command reference", info
// (https://www.hiascend.com/document/detail/zh/Atlas%20200I%20A2/2520/re/npu/npusmi_007.html).
std::vector<FoundDevice> ParseNpuSmi(std::string_view text);

// `xpu-smi -m` (Kunlunxin's, not Intel's): one line a device of fields between spaces: PCI address, board, device,
// serial number, ...; the 18th and 19th are the memory used and in all, in MiB; the model stands between quotes.
std::vector<FoundDevice> ParseXpuSmi(std::string_view text);

// `ppu-smi --query-gpu=index,uuid,name,pci.bus_id,memory.total --format=csv,noheader,nounits`; memory in MiB.
// Source: T-Head, "SAIL PPU-SMI manual" (SDK 2.1.1), sections 3.2 and 3.2.1.
std::vector<FoundDevice> ParsePpuSmi(std::string_view text);

}  // namespace troupe::device
