#include "hw/validate/validation_profile.hpp"

#include <algorithm>

#include "hw/codec/codec.hpp"
#include "models/input_error.hpp"

namespace moelab {

DeviceProfile cpu_side(const DeviceProfile& device, std::vector<std::string>& notes) {
  DeviceProfile cpu = device;
  if (!device.gpu) return cpu;
  const CpuProfile& c = device.cpu;
  if (!c.recover || !c.peak || !c.bandwidth || !c.dense_launch)
    throw InputError(device.name,
                     "has a 'gpu' section, and not all that the CPU needs to be predicted, which is what "
                     "runs are done on here: cpu.recover, cpu.peak, cpu.bandwidth and cpu.dense_launch");
  cpu.gpu.reset();
  cpu.memory.bandwidth.reset();
  notes.push_back("the profile's GPU is left aside: runs are done on the CPU");
  return cpu;
}

bool has_measured_experts(const DeviceProfile& device, const Architecture& model) {
  const FeedForward& ff = model.moe();
  return std::any_of(device.cpu.experts.begin(), device.cpu.experts.end(), [&](const CpuExperts& e) {
    return e.hidden == model.hidden && e.width == ff.width && e.matrices == ff.matrices;
  });
}

void leave_out_dense(DeviceProfile& device, const Architecture& model) {
  if (!has_measured_experts(device, model))
    throw InputError(device.name, "has no time of experts of model '" + model.name +
                                      "' (cpu.experts), which would be predicted by the same roofline as "
                                      "the dense parts: without those there is nothing to compare");
  device.cpu.peak->value = FlopsPerSecond(1e30);
  device.cpu.bandwidth->value = BytesPerSecond(1e30);
  device.cpu.dense_launch->value = Seconds(0);
}

std::string codec_in_profile(const DeviceProfile& device, const std::string& codec) {
  if (device.codecs.contains(codec)) return codec;
  const std::string full = find_codec(codec)->name();
  if (device.codecs.contains(full)) return full;
  std::vector<std::string> known;
  for (const auto& [name, profile] : device.codecs) {
    known.push_back(name);
    // A profile's plain name means the usual level; ours may name that level.
    if (full.starts_with(name + "-") && find_codec(name)->name() == full) return name;
  }
  throw InputError(device.name, "has no speed of codec '" + codec + "'" + suggestion(codec, known));
}

}  // namespace moelab
