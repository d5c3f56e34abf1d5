#include "sim/serving/layer_supply.hpp"

#include "models/timing.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"

namespace moelab {

LayerSupply::LayerSupply(const ServerContext& server, std::size_t staged)
    : server_(server),
      schedule_(make_schedule_policy(server.system.schedule.name, server.system.schedule.parameters)),
      builder_(server.resources, server.system.worker_reads, server.timing.dispatch().value(),
               server.costs.traffic, server.costs.host_reads, staged),
      instance_(server.costs.timing) {
  restart();
}

void LayerSupply::restart() {
  const Scenario& s = server_.scenario;
  if (server_.timing.is_discrete() && !server_.system.compressed)
    missing_ = std::make_unique<MissingExperts>(s.model, server_.timing, server_.system, server_.costs,
                                                server_.resources, static_cast<int>(s.tensor_parallel));
}

void LayerSupply::clear() {
  instance_.experts.clear();
  reads_.clear();
  tokens_.clear();
  scores_.clear();
}

void LayerSupply::add(std::uint32_t expert, State held, const ExpertReads& reads, std::uint32_t tokens,
                      float score, double execute_s) {
  instance_.experts.push_back({expert, server_.costs.tensors, held, execute_s});
  reads_.push_back(reads);
  tokens_.push_back(tokens);
  scores_.push_back(score);
}

void LayerSupply::plan(std::uint32_t step_tokens) {
  if (missing_) missing_->plan(instance_, step_tokens, tokens_, scores_, order_);
}

void LayerSupply::build_on_cpu(std::uint32_t step_tokens, LabelledGraph& out) {
  if (missing_)
    missing_->build(step_tokens, reads_, out);
  else
    schedule_->order(instance_, order_);
}

void LayerSupply::build(LabelledGraph& out) {
  builder_.build(instance_, order_, reads_, tokens_, out);
}

}  // namespace moelab
