#include "sim/serving/future_uses.hpp"

#include "sim/serving/layer_uses.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {

FutureUses::FutureUses(const RoutingTrace& trace, std::uint32_t batch, const Prompts& prompts,
                       std::uint32_t micro_batch, const Drafts& drafts)
    : experts_(trace.experts()), uses_(std::size_t{trace.layers()} * trace.experts()) {
  StaticPasses passes(trace, batch, prompts, micro_batch, drafts);
  LayerUses layer_uses(experts_, false);
  std::vector<std::uint32_t> step(trace.layers(), 0);
  for (Pass pass; passes.next(pass);)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const auto used = layer_uses.collect(trace, pass, layer);
      for (const ExpertUse& use : used)
        uses_[std::size_t{layer} * experts_ + use.object].steps.push_back(step[layer]);
      if (!used.empty()) ++step[layer];  // layers of the other stack do not run in this pass
    }
}

std::uint64_t FutureUses::next_use(std::uint32_t layer, std::uint32_t expert, std::uint64_t now) {
  Uses& uses = uses_[std::size_t{layer} * experts_ + expert];
  while (uses.next < uses.steps.size() && uses.steps[uses.next] <= now) ++uses.next;
  return uses.next < uses.steps.size() ? uses.steps[uses.next] : kNeverUsedAgain;
}

}  // namespace moelab
