#include "experiments/world/world_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::world {
namespace {

/// Sources that are left out together: each alone where there are few.
constexpr std::size_t kMostFolds = 12;

bool is_time(const PredictedPoint& row) {
  return row.point->metric.ends_with("_ms");
}

/// What the null model would need to be right.
double efficiency(const PredictedPoint& row) {
  const double ratio = row.point->value / row.null_value;
  return is_time(row) ? 1 / ratio : ratio;
}

double sorted_quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return quantile(values, q);
}

/// Each runtime's null model has one efficiency for decoding and one for prompts, where the CPU takes part
/// others: the median of what was measured over what efficiency 1 gives, over the counted rows of other
/// sources; where there are none, over those of other runtimes.
void fill_null(std::vector<PredictedPoint>& rows) {
  const auto kind = [](const PredictedPoint& row) {
    const bool cpu = row.question.group.find("CPU") != std::string::npos;
    return std::string(row.question.prefill ? "prefill" : "decode") + (cpu ? " cpu" : "");
  };
  for (PredictedPoint& row : rows)
    if (row.answered()) row.null_value = null_prediction(*row.point, row.question);
  std::vector<double> efficiencies;
  for (const PredictedPoint& row : rows) {
    std::vector<double> same, any;
    for (const PredictedPoint& other : rows) {
      if (!row.answered() || !other.counted()) continue;
      if (other.point->source == row.point->source || kind(other) != kind(row)) continue;
      any.push_back(efficiency(other));
      if (other.question.runtime == row.question.runtime) same.push_back(any.back());
    }
    const std::vector<double>& of = same.empty() ? any : same;
    efficiencies.push_back(of.empty() ? 1 : sorted_quantile(of, 0.5));
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].null_value *= is_time(rows[i]) ? 1 / efficiencies[i] : efficiencies[i];
}

/// Of one name: absolute errors, and factors apart (measured over predicted or the other way, what is more)
/// less 1, the source left out.
struct ErrorSample {
  std::vector<double> own, null, apart, factors;
};

GroupErrors summary_of(const std::string& name, const ErrorSample& e) {
  const auto near = std::count_if(e.own.begin(), e.own.end(), [](double x) { return x <= kTolerance; });
  return {.name = name.starts_with("~ ") ? name.substr(2) : name,
          .rows = e.own.size(),
          .predicted = sorted_quantile(e.own, 0.5),
          .apart = sorted_quantile(e.apart, 0.5),
          .nine_in_ten = sorted_quantile(e.factors, 0.9),
          .null_model = sorted_quantile(e.null, 0.5),
          .near = static_cast<double>(near) / static_cast<double>(e.own.size())};
}

/// "The predictions of decoding are off by 6 % in the median (25 rows)."
std::string sentence_of(const char* what, const std::vector<double>& errors) {
  if (errors.empty()) return {};
  return std::string(" Predictions of ") + what + " are off by " +
         fixed(100 * sorted_quantile(errors, 0.5), 0) + " % in the median (" + std::to_string(errors.size()) +
         (errors.size() == 1 ? " row)." : " rows).");
}

}  // namespace

std::string PredictedPoint::phase() const {
  if (question.group.ends_with("decode")) return "decode";
  return question.group.ends_with("prefill") ? "prefill" : "";
}

std::string PredictedPoint::why_not() const {
  if (!answered()) return question.why_not;
  return counted() ? "" : "grade C: what its source says is too vague to count";
}

std::vector<Answerable> answerable(const std::vector<PredictedPoint>& rows) {
  std::map<std::pair<std::string, bool>, int> alike;  // by source and whether it is of prompts
  const auto kind = [](const PredictedPoint& row) {
    return std::pair(row.point->source, row.question.prefill);
  };
  for (const PredictedPoint& row : rows)
    if (row.counted()) ++alike[kind(row)];
  std::vector<Answerable> list;
  for (const PredictedPoint& row : rows)
    if (row.answered()) list.push_back({row.point, &row.question, weight_of(*row.point, alike[kind(row)])});
  return list;
}

std::vector<PredictedPoint> predicted_points(const std::vector<Point>& points, Runtimes& runtimes) {
  std::vector<PredictedPoint> rows;
  rows.reserve(points.size());
  for (const Point& point : points) rows.push_back({&point, question_of(point, runtimes), {}});
  for (PredictedPoint& row : rows)
    if (row.answered()) row.prediction = predict(*row.point, row.question, runtimes);
  fill_null(rows);
  return rows;
}

void predict_apart(std::vector<PredictedPoint>& rows, const Runtimes& runtimes) {
  std::map<std::string, std::size_t> fold_of;
  for (const PredictedPoint& row : rows)
    if (row.answered()) fold_of.emplace(row.point->source, fold_of.size() % kMostFolds);
  const std::vector<Answerable> all = answerable(rows);
  for (std::size_t fold = 0; fold < std::min(kMostFolds, fold_of.size()); ++fold) {
    std::vector<Answerable> others;
    for (const Answerable& a : all)
      if (fold_of.at(a.point->source) != fold) others.push_back(a);
    const Runtimes fitted = with(runtimes, fit(runtimes, parameters_of(runtimes), others));
    for (PredictedPoint& row : rows)
      if (row.answered() && fold_of.at(row.point->source) == fold)
        row.apart = predict(*row.point, row.question, fitted).value;
  }
}

std::vector<GroupErrors> errors_by(
    const std::vector<PredictedPoint>& rows,
    const std::function<std::vector<std::string>(const PredictedPoint&)>& names_of) {
  std::map<std::string, ErrorSample> samples;
  for (const PredictedPoint& row : rows) {
    if (!row.counted()) continue;
    const double ratio = row.apart / row.point->value;
    for (const std::string& name : names_of(row)) {
      ErrorSample& e = samples[name];
      e.own.push_back(std::abs(row.error()));
      e.apart.push_back(std::abs(ratio - 1));
      e.factors.push_back(std::max(ratio, 1 / ratio) - 1);
      e.null.push_back(std::abs(row.null_value / row.point->value - 1));
    }
  }
  std::vector<GroupErrors> groups;
  for (const auto& [name, sample] : samples) groups.push_back(summary_of(name, sample));
  return groups;
}

std::vector<GroupErrors> errors_by_group(const std::vector<PredictedPoint>& rows) {
  return errors_by(rows, [](const PredictedPoint& row) {
    return std::vector<std::string>{row.question.group, "~ all " + row.phase()};
  });
}

std::string answer_of(const std::vector<PredictedPoint>& rows) {
  std::vector<double> decode, prefill;
  for (const PredictedPoint& row : rows)
    if (row.counted()) (row.phase() == "decode" ? decode : prefill).push_back(std::abs(row.error()));
  const std::size_t counted = decode.size() + prefill.size(), others = rows.size() - counted;
  const std::string all = std::to_string(rows.size()) + " published measurements ";
  return (counted == 0 ? "None of " + all + "is counted."
                       : "Of " + all + std::to_string(counted) + (counted == 1 ? " is" : " are") +
                             " predicted and counted.") +
         sentence_of("decoding", decode) + sentence_of("prompts", prefill) +
         (others == 0 ? ""
                      : " " + std::to_string(others) +
                            (others == 1 ? " is shown with the reason why it is not counted."
                                         : " are shown with the reason why they are not counted."));
}

}  // namespace moelab::world
