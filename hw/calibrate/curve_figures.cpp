#include "hw/calibrate/curve_figures.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/units.hpp"

namespace moelab {

namespace {

std::uint64_t amount_of(const BenchResult& point, CurveAmount amount) {
  constexpr std::string_view kNames[] = {"bytes", "elements", "tokens"};
  return point.parameters.number(kNames[static_cast<std::size_t>(amount)]);
}

}  // namespace

std::size_t amounts_of(const BenchPoints& points, CurveAmount amount) {
  std::set<std::uint64_t> amounts;
  for (const BenchResult* point : points) amounts.insert(amount_of(*point, amount));
  return amounts.size();
}

std::string shown(const AffineFit& fit, CurveAmount amount) {
  const std::string fixed = to_string(Seconds(fit.intercept));
  if (!std::isfinite(fit.rate)) return fixed + " whatever the size";
  switch (amount) {
    case CurveAmount::bytes:
      return fixed + " + " + to_string(BytesPerSecond(fit.rate));
    case CurveAmount::elements:
      return fixed + " + " + to_string(Seconds(1e6 / fit.rate)) + " a million";
    case CurveAmount::tokens:
      break;
  }
  return fixed + " + " + to_string(Seconds(1 / fit.rate)) + " a token";
}

double most_rate(std::span<const CurvePoint> points) {
  double best_mean = 0;
  for (const CurvePoint& point : points) best_mean = std::max(best_mean, point.amount / point.seconds);
  const std::optional<AffineFit> fit = fit_affine(points);
  return std::clamp(fit ? fit->rate : best_mean, best_mean, 2 * best_mean);
}

Sourced<Curve> enter_curve(FigureLedger& ledger, const std::string& path, const std::string& what,
                           BenchPoints points, CurveAmount amount, Beyond beyond) {
  std::ranges::sort(points, {}, [&](const BenchResult* p) { return amount_of(*p, amount); });
  const auto same = [&](const BenchResult* a, const BenchResult* b) {
    return amount_of(*a, amount) == amount_of(*b, amount);
  };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());

  std::vector<double> medians;
  std::vector<CurvePoint> measured;
  for (const BenchResult* point : points) {
    medians.push_back(point->statistics.median);
    measured.push_back({static_cast<double>(amount_of(*point, amount)), medians.back()});
  }
  const double last_step = measured.back().amount - measured[measured.size() - 2].amount;
  const RisingValues rising =
      made_rising(medians, beyond == Beyond::no_faster_rate ? last_step / most_rate(measured) : 0);
  std::vector<CurvePoint> kept = measured;
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i].seconds = rising.values[i];
  Account account = account_of(what, points);
  account.correction = rising.largest_correction;
  std::string value = std::to_string(points.size()) + " points";
  if (const std::optional<AffineFit> fit = fit_affine(measured)) {
    value = shown(*fit, amount);
    account.fit = value;
    account.quality = fit->quality;
  }
  return ledger.enter(path, Curve(std::move(kept)), value, account);
}

}  // namespace moelab
