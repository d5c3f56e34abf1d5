#include "traces/law/best_experts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace moelab {
namespace {

constexpr std::size_t kMostCandidates = 48;

/// Candidates for the best of a row: their places, ascending, and values; room for what is found too many.
struct Candidates {
  std::uint32_t number = 0;
  alignas(32) std::array<std::uint32_t, kMostCandidates + 64> place;
  alignas(32) std::array<float, kMostCandidates + 64> value;
};

#ifdef __x86_64__

/// By eight bits, the places of those that are set, then anything.
constexpr auto kPlacesOfBits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> places{};
  for (std::uint32_t bits = 0; bits < 256; ++bits)
    for (std::uint8_t i = 0, found = 0; i < 8; ++i)
      if (bits >> i & 1) places[bits][found++] = i;
  return places;
}();

/// All values above the bar; false where there are too many.
[[gnu::target("avx2,popcnt")]] inline bool find_candidates(std::span<const float> values, float bar,
                                                           Candidates& found) {
  const __m256 least = _mm256_set1_ps(bar);
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < values.size() && number <= kMostCandidates; i += 8) {
    const __m256 eight = _mm256_loadu_ps(values.data() + i);
    const auto above =
        static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(eight, least, _CMP_GT_OQ)));
    const __m256i places =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPlacesOfBits[above].data())));
    _mm256_storeu_ps(found.value.data() + number, _mm256_permutevar8x32_ps(eight, places));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.place.data() + number),
                        _mm256_add_epi32(places, _mm256_set1_epi32(static_cast<std::int32_t>(i))));
    number += static_cast<std::uint32_t>(std::popcount(above));
  }
  found.number = number;
  return number <= kMostCandidates;
}

/// Each candidate's rank is the number of larger ones; false where two are equal.
[[gnu::target("avx2,popcnt")]] inline bool rank_candidates(Candidates& c, std::span<std::uint32_t> best) {
  alignas(32) std::array<std::int32_t, kMostCandidates + 16> rank;
  std::array<std::uint32_t, kMostCandidates + 16> place;
  std::uint32_t ranks = 0;
  for (std::uint32_t begin = 0; begin < c.number; begin += 16) {
    const __m256 a = _mm256_load_ps(c.value.data() + begin), b = _mm256_load_ps(c.value.data() + begin + 8);
    __m256i above_a = _mm256_setzero_si256(), above_b = above_a;
    for (std::uint32_t j = 0; j < c.number; ++j) {
      const __m256 other = _mm256_broadcast_ss(&c.value[j]);
      above_a = _mm256_sub_epi32(above_a, _mm256_castps_si256(_mm256_cmp_ps(other, a, _CMP_GT_OQ)));
      above_b = _mm256_sub_epi32(above_b, _mm256_castps_si256(_mm256_cmp_ps(other, b, _CMP_GT_OQ)));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(rank.data() + begin), above_a);
    _mm256_store_si256(reinterpret_cast<__m256i*>(rank.data() + begin + 8), above_b);
  }
  for (std::uint32_t i = 0; i < c.number; ++i) {
    place[static_cast<std::uint32_t>(rank[i])] = c.place[i];
    ranks += static_cast<std::uint32_t>(rank[i]);
  }
  for (std::uint32_t i = 0; i < best.size(); ++i) best[i] = place[i];
  return ranks == c.number * (c.number - 1) / 2;
}

/// True where it could tell the best; `bar` falls where it let through too few.
[[gnu::target("avx2,popcnt")]] bool choose_candidates(std::span<const float> values, float& bar,
                                                      std::span<std::uint32_t> best) {
  Candidates candidates;
  for (int i = 0; i < 4 && find_candidates(values, bar, candidates); ++i) {
    if (candidates.number >= best.size()) return rank_candidates(candidates, best);
    bar -= 0.4f;
  }
  return false;
}

bool has_wide_instructions() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
  return has;
}

#endif

}  // namespace

void RowOfBest::choose(std::span<const float> values, std::span<std::uint32_t> best) {
#ifdef __x86_64__
  if (has_wide_instructions() && best.size() <= kMostCandidates / 2) {
    float bar = bar_;
    const bool done = choose_candidates(values, bar, best);
    if (!done) best_experts(values, best);
    margin_ = std::clamp(margin_ + (bar == bar_ ? -0.005f : 0.1f), 0.0f, 8.0f);
    bar_ += 0.125f * (values[best.back()] - margin_ - bar_);
    return;
  }
#endif
  best_experts(values, best);
}

}  // namespace moelab
