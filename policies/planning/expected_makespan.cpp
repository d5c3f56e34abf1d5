#include "policies/planning/expected_makespan.hpp"

#include <algorithm>
#include <limits>

#include "policies/cache/experts_that_fit.hpp"

namespace moelab {

PoolSizes pool_sizes(const PlanInput& input, const std::array<double, kStates>& ratios) {
  PoolSizes sizes{};
  for (std::size_t p = 0; p < kPools; ++p)
    if (ratios[p] > 0)
      sizes[p] = experts_that_fit(ratios[p] * input.memory_bytes, expert_bytes_in_state(kAllStates[p], input),
                                  static_cast<std::uint32_t>(input.inclusion.size()));
  return sizes;
}

PoolSizes clipped(PoolSizes sizes, std::size_t experts) {
  auto left = static_cast<std::uint32_t>(experts);
  for (std::size_t p = 0; p < kPools; ++p) {
    sizes[p] = std::min(sizes[p], left);
    left -= sizes[p];
  }
  return sizes;
}

double estimated_makespan(const PlanInput& input, const PoolSizes& hits) {
  const double n = input.tensors, k = input.k, shards = input.shards;
  const double f = hits[index(State::F)], c = hits[index(State::C)], s = hits[index(State::S)],
               e = hits[index(State::E)];
  const double sm_reads = n * (k - f - c - s);
  const double e_reads = n * shards * (k - f - c - e);
  const double decompressions = n * shards * (k - f);
  return std::max(sm_reads * input.sm_read_s + e_reads * input.e_read_s,
                  (e_reads * input.e_read_s + decompressions * input.decompress_s) / input.threads);
}

ExpectedMakespan::ExpectedMakespan(const PlanInput& input)
    : sm_s_(input.tensors * input.sm_read_s),
      e_s_(input.tensors * (input.shards * input.e_read_s)),
      decompress_s_(input.tensors * (input.shards * input.decompress_s)),
      threads_(input.threads),
      model_(fit_conditional_poisson(input.inclusion, input.k)),
      inclusion_before_(input.inclusion.size() + 1),
      table_(model_.selection, input.k),
      mass_((input.k + std::size_t{1}) * (input.k + 1)),
      moment_(mass_.size()) {
  for (std::size_t r = 0; r < input.inclusion.size(); ++r)
    inclusion_before_[r + 1] = inclusion_before_[r] + model_.inclusion[r];
}

ExpectedMakespan::Times ExpectedMakespan::expected_times(const PoolSizes& sizes) const {
  std::array<double, kPools> hits{};  // expected
  std::uint32_t rank = 0;
  for (std::size_t p = 0; p < kPools; ++p) {
    hits[p] = inclusion_before_[rank + sizes[p]] - inclusion_before_[rank];
    rank += sizes[p];
  }
  const double not_f = model_.k - hits[0];
  const double e_reads = (not_f - hits[1] - hits[3]) * e_s_;
  return {(not_f - hits[1] - hits[2]) * sm_s_ + e_reads, (e_reads + not_f * decompress_s_) / threads_};
}

double ExpectedMakespan::lower_bound(const PoolSizes& sizes) const {
  const Times expected = expected_times(sizes);
  return std::max(expected.io_s, expected.decompress_s);
}

void ExpectedMakespan::sum_over_e(const double* in_e, const double* missed) {
  const std::size_t width = model_.k + std::size_t{1};
  for (std::uint32_t r = 0; r <= model_.k; ++r) {
    double mass = 0, moment = 0;
    for (std::uint32_t e = 0; e <= r; ++e) {
      const double p = in_e[e] * missed[r - e];
      mass_[r * width + e] = mass += p;
      moment_[r * width + e] = moment += p * e;
    }
  }
}

double ExpectedMakespan::cost(const PoolSizes& sizes) {
  std::array<const double*, kPools> phi{};
  std::uint32_t rank = 0;
  for (std::size_t p = 0; p < kPools; ++p) {
    phi[p] = table_.hits(rank, rank + sizes[p]);
    rank += sizes[p];
  }
  const auto experts = static_cast<std::uint32_t>(model_.selection.size());
  sum_over_e(phi[3], table_.hits(rank, experts));

  const std::uint32_t k = model_.k;
  const double slope = e_s_ - e_s_ / threads_;  // by which one hit in E lowers T_IO - T_decomp
  const double per_slope = slope > 0 ? 1 / slope : std::numeric_limits<double>::infinity();
  double excess = 0;  // E[max(0, T_IO - T_decomp)], before normalisation
  for (std::uint32_t f = 0; f <= std::min(k, sizes[0]); ++f) {
    for (std::uint32_t c = 0; c <= std::min(k - f, sizes[1]); ++c) {
      const double p_fc = phi[0][f] * phi[1][c];
      for (std::uint32_t s = 0; s <= std::min(k - f - c, sizes[2]); ++s) {
        const std::uint32_t rest = k - f - c - s;  // in E or missed
        const double gap =
            rest * sm_s_ + (rest + s) * slope - (k - f) * decompress_s_ / threads_;  // at hE = 0
        if (gap <= 0) continue;
        const double crossing = gap * per_slope;
        const std::size_t last = crossing >= rest ? rest : static_cast<std::size_t>(crossing);
        const std::size_t at = rest * (k + std::size_t{1}) + last;
        excess += p_fc * phi[2][s] * (gap * mass_[at] - slope * moment_[at]);
      }
    }
  }
  // Nothing to do at all comes out of the subtractions as a rounding error of either sign.
  return std::max(0.0, expected_times(sizes).decompress_s + excess / table_.hits(0, experts)[k]);
}

}  // namespace moelab
