#include "traces/law/logit_law.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "traces/law/best_experts.hpp"
#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

constexpr int kBiasRounds = 60;
constexpr int kLeastSquaresRounds = 20000;

double logit(double share) {
  return portable_log(share / (1 - share));
}

std::vector<float> normals(std::size_t count, Random random) {
  std::vector<float> values(count);
  for (float& z : values) z = static_cast<float>(Normal::instance().draw(random));
  return values;
}

}  // namespace

LogitSample::LogitSample(std::uint32_t experts, std::uint32_t tokens, std::uint64_t seed)
    : experts_(experts),
      tokens_(tokens),
      first_(normals(std::size_t{experts} * tokens, Random(seed, 1, 0))),
      second_(normals(std::size_t{experts} * tokens, Random(seed, 2, 0))) {}

// A fixed point: each bias moves by the difference of the shares' log-odds. More of one expert is less of the
// others, so that a step below 1 suffices; the last rounds' shares differ by less than the sample's noise.
std::vector<double> LogitSample::bias(std::span<const double> shares, std::uint32_t k) const {
  const double least = 0.5 / tokens_;
  const auto clipped = [&](double share) { return std::clamp(share, least, 1 - least); };
  std::vector<double> bias(experts_);
  std::vector<float> logits(experts_);
  std::vector<std::uint32_t> best(k);
  for (int round = 0; round < kBiasRounds && k < experts_; ++round) {
    std::vector<std::uint32_t> chosen(experts_);
    for (std::uint32_t t = 0; t < tokens_; ++t) {
      for (std::uint32_t e = 0; e < experts_; ++e)
        logits[e] = static_cast<float>(bias[e]) + first_[std::size_t{t} * experts_ + e];
      best_experts(logits, best);
      for (const std::uint32_t e : best) ++chosen[e];
    }
    double moved = 0;
    for (std::uint32_t e = 0; e < experts_; ++e) {
      const double step = 0.4 * (logit(clipped(shares[e])) - logit(clipped(chosen[e] / double(tokens_))));
      bias[e] += step;
      moved = std::max(moved, std::abs(step));
    }
    const double mean = std::accumulate(bias.begin(), bias.end(), 0.0) / experts_;
    for (double& b : bias) b -= mean;
    if (moved < 1e-3) break;
  }
  return bias;
}

std::vector<double> LogitSample::overlaps(std::span<const double> bias, std::uint32_t k) const {
  std::vector<std::uint64_t> common(kCorrelations);
  std::vector<float> logits(experts_);
  std::vector<std::uint32_t> best(k);
  std::vector<std::uint8_t> chosen(experts_);
  for (std::uint32_t t = 0; t < tokens_; ++t) {
    const float* x = first_.data() + std::size_t{t} * experts_;
    const float* y = second_.data() + std::size_t{t} * experts_;
    for (std::size_t i = kCorrelations; i-- > 0;) {
      const auto r = static_cast<float>(i) / (kCorrelations - 1);
      const float rest = std::sqrt(1 - r * r);
      for (std::uint32_t e = 0; e < experts_; ++e)
        logits[e] = static_cast<float>(bias[e]) + (r * x[e] + rest * y[e]);
      best_experts(logits, best);
      if (i + 1 == kCorrelations) {
        std::fill(chosen.begin(), chosen.end(), 0);
        for (const std::uint32_t e : best) chosen[e] = 1;
      }
      for (const std::uint32_t e : best) common[i] += chosen[e];
    }
  }
  std::vector<double> overlaps;
  for (const std::uint64_t n : common)
    overlaps.push_back(static_cast<double>(n) / (static_cast<double>(tokens_) * k));
  return overlaps;
}

double LogitSample::correlation(std::span<const double> overlaps, double overlap) {
  for (std::size_t i = 1; i < overlaps.size(); ++i) {
    if (overlap >= overlaps[i]) continue;
    const double width = overlaps[i] - overlaps[i - 1];
    const double part = width > 0 ? (overlap - overlaps[i - 1]) / width : 0;
    return (static_cast<double>(i - 1) + std::max(0.0, part)) / static_cast<double>(overlaps.size() - 1);
  }
  return 1;
}

std::vector<double> LogitSample::gaps(std::span<const double> bias, std::uint32_t k) const {
  std::vector<double> gaps(k - 1);
  std::vector<float> logits(experts_);
  std::vector<std::uint32_t> best(k);
  for (std::uint32_t t = 0; t < tokens_; ++t) {
    for (std::uint32_t e = 0; e < experts_; ++e)
      logits[e] = static_cast<float>(bias[e]) + first_[std::size_t{t} * experts_ + e];
    best_experts(logits, best);
    for (std::uint32_t r = 0; r + 1 < k; ++r) gaps[r] += logits[best[r]] - logits[best[r + 1]];
  }
  for (double& gap : gaps) gap /= tokens_;
  return gaps;
}

// Coordinate descent on the normal equations, each coordinate held at 0 or above.
std::vector<double> non_negative_least_squares(std::span<const double> a, std::span<const double> y,
                                               std::span<const double> weight) {
  const std::size_t n = y.empty() ? 0 : a.size() / y.size();
  std::vector<double> square(n * n), product(n), x(n);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < n; ++j) {
      product[j] += weight[i] * a[i * n + j] * y[i];
      for (std::size_t m = 0; m < n; ++m) square[j * n + m] += weight[i] * a[i * n + j] * a[i * n + m];
    }
  for (int round = 0; round < kLeastSquaresRounds; ++round) {
    double moved = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (square[j * n + j] <= 0) continue;
      double rest = product[j];
      for (std::size_t m = 0; m < n; ++m) rest -= square[j * n + m] * x[m];
      const double next = std::max(0.0, x[j] + rest / square[j * n + j]);
      moved = std::max(moved, std::abs(next - x[j]));
      x[j] = next;
    }
    if (moved < 1e-12) break;
  }
  return x;
}

}  // namespace moelab
