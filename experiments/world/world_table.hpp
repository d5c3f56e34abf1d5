// Published measurements with what is predicted for each, and how far off that is.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "experiments/world/world_fit.hpp"
#include "experiments/world/world_points.hpp"

namespace moelab::world {

/// A measurement, its question, and what is predicted for it; values in the metric's unit, 0 where the
/// question has no answer.
struct PredictedPoint {
  const Point* point;
  Question question;
  Prediction prediction;
  double null_value = 0;  // by the null model, with an efficiency that the point's source had no part in
  double apart = 0;       // by constants that its source had no part in: predict_apart()
  bool answered() const { return question.why_not.empty(); }
  bool counted() const { return answered() && point->counted(); }
  /// "decode" or "prefill"; "" of a question that was not understood so far.
  std::string phase() const;
  /// Why the point is shown and not counted; "" where it is counted.
  std::string why_not() const;
  /// Predicted over measured, less 1. Only of one that is answered.
  double error() const { return prediction.value / point->value - 1; }
};

/// Of each point, in their order, by the runtimes' files and by the null model; `runtimes` gains those that
/// the points name. The points must outlive the result.
std::vector<PredictedPoint> predicted_points(const std::vector<Point>& points, Runtimes& runtimes);

/// Fills `apart` in: sources are left out in at most twelve parts, each predicted by constants fitted to the
/// others. Seconds for a hundred points.
void predict_apart(std::vector<PredictedPoint>& rows, const Runtimes& runtimes);

/// What fit() is given of them.
std::vector<Answerable> answerable(const std::vector<PredictedPoint>& rows);

/// An error up to which a prediction counts as near: predicted over measured is from 0.7 to 1.3.
inline constexpr double kTolerance = 0.3;

/// How far off the counted rows of one name are; errors are shares of what was measured, without sign.
struct GroupErrors {
  std::string name;
  std::size_t rows = 0;    // 1 at least
  double predicted = 0;    // median
  double apart = 0;        // median, the row's source left out
  double nine_in_ten = 0;  // nine in ten rows, source left out, are within a factor of 1 + this
  double null_model = 0;   // median
  double near = 0;         // share of the rows, from 0 to 1
};

/// By names in their order, each row in those that `names_of` gives it; a name that begins with "~ " comes
/// last and loses these two characters.
std::vector<GroupErrors> errors_by(
    const std::vector<PredictedPoint>& rows,
    const std::function<std::vector<std::string>(const PredictedPoint&)>& names_of);

/// By what a step is made of ("one GPU, decode"); last "all decode" and "all prefill", as far as there are
/// any.
std::vector<GroupErrors> errors_by_group(const std::vector<PredictedPoint>& rows);

/// Sentences: how many rows are counted, how far off they are in the median, how many are shown with a reason
/// why they are not counted.
std::string answer_of(const std::vector<PredictedPoint>& rows);

}  // namespace moelab::world
