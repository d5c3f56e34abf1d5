// How far predictions were from what others measured, by what a step is made of: the one place that says it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace moelab {

/// What a way of serving is like, as experiments/world groups its rows.
enum class AdviceGroup : std::uint8_t { one_gpu, experts_on_cpu, unified, cpu_only, several_gpus };

/// As a share: nine in ten measured speeds lie between the predicted one over and times (1 + error).
struct AdviceError {
  AdviceGroup group;
  std::string_view name;  // as in the table of experiments/world
  double decode, prefill;
};

/// From the table in experiments/world/README.md, its column "nine in ten": predictions with constants fitted
/// to other sources, of all versions of a runtime.
inline constexpr std::array<AdviceError, 5> kAdviceErrors{
    {{AdviceGroup::one_gpu, "one GPU", 0.69, 0.72},
     {AdviceGroup::experts_on_cpu, "experts on the CPU", 0.66, 2.04},
     {AdviceGroup::unified, "unified memory", 0.56, 1.34},
     {AdviceGroup::cpu_only, "CPU only", 0.48, 1.14},
     {AdviceGroup::several_gpus, "several GPUs", 1.01, 2.68}}};

constexpr const AdviceError& error_of(AdviceGroup group) {
  for (const AdviceError& error : kAdviceErrors)
    if (error.group == group) return error;
  return kAdviceErrors.front();
}

}  // namespace moelab
