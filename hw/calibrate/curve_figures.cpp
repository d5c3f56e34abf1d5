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

Sourced<Curve> enter_curve(FigureLedger& ledger, const std::string& path, const std::string& what,
                           BenchPoints points, CurveAmount amount) {
  std::ranges::sort(points, {}, [&](const BenchResult* p) { return amount_of(*p, amount); });
  const auto same = [&](const BenchResult* a, const BenchResult* b) {
    return amount_of(*a, amount) == amount_of(*b, amount);
  };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());

  std::vector<double> medians;
  for (const BenchResult* point : points) medians.push_back(point->statistics.median);
  const RisingValues rising = made_rising(medians);
  std::vector<CurvePoint> measured, kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto x = static_cast<double>(amount_of(*points[i], amount));
    measured.push_back({x, medians[i]});
    kept.push_back({x, rising.values[i]});
  }
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
