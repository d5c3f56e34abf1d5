// F3 to F8 with what software costs as today and by runtimes.
#include <string_view>

#include "experiments/claims/runtime_rows.hpp"
#include "experiments/fluxmoe/fluxmoe_figures.hpp"

namespace moelab::claims {
namespace {

/// As the row's verdict in the table of claims has it: the overhead that is fitted on F4's vLLM, or none.
fluxmoe::Assumptions as_today(std::string_view id) {
  const bool nothing_fitted = id == "F4" || id == "F8";
  return {.host_per_layer_s = nothing_fitted ? 0 : fluxmoe::fitted_host_overhead()};
}

}  // namespace

std::vector<RuntimeFigure> fluxmoe_runtime_figures() {
  using fluxmoe::runs_under;
  const fluxmoe::Assumptions stated = {.runtime = "fluxmoe-prototype"}, graphs = {.runtime = "vllm"};
  for (const fluxmoe::Assumptions& assumptions : {as_today("F3"), as_today("F4"), stated, graphs})
    runs_under(assumptions).prepare(fluxmoe::points_of_rows());
  std::vector<RuntimeFigure> out;
  for (const fluxmoe::Row& row : fluxmoe::paper_rows()) {
    if (std::string_view(row.id) < "F3") continue;  // F1 and F2 do not hang on it
    out.push_back({row.id, row.claim, row.paper, row.ours(runs_under(as_today(row.id))),
                   row.ours(runs_under(stated)), row.ours(runs_under(graphs))});
  }
  return out;
}

}  // namespace moelab::claims
