// What a model's answers are worth after low-score experts gave way to substitutes, as published
// (configs/quality/smoe-substitution.yaml): by the threshold alpha alone, whatever a run substituted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// Percent of a data set's answers that are right.
struct DatasetAccuracy {
  std::string dataset;
  double unchanged = 0;  // with the experts that the model chose (alpha = 0)
  double expected = 0;   // at the alpha asked for
};

struct ExpectedAccuracy {
  std::string source;  // paper and table
  std::vector<DatasetAccuracy> datasets;
};

/// Linear between the table's columns. nullopt for a model (Architecture::name) that the table does not have,
/// and for an alpha outside its columns, 0 to 0.6.
std::optional<ExpectedAccuracy> accuracy_after_substitution(std::string_view model, double alpha);

}  // namespace moelab
