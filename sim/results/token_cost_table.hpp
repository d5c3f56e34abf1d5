// What a token takes of machine and mains, for people and in results.
#pragma once

#include <string>
#include <vector>

#include "models/json.hpp"
#include "sim/results/text_report.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// Columns of watts, joules by token, kWh and money by a million tokens, of those that any of `all` knows.
class TokenCostColumns {
 public:
  explicit TokenCostColumns(const std::vector<ServiceRates>& all);
  bool any() const { return power_ || !currency_.empty(); }
  /// Heads, and cells of what is known; "-" of what is not.
  std::vector<std::string> heads() const;
  std::vector<std::string> cells(const ServiceRates& rates, const TokenCost& cost) const;
  /// What the columns are, a line or two; "" where there are none.
  std::string legend() const;

 private:
  bool power_ = false, estimated_ = false;
  std::string currency_;
};

/// Of the part of a run that its statistics are of.
TokenCost token_cost_of(const RunResult& result);

/// A row for each run of which something is known, and what the columns are; nothing where there is none.
void add_token_cost(const std::vector<RunResult>& results, TextReport& report);

/// Keys of what is known, the others are absent; null where nothing is.
nlohmann::ordered_json token_cost_json(const ServiceRates& rates, const TokenCost& cost);

}  // namespace moelab
