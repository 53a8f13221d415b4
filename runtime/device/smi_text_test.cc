// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/smi_text.h"

#include <catch2/catch.hpp>

namespace troupe::device {
namespace {

constexpr int64_t kMiB = 1 << 20;

// As the manual shows it, of a card with high-bandwidth memory and of one without.
constexpr char kNpuSmi[] =
    "+------------------------------------------------------------------------------------------------+\n"
    "| npu-smi 23.0.5                   Version: 23.0.5                                               |\n"
    "+---------------------------+---------------+----------------------------------------------------+\n"
    "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
    "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
    "+===========================+===============+====================================================+\n"
    "| 0     910B3               | OK            | 91.2        49                0    / 0             |\n"
    "| 0                         | 0000:C1:00.0  | 0           0    / 0          3372 / 65536         |\n"
    "+===========================+===============+====================================================+\n"
    "| 1     910B3               | Critical      | 90.6        48                0    / 0             |\n"
    "| 0                         | 0000:01:00.0  | 0           0    / 0          3371 / 65536         |\n"
    "+===========================+===============+====================================================+\n"
    "| 2     310B1               | Warning       | 10.4        66                15    / 15           |\n"
    "| 0     2                   | NA            | 0           957  / 10810                           |\n"
    "+===========================+===============+====================================================+\n"
    "+---------------------------+---------------+----------------------------------------------------+\n"
    "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
    "+===========================+===============+====================================================+\n"
    "| 0       0                 | 4711          | python                   | 3000                    |\n"
    "+===========================+===============+====================================================+\n";

TEST_CASE("npu-smi: chips with their names, memory, addresses and health", "[device]") {
  const std::vector<FoundDevice> found = ParseNpuSmi(kNpuSmi);
  REQUIRE(found.size() == 3);
  CHECK(found[0].device.kind() == "ascend");
  CHECK(found[0].device.model() == "Ascend 910B3");
  CHECK(found[0].device.pci_address() == "0000:c1:00.0");
  CHECK(found[0].device.memory_bytes() == 65536 * kMiB);
  CHECK(found[0].device.health().state() == v1::DeviceHealth::HEALTHY);
  CHECK(found[1].device.index() == 1);
  CHECK(found[1].visible_name == "1");
  CHECK(found[1].device.health().state() == v1::DeviceHealth::FAILED);
  CHECK(found[1].device.health().reason() == "npu-smi reports Critical");
  CHECK(found[2].device.memory_bytes() == 10810 * kMiB);
  CHECK(found[2].device.pci_address().empty());
  CHECK(found[2].device.health().state() == v1::DeviceHealth::DEGRADED);
}

TEST_CASE("xpu-smi: a line a device, with its memory and the model between quotes", "[device]") {
  const char* text =
      "0000:2b:00.0 0 0 02K05Y6237V0003R 41 -1 -1 -1 88 400 1300 1450 -1 0 0 0 0 1234 98304 17 0 \"P800 OAM\" 5.0.21\n"
      "0000:9C:00.0 1 0 02K05Y6237V0003S 40 -1 -1 -1 87 400 1300 1450 -1 0 0 0 0 0 98304 0 0 \"P800 OAM\" 5.0.21\n";
  const std::vector<FoundDevice> found = ParseXpuSmi(text);
  REQUIRE(found.size() == 2);
  CHECK(found[1].device.kind() == "kunlun");
  CHECK(found[1].device.id() == "02K05Y6237V0003S");
  CHECK(found[1].device.model() == "P800 OAM");
  CHECK(found[1].device.memory_bytes() == 98304 * kMiB);
  CHECK(found[1].device.pci_address() == "0000:9c:00.0");
  CHECK(found[1].visible_name == "1");
}

TEST_CASE("ppu-smi: lines of the values asked for", "[device]") {
  const std::vector<FoundDevice> found = ParsePpuSmi(
      "0, GPU-01ab, PPU-ZW810E, 00000000:08:00.0, 97871\n1, GPU-02ab, PPU-ZW810E, 00000000:7D:00.0, [N/A]\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].device.kind() == "ppu");
  CHECK(found[0].device.id() == "GPU-01ab");
  CHECK(found[0].device.model() == "PPU-ZW810E");
  CHECK(found[0].device.memory_bytes() == 97871 * kMiB);
  CHECK(found[1].device.pci_address() == "0000:7d:00.0");
  CHECK(found[1].device.memory_bytes() == 0);
}

TEST_CASE("Tools' output: what is no device is passed over, however long or odd", "[device]") {
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += std::to_string(i) + ",u,m,0000:00:00.0,99999999999999999999\n";
  const std::vector<FoundDevice> many = ParsePpuSmi(rows);
  CHECK(many.size() == kDevicesMax);
  CHECK(many[0].device.memory_bytes() == 0);
  for (const char* text : {"", "\n", "|||||", "| 0 | x |", "Usage: xpu-smi [-h]\n", "0,1,2,3,4,5,6", "-1,u,m,a,1",
                           "| 0 910B3 | OK | 1 |", "\"\"\"\" 0 0", "| 0 | 0000:01:00.0 | 0 / 9 |\n"}) {
    CAPTURE(text);
    CHECK(ParseNpuSmi(text).empty());
    CHECK(ParseXpuSmi(text).empty());
    CHECK(ParsePpuSmi(text).empty());
  }
  // Every beginning of good text is text.
  const std::string good = kNpuSmi;
  for (size_t end = 0; end < good.size(); ++end) CHECK(ParseNpuSmi(good.substr(0, end)).size() <= 3);
  CHECK(ParsePpuSmi("0,\xff\xfe,m,,1")[0].device.id() == "??");
}

}  // namespace
}  // namespace troupe::device
