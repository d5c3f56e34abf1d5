#include "experiments/smoe/smoe_llama.hpp"

#include <algorithm>

#include "models/timing.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/request_stream.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::smoe {
namespace {

DeviceProfile without_gpu(DeviceProfile device) {
  device.gpu.reset();
  return device;
}

class Steps {
 public:
  Steps(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace, Offload offload)
      : model_(scenario.model),
        trace_(trace),
        by_layers_(offload == Offload::layers),
        gpu_(scenario.device),
        cpu_(without_gpu(scenario.device)),
        gpu_dense_(model_, gpu_),
        cpu_dense_(model_, cpu_),
        numbers_(model_.moe_numbers()),
        uses_(trace.experts(), false) {
    const MemoryPlan memory = plan_memory(scenario, system, expert_costs(model_, gpu_, system), trace);
    first_on_gpu_ = by_layers_ ? first_whole(memory) : first_with_experts(memory);
  }

  int layers_on_gpu() const { return static_cast<int>(model_.layers.size() - first_on_gpu_); }

  double seconds(const Pass& pass) {
    gpu_dense_.begin(pass);
    cpu_dense_.begin(pass);
    const Bytes hidden(double{model_.stored.of(WeightPart::attention)} * model_.hidden * pass.tokens);
    double sum = 0;
    for (std::size_t i = 0; i < model_.layers.size(); ++i)
      sum += i >= first_on_gpu_ ? on_gpu(i, pass) : (by_layers_ ? on_cpu(i, pass) : shared(i, pass, hidden));
    const bool all_there = first_on_gpu_ == 0;
    if (by_layers_ && !all_there && layers_on_gpu() > 0)
      sum += gpu_.load(hidden).value() + gpu_.store(hidden).value();
    return sum + (by_layers_ && !all_there ? cpu_dense_ : gpu_dense_).head().seconds;
  }

  double hit_rate() const { return found_ / used_; }

 private:
  std::size_t first_whole(const MemoryPlan& memory) const {
    const double layers = static_cast<double>(model_.layers.size());
    const Bytes kv = memory.kv_cache * (1 / layers);
    Bytes left = memory.expert_cache + memory.non_expert + memory.kv_cache;
    std::size_t first = model_.layers.size();
    while (first > 0 && layer_bytes(model_, model_.layers[first - 1]) + kv <= left)
      left -= layer_bytes(model_, model_.layers[--first]) + kv;
    return first;
  }

  std::size_t first_with_experts(const MemoryPlan& memory) const {
    Bytes left = memory.expert_cache;
    const Bytes experts = model_.moe().experts * expert_bytes(model_);
    std::size_t first = model_.layers.size();
    for (; first > 0; --first) {
      if (numbers_[first - 1] < 0) continue;
      if (experts > left) break;
      left -= experts;
    }
    return first;
  }

  /// Calls each(tokens) for the distinct experts that the layer uses.
  template <class Each>
  void for_experts(std::size_t layer, const Pass& pass, Each each) {
    if (numbers_[layer] < 0) return;
    for (const ExpertUse& use : uses_.collect(trace_, pass, static_cast<std::uint32_t>(numbers_[layer]))) {
      each(static_cast<double>(use.tokens));
      if (pass.prompt) continue;
      used_ += 1;
      found_ += layer >= first_on_gpu_ ? 1 : 0;
    }
  }

  double on_gpu(std::size_t layer, const Pass& pass) {
    double sum = gpu_dense_.dense(layer).seconds + shared_seconds(gpu_dense_, layer);
    for_experts(layer, pass,
                [&](double tokens) { sum += gpu_.expert(model_, model_.moe(), tokens).value(); });
    return sum;
  }

  double on_cpu(std::size_t layer, const Pass& pass) {
    double sum = cpu_dense_.dense(layer).seconds + shared_seconds(cpu_dense_, layer);
    for_experts(layer, pass,
                [&](double tokens) { sum += cpu_.expert(model_, model_.moe(), tokens).value(); });
    return sum;
  }

  /// Attention and shared experts on the GPU; the CPU computes the routed ones, and what goes to and fro is a
  /// row a token.
  double shared(std::size_t layer, const Pass& pass, Bytes hidden) {
    double routed = 0;
    for_experts(layer, pass,
                [&](double tokens) { routed += cpu_.expert(model_, model_.moe(), tokens).value(); });
    if (routed > 0) routed += gpu_.store(hidden).value() + gpu_.load(hidden).value();
    return gpu_dense_.dense(layer).seconds + std::max(shared_seconds(gpu_dense_, layer), routed);
  }

  double shared_seconds(DenseTimes& times, std::size_t layer) const {
    return numbers_[layer] < 0 ? 0 : times.shared(layer).seconds;
  }

  const Architecture& model_;
  const RoutingTrace& trace_;
  const bool by_layers_;
  const TimingModel gpu_, cpu_;
  DenseTimes gpu_dense_, cpu_dense_;
  const std::vector<std::int32_t> numbers_;
  LayerUses uses_;
  std::size_t first_on_gpu_ = 0;
  double used_ = 0, found_ = 0;
};

}  // namespace

LayersOnGpu llama_cpp_layers(const Scenario& scenario, const SystemConfig& llama_cpp,
                             const RoutingTrace& trace, Offload offload) {
  Steps steps(scenario, llama_cpp, trace, offload);
  LayersOnGpu result;
  double prompts = 0, tokens = 0;
  StaticPasses passes(trace, scenario.workload.batch, {});
  for (Pass pass; passes.next(pass);) {
    const double rows = pass.produces;
    (pass.prompt ? result.ttft_s : result.tpot_s) += rows * steps.seconds(pass);
    (pass.prompt ? prompts : tokens) += rows;
  }
  result.ttft_s /= prompts;
  result.tpot_s /= tokens;
  result.hit_rate = steps.hit_rate();
  result.layers = steps.layers_on_gpu();
  return result;
}

}  // namespace moelab::smoe
