// Published runs and predictions as tables and as JSON.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/serving/published_runs.hpp"

namespace moelab::published {

/// Of the counted rows of one name that print a figure: how many, the median of how far predictions are off
/// (shares of what was measured, without sign), and the median with its sign.
struct FigureErrors {
  std::size_t rows = 0;
  double absolute = 0, signed_median = 0;
};
struct ServingErrors {
  std::string name;
  std::array<FigureErrors, 3> of;  // by Headline
};

/// By names in their order.
std::vector<ServingErrors> serving_errors(const std::vector<PredictedServing>& rows,
                                          const std::function<std::string(const PredictedServing&)>& name_of);
ServingErrors all_serving_errors(const std::vector<PredictedServing>& rows);

/// "all at once", "16 users", "4 a second".
std::string load_text(const ServingPoint& point);

std::string serving_text(const std::vector<PredictedServing>& rows);
/// {"serving_format", "version", "question", "answer", "files", "groups": [..], "rows": [..]}
nlohmann::ordered_json serving_document(const std::vector<PredictedServing>& rows,
                                        const std::vector<std::string>& files);

}  // namespace moelab::published
