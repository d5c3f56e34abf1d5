// What the processor this runs on can do, asked once: code for wider vectors is compiled into every program
// and chosen at run time.
#pragma once

namespace moelab {

struct CpuFeatures {
  bool avx2 = false;          // AVX2 with BMI1 and POPCNT
  bool fma = false;           // AVX2 as above, with FMA
  bool avx512f = false;       // AVX-512 F, with all of these
  bool avx512_vbmi2 = false;  // AVX-512 F, BW, VBMI and VBMI2 (Ice Lake, Zen 4 and later)
  bool neon = false;          // AArch64, where it is never absent
};

const CpuFeatures& cpu_features();

}  // namespace moelab
