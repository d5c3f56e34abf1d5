// What this program predicts for published runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/serving/published_points.hpp"

namespace moelab::published {

/// A published run beside its prediction.
struct PredictedServing {
  const ServingPoint* point = nullptr;
  ServingFigures predicted;  // none where the run cannot be said
  std::string why_not;       // not empty: it was not run, and why
  bool answered() const { return why_not.empty(); }
  bool counted() const { return answered() && point->graded(); }
};

/// Each row run by the simulator, in their order; `jobs` at a time. The points must outlive the result.
std::vector<PredictedServing> predicted_serving(const std::vector<ServingPoint>& points, unsigned jobs);

/// What rows are compared by: throughput in tokens a second, time to the first token and time a token in ms
/// (the mean; the median where no mean is printed; for the time a token gaps between tokens where that is not
/// printed).
enum class Headline { throughput, ttft, tpot };
inline constexpr Headline kHeadlines[] = {Headline::throughput, Headline::ttft, Headline::tpot};
struct HeadlinePair {
  double measured = 0, predicted = 0;
  double error() const { return predicted / measured - 1; }
};
/// Nothing where the source does not print it.
std::optional<HeadlinePair> headline(Headline which, const PredictedServing& row);

}  // namespace moelab::published
