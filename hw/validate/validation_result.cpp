// What the figures of all points come to.
#include <algorithm>

#include "hw/validate/validation.hpp"

namespace moelab {

namespace {

template <class Which>
std::map<OperationKey, OperationTimes> operations_of(const std::vector<ValidationPoint>& points,
                                                     const Which& which) {
  std::map<OperationKey, OperationTimes> all;
  for (const ValidationPoint& point : points)
    if (which(point))
      for (const auto& [kind, times] : point.operations) all[{kind, point.codec, point.threads}].add(times);
  return all;
}

}  // namespace

void OperationTimes::add(const OperationTimes& more) {
  predicted.insert(predicted.end(), more.predicted.begin(), more.predicted.end());
  measured.insert(measured.end(), more.measured.begin(), more.measured.end());
}

std::map<OperationKey, OperationTimes> Validation::operations() const {
  return operations_of(points, [](const ValidationPoint&) { return true; });
}

std::map<OperationKey, OperationTimes> Validation::quiet_operations() const {
  return operations_of(points, [](const ValidationPoint& point) { return !point.too_noisy(); });
}

ErrorSummary Validation::layer_error() const {
  std::vector<double> predicted, measured;
  for (const ValidationPoint& point : points) {
    if (point.too_noisy()) continue;
    predicted.insert(predicted.end(), point.predicted_layers.begin(), point.predicted_layers.end());
    measured.insert(measured.end(), point.measured_layers.begin(), point.measured_layers.end());
  }
  return errors_of(predicted, measured);
}

ErrorSummary Validation::tpot_error() const {
  std::vector<double> predicted, measured;
  for (const ValidationPoint& point : points) {
    if (point.measured_tpot.empty() || point.too_noisy()) continue;
    predicted.push_back(point.predicted_tpot_s());
    measured.push_back(point.measured_tpot_s().median);
  }
  return errors_of(predicted, measured);
}

std::vector<ValidationGroup> Validation::groups() const {
  std::vector<ValidationGroup> all;
  for (std::size_t first = 0; first < points.size();) {
    const ValidationPoint& p = points[first];
    std::vector<double> predicted, medians;
    std::vector<Repeated> measured;
    std::size_t end = first;
    for (; end < points.size() && points[end].codec == p.codec && points[end].budget == p.budget &&
           points[end].threads == p.threads;
         ++end) {
      if (points[end].measured_tpot.empty() || points[end].too_noisy()) continue;
      predicted.push_back(points[end].predicted_tpot_s());
      measured.push_back(points[end].measured_tpot_s());
      medians.push_back(measured.back().median);
    }
    all.push_back({p.codec, p.budget, p.threads, rank_correlation(predicted, medians),
                   ordering_of(predicted, measured)});
    first = end;
  }
  return all;
}

std::size_t Validation::too_noisy() const {
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [](const ValidationPoint& p) { return p.too_noisy(); }));
}

bool Validation::same_work() const {
  return std::all_of(points.begin(), points.end(), [](const ValidationPoint& p) { return p.same_work(); });
}

}  // namespace moelab
