#include "sim/serving/missing_experts.hpp"

#include <algorithm>

#include "models/architecture.hpp"
#include "models/tensor_parallel.hpp"
#include "models/timing.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/scenario/system_config.hpp"
#include "sim/serving/expert_costs.hpp"

namespace moelab {

using engine::OpIndex;

namespace {
constexpr double kBytesPerActivation = 2;  // BF16
}

MissingExperts::MissingExperts(const Architecture& model, const TimingModel& timing,
                               const SystemConfig& system, const ExpertCosts& costs,
                               const ServerResources& resources, int ranks)
    : model_(model),
      on_cpu_whole_(whole_experts(model.moe(), ranks)),
      timing_(timing),
      costs_(costs),
      resources_(resources),
      cpu_traffic_(ranks * costs.traffic.execute),
      needs_cpu_(find_execution_policy(system.execution.name)->needs_cpu),
      policy_(
          make_execution_policy(*find_execution_policy(system.execution.name), system.execution.parameters)),
      gpu_s_(timing.expert(model, model.moe(), 1).value()) {}

double MissingExperts::cpu_seconds(std::uint32_t tokens) {
  for (std::size_t n = cpu_s_.size(); n <= tokens; ++n)
    cpu_s_.push_back(timing_.cpu_expert(model_, on_cpu_whole_, static_cast<double>(n)).value().value());
  return cpu_s_[tokens];
}

void MissingExperts::plan(LayerInstance& instance, std::uint32_t step_tokens, std::span<std::uint32_t> tokens,
                          std::span<const float> scores, LayerOrder& order) {
  const auto size = static_cast<std::uint32_t>(instance.experts.size());
  missing_.clear();
  positions_.clear();
  cpu_.clear();
  on_cpu_.assign(size, 0);
  order.reads.clear();
  order.tasks.clear();
  order.experts.clear();
  std::uint32_t most = 1, on_gpu = 0;
  for (std::uint32_t task = 0; task < size * costs_.tensors; ++task) order.tasks.push_back(task);
  for (std::uint32_t p = 0; p < size; ++p) {
    const LayerExpert& expert = instance.experts[p];
    if (expert.state == State::M && tokens[p] > 0) {
      missing_.push_back({expert.id, scores[p], tokens[p]});
      positions_.push_back(p);
      most = std::max(most, tokens[p]);
    } else {
      order.experts.push_back(p);
      if (tokens[p] > 0) ++on_gpu;
    }
  }
  if (needs_cpu_) cpu_seconds(most);
  policy_->plan(missing_, {costs_.load_s(), cpu_s_, gpu_s_, step_tokens, on_gpu}, plan_);
  for (const std::uint32_t place : plan_.loads) {
    add_loads(positions_[place], order);
    order.experts.push_back(positions_[place]);
  }
  for (const std::uint32_t place : plan_.cpu) {
    const std::uint32_t p = positions_[place];
    cpu_.push_back({instance.experts[p].id, tokens[p], p});
    on_cpu_[p] = 1;
    instance.experts[p].state = State::F;
    tokens[p] = 0;
    order.experts.push_back(p);
  }
  for (std::uint32_t p = 0; p < size; ++p)  // wanted as part of the layer only: last
    if (instance.experts[p].state == State::M && tokens[p] == 0) add_loads(p, order);
}

void MissingExperts::add_loads(std::uint32_t position, LayerOrder& order) const {
  for (std::uint32_t tensor = 0; tensor < costs_.tensors; ++tensor)
    order.reads.push_back({position * costs_.tensors + tensor, kSmChunk});
}

OpIndex MissingExperts::add(LabelledGraph& out, engine::ResourceId resource, double seconds,
                            OpLabel label) const {
  out.labels.push_back(label);
  return out.graph.add(out.graph.lane(resource), seconds + timing_.dispatch().value());
}

// What the CPU computes has to be in its memory.
void MissingExperts::await_reads(const CpuExpert& expert, OpIndex execution, LabelledGraph& out) const {
  for (std::uint32_t tensor = 0; tensor < costs_.tensors; ++tensor)
    out.graph.depend(execution, add_host_read(resources_, costs_.host_reads, timing_.dispatch().value(),
                                              {OpKind::read_tensor, Tier::ssd,
                                               static_cast<std::uint16_t>(tensor), 0, expert.id},
                                              out));
}

void MissingExperts::build(std::uint32_t step_tokens, std::span<const ExpertReads> reads,
                           LabelledGraph& out) {
  if (cpu_.empty()) return;
  std::uint64_t rows = 0;
  for (const CpuExpert& expert : cpu_) rows += expert.tokens;
  const auto travelling = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, step_tokens));
  const Bytes activations(static_cast<double>(travelling) * model_.hidden * kBytesPerActivation);
  const auto add_copy = [&](engine::ResourceId resource, Seconds time, OpKind kind) {
    const OpIndex op =
        add(out, resource, time.value(), {.kind = kind, .tokens = travelling, .bytes = activations.value()});
    if (resources_.copies_on_cpu)
      resources_.share(out.graph, op, true, time.value(), 2 * activations.value());
    return op;
  };
  const OpIndex send =
      add_copy(resources_.link_out, timing_.store(activations) + timing_.hand_over(), OpKind::send);
  const OpIndex receive = add_copy(resources_.io, timing_.load(activations), OpKind::receive);
  for (const CpuExpert& expert : cpu_) {
    const double seconds = cpu_seconds(expert.tokens);
    const OpIndex op = add(out, resources_.cpu_experts, seconds,
                           {OpKind::cpu_execute, Tier::none, 0, 0, expert.id, expert.tokens});
    resources_.share(out.graph, op, true, seconds, cpu_traffic_);
    if (reads[expert.position].sm_tier == Tier::ssd) await_reads(expert, op, out);
    out.graph.depend(op, send);
    out.graph.depend(receive, op);
  }
}

void MissingExperts::observe(const LabelledGraph& graph, const LoadWitness& witness) {
  double seconds = 0;  // of the matrices of one expert, which follow each other
  for (OpIndex op = 0; op < graph.graph.size(); ++op) {
    const OpLabel& label = graph.labels[op];
    if (label.tier != Tier::host) continue;
    seconds += graph.graph.end(op) - graph.graph.start(op);
    if (label.tensor + 1U < costs_.tensors) continue;
    policy_->observe_load(witness ? witness(seconds) : seconds);
    seconds = 0;
  }
}

}  // namespace moelab
