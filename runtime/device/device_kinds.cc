// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_kinds.h"

#include <algorithm>

#include "runtime/device/cuda_source.h"
#include "runtime/device/rocm_source.h"
#include "runtime/device/tool_source.h"

namespace troupe::device {

// Sources of the variables:
//   CUDA_VISIBLE_DEVICES: NVIDIA, "CUDA C++ programming guide", environment variables; T-Head's runtime reads it too.
//   ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES: AMD, "GPU isolation techniques"; HIP counts within what ROCR left.
//   ASCEND_RT_VISIBLE_DEVICES: Huawei, CANN "environment variables".
//   XPU_VISIBLE_DEVICES: Kunlunxin's runtime (PaddlePaddle, FastDeploy); its PyTorch plugins read CUDA_VISIBLE_DEVICES.
// A PPU's software may bring an NVML of its own, so it is looked for before NVIDIA.
const std::vector<DeviceKind>& DeviceKinds() {
  static const auto& kinds = *new std::vector<DeviceKind>{
      {"ppu",
       "T-Head",
       "`ppu-smi --query-gpu=...`",
       {{"CUDA_VISIBLE_DEVICES", VisibleForm::kNames}},
       "still listed by ppu-smi",
       FindPpuDevices},
      {"cuda",
       "NVIDIA",
       "NVML (`libnvidia-ml.so.1`, loaded at run time); without it `/dev/nvidia0`, ...",
       {{"CUDA_VISIBLE_DEVICES", VisibleForm::kNames}},
       "Xids, uncorrected memory errors, row remapping, throttling, a GPU that is lost",
       FindCudaDevices},
      {"rocm",
       "AMD",
       "`/sys/class/kfd` and `/sys/class/drm`",
       {{"ROCR_VISIBLE_DEVICES", VisibleForm::kNames}, {"HIP_VISIBLE_DEVICES", VisibleForm::kPositions}},
       "error counters (RAS), files that are gone",
       FindRocmDevices},
      {"ascend",
       "Huawei",
       "`npu-smi info`; without it `/dev/davinci0`, ...",
       {{"ASCEND_RT_VISIBLE_DEVICES", VisibleForm::kNames}},
       "the health that npu-smi shows",
       FindAscendDevices},
      {"kunlun",
       "Kunlunxin",
       "`xpu-smi -m`",
       {{"XPU_VISIBLE_DEVICES", VisibleForm::kNames}, {"CUDA_VISIBLE_DEVICES", VisibleForm::kSame}},
       "still listed by xpu-smi",
       FindKunlunDevices},
      {"sim",
       "none",
       "`--devices sim:N`",
       {{"TROUPE_SIM_DEVICES", VisibleForm::kNames}},
       "the file `sim_devices` in the node's runtime folder",
       nullptr},
  };
  return kinds;
}

const DeviceKind* FindDeviceKind(std::string_view name) {
  const std::vector<DeviceKind>& kinds = DeviceKinds();
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](const DeviceKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string DeviceKindNames() {
  std::string names;
  for (const DeviceKind& kind : DeviceKinds()) names += (names.empty() ? "" : ", ") + kind.name;
  return names;
}

}  // namespace troupe::device
