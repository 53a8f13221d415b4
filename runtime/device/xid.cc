// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/xid.h"

#include <algorithm>
#include <iterator>

#include "runtime/device/device_source.h"

namespace troupe::device {
namespace {

// By number. What the catalog answers with RESTART_APP or IGNORE is the program's; with RESET_GPU, RESTART_BM or
// CONTACT_SUPPORT the device's.
constexpr Xid kXids[] = {
    {8, XidFault::kProgram, "the GPU stopped processing"},
    {13, XidFault::kProgram, "an exception of the graphics engine"},
    {31, XidFault::kProgram, "a fault of the GPU's memory management: an address that is not mapped"},
    {32, XidFault::kProgram, "a corrupted push buffer"},
    {37, XidFault::kProgram, "an error of the driver's memory manager in a program"},
    {43, XidFault::kProgram, "the GPU stopped a program's channel"},
    {45, XidFault::kProgram, "a program's channels were removed, after another error or at its end"},
    {46, XidFault::kDevice, "the GPU stopped processing and does not answer"},
    {48, XidFault::kDevice, "an uncorrectable memory error (double bit)"},
    {54, XidFault::kDevice, "the auxiliary power is not connected"},
    {61, XidFault::kDevice, "the power microcontroller stopped at a breakpoint"},
    {62, XidFault::kDevice, "the power microcontroller halted"},
    {63, XidFault::kWarning, "a memory row was remapped (or a page retired): a reset puts it in force"},
    {64, XidFault::kDevice, "a memory row could not be remapped (or a page retired)"},
    {68, XidFault::kProgram, "an exception of the video engine"},
    {69, XidFault::kProgram, "an exception of a graphics class"},
    {72, XidFault::kProgram, "a fault of the copy engine"},
    {74, XidFault::kDevice, "an NVLink error"},
    {78, XidFault::kDevice, "the virtual GPU did not start"},
    {79, XidFault::kDevice, "the GPU has fallen off the bus"},
    {80, XidFault::kProgram, "corrupted data was sent to the GPU"},
    {92, XidFault::kWarning, "a high rate of corrected memory errors (single bit)"},
    {94, XidFault::kDevice, "a contained uncorrectable memory error"},
    {95, XidFault::kDevice, "an uncontained uncorrectable memory error"},
    {109, XidFault::kProgram, "a context switch timed out"},
    {110, XidFault::kDevice, "a security fault"},
    {119, XidFault::kDevice, "the GPU's system processor (GSP) does not answer"},
    {120, XidFault::kDevice, "an error of the GPU's system processor (GSP)"},
    {121, XidFault::kDevice, "an error of the chip-to-chip link"},
    {122, XidFault::kDevice, "an error of the serial bus to the flash memory"},
    {123, XidFault::kDevice, "the power management unit does not answer"},
    {136, XidFault::kDevice, "the link training failed"},
    {137, XidFault::kProgram, "a fault over NVLink: a program's access was refused by a peer"},
    {140, XidFault::kDevice, "an uncorrectable error of the memory that was not recovered"},
    {143, XidFault::kDevice, "the GPU could not be initialised"},
    {144, XidFault::kDevice, "an error of the NVLink's control unit (SAW)"},
    {145, XidFault::kDevice, "an error of the NVLink's receiver (RLW)"},
    {146, XidFault::kDevice, "an error of the NVLink's sender (TLW)"},
    {147, XidFault::kDevice, "an error of the NVLink's transport (TREX)"},
    {148, XidFault::kDevice, "an error of the NVLink's unicast (NVLPW)"},
    {149, XidFault::kDevice, "an error of the NVLink (NETIR)"},
    {150, XidFault::kDevice, "an error of the NVLink's switching (MSE)"},
    {151, XidFault::kDevice, "a key rotation failed"},
    {155, XidFault::kDevice, "the NVLink's software-defined state failed"},
    {156, XidFault::kDevice, "a resource was retired"},
    {158, XidFault::kDevice, "the GPU entered a fatal state and must be reset"},
};

static_assert(std::is_sorted(std::begin(kXids), std::end(kXids),
                             [](const Xid& a, const Xid& b) { return a.number < b.number; }));

}  // namespace

Xid XidOf(uint64_t number) {
  auto found = std::find_if(std::begin(kXids), std::end(kXids),
                            [&](const Xid& xid) { return static_cast<uint64_t>(xid.number) == number; });
  if (found != std::end(kXids)) return *found;
  return {static_cast<int>(std::min<uint64_t>(number, 1'000'000)), XidFault::kUnknown,
          "not in the table of known ones"};
}

v1::DeviceHealth HealthAfterXid(uint64_t number) {
  const Xid xid = XidOf(number);
  const std::string text = "Xid " + std::to_string(xid.number) + ": " + xid.what;
  switch (xid.fault) {
    case XidFault::kDevice:
      return Failed(text);
    case XidFault::kWarning:
      return Degraded(text);
    default:
      return Healthy();
  }
}

}  // namespace troupe::device
