// Z13 to Z19 with what software costs as today and by runtimes.
#include <utility>

#include "experiments/claims/runtime_rows.hpp"
#include "experiments/zipmoe/zipmoe_ablation.hpp"
#include "experiments/zipmoe/zipmoe_latency.hpp"

namespace moelab::claims {

std::vector<RuntimeFigure> zipmoe_runtime_figures() {
  std::vector<RuntimeFigure> out = zipmoe::gain_figures();
  for (RuntimeFigure& figure : zipmoe::ablation_figures()) out.push_back(std::move(figure));
  return out;
}

}  // namespace moelab::claims
