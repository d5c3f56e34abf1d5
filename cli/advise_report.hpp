// What `moelab advise` prints and draws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/advise/advice.hpp"
#include "sim/advise/policy_trial.hpp"
#include "sim/results/text_report.hpp"

namespace moelab::cli {

struct AdviseReport {
  AdviceRequest request;
  std::vector<Advice> list;               // empty where nothing fits
  std::string lacks;                      // what it needs then
  std::string lacks_of_four_bits;         // where all of the list have fewer bits: what four and more need
  std::string four_bits_with_q8_0_cache;  // as AdviceList has it
  std::vector<AdviceList::LeftOut> left_out;
  std::optional<PolicyTrials> policies;  // where they were asked for
};

std::string advise_text(const AdviseReport& report, const TextForm& form);
std::string advise_json(const AdviseReport& report);
/// Decoding over GPU memory given to experts, a curve for each runtime, with what is advised.
plot::Figure advise_figure(const AdviseReport& report);

}  // namespace moelab::cli
