#include "hw/codec/cpu_features.hpp"

namespace moelab {
namespace {

CpuFeatures detect() {
  CpuFeatures found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  found.avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
  found.fma = found.avx2 && __builtin_cpu_supports("fma");
  found.avx512f = found.fma && __builtin_cpu_supports("avx512f");
  found.avx512_vbmi2 = found.avx512f && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
  found.neon = true;
#endif
  return found;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures found = detect();
  return found;
}

}  // namespace moelab
