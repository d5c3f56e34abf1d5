#include "sim/serving/future_uses.hpp"

#include <algorithm>

#include "sim/serving/batch.hpp"

namespace moelab {

FutureUses::FutureUses(const RoutingTrace& trace, std::uint32_t batch, bool encoder_decoder)
    : experts_(trace.experts()), uses_(std::size_t{trace.layers()} * trace.experts()) {
  Batch passes(trace, encoder_decoder);
  LayerUses layer_uses(experts_, false);
  Pass pass;
  std::vector<std::uint32_t> step(trace.layers(), 0);
  for (std::size_t first = 0; first < trace.requests().size(); first += batch) {
    passes.start(first, std::min<std::size_t>(batch, trace.requests().size() - first));
    while (passes.next(pass)) {
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
        const auto used = layer_uses.collect(trace, pass, layer);
        for (const ExpertUse& use : used)
          uses_[std::size_t{layer} * experts_ + use.object].steps.push_back(step[layer]);
        if (!used.empty()) ++step[layer];  // layers of the other stack do not run in this pass
      }
    }
  }
}

std::uint64_t FutureUses::next_use(std::uint32_t layer, std::uint32_t expert, std::uint64_t now) {
  Uses& uses = uses_[std::size_t{layer} * experts_ + expert];
  while (uses.next < uses.steps.size() && uses.steps[uses.next] <= now) ++uses.next;
  return uses.next < uses.steps.size() ? uses.steps[uses.next] : kNeverUsedAgain;
}

}  // namespace moelab
