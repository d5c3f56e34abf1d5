// A discrete GPU played by the CPU: memory of its own is a second region of this machine's, transfers are
// copies between the two, and what it computes the CPU does. So whatever moves experts between a GPU and its
// host runs, and can be compared with the simulator, where there is no GPU (DeviceProfile::has_stand_in).
#pragma once

#include "hw/executor/buffer_pool.hpp"
#include "hw/executor/cpu_device.hpp"

namespace moelab {

class StandInDevice final : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  MemorySource* memory() override { return &memory_; }

 private:
  HostMemory memory_;
};

}  // namespace moelab
