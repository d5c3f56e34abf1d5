// What `moelab explain` says: in words with bars, and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/explain.hpp"
#include "sim/explain/result_comparison.hpp"

namespace moelab::cli {

struct ExplainedResult {
  Explanation explanation;
  std::optional<ResultFile> other;       // why this one differs
  std::optional<Comparison> comparison;  // with `other` as the second; none where one of them was not run
};

std::string explanation_text(const ExplainedResult& explained);
/// An object whose "systems" are the explanations, in their order.
std::string explanations_json(const std::vector<ExplainedResult>& explained);

}  // namespace moelab::cli
