#include "sim/cluster/home_store.hpp"

#include "models/timing.hpp"
#include "sim/cluster/cluster_world.hpp"
#include "sim/cluster/run_alone.hpp"
#include "sim/serving/server_context.hpp"
#include "sim/serving/step_outcome.hpp"

namespace moelab {
namespace {

/// What add_server_resources() makes for a machine alone, as far as a placed server has it not already.
ServerResources store_resources(ClusterWorld& world, std::uint32_t server, const ExpertCosts& costs) {
  engine::Engine& engine = world.engine;
  const ServerNode& node = world.resources.servers[server];
  const GpuResources& gpu = world.resources.gpus[node.first_gpu];
  const DeviceProfile& device = node.timing->device();
  const std::string name = world.scenario.cluster->profile.servers[server].name + "/";
  ServerResources r{};
  r.host = node.host;
  r.experts = r.dense = r.cpu_experts = gpu.compute;
  r.io = gpu.link ? gpu.link->in : node.ssd;
  r.link_out = gpu.link ? gpu.link->out : r.io;
  r.reader = node.ssd;
  r.decompress = r.recover = r.io;
  r.gpu_memory = gpu.link.has_value();
  r.path = costs.path;
  r.recovers_on_cpu = node.timing->recovers_on_cpu();
  r.computes_on_cpu = node.timing->computes_on_cpu();
  r.copies_on_cpu = node.timing->copies_on_cpu();
  r.memory = node.memory;
  r.cpu = node.cpu;
  const bool threads_decode = costs.timing.shards > 0 && r.path != PlanePath::send_decode;
  if (costs.timing.shards > 0) r.recover = engine.add_resource(name + "recover", 1);
  if (threads_decode) r.decompress = engine.add_resource(name + "decompress", costs.timing.threads);
  if (threads_decode && device.cpu.sharing && r.cpu == engine::kNoCapacity)
    r.cpu = engine.add_capacity(name + "cpu", {.slowdown = device.cpu.sharing->value});
  r.ssd = engine.add_capacity(
      name + "ssd",
      {.slowdown = device.ssd.readers.value, .bandwidth = costs.ssd_bytes_per_second, .beyond = r.memory});
  slow_cpu_while_reading(engine, device, r.cpu, r.ssd);
  if (threads_decode)
    engine.add_interference({r.ssd, r.decompress, device.ssd.slowdown_while_decompressing.value});
  return r;
}

/// The same for another GPU of the server, number `number`, which has a link and a stream of its own.
ServerResources of_gpu(ServerResources r, ClusterWorld& world, std::uint32_t server, std::uint32_t number) {
  if (number == 0) return r;
  const GpuResources& gpu = world.resources.gpus[world.resources.servers[server].first_gpu + number];
  const bool joins = r.recover != r.io, decodes = r.decompress != r.io;
  r.experts = r.dense = r.cpu_experts = gpu.compute;
  if (gpu.link) r.io = gpu.link->in, r.link_out = gpu.link->out;
  if (!decodes) r.decompress = r.io;
  r.recover = r.io;
  if (joins)
    r.recover = world.engine.add_resource(
        world.scenario.cluster->profile.servers[server].name + "/recover" + std::to_string(number), 1);
  return r;
}

}  // namespace

HomeStore::HomeStore(ClusterWorld& world, std::uint32_t server, Metrics& metrics)
    : world_(world),
      scenario_(alone_scenario(world.scenario, server)),
      memory_(world.plan.memory[server].home),
      costs_(expert_costs(scenario_.model, *world.resources.servers[server].timing, world.system)),
      timing_(*world.resources.servers[server].timing),
      resources_(store_resources(world, server, costs_)),
      instant_(world.resources.servers[server].nic),
      metrics_(metrics) {
  const ServerContext own = context(metrics);
  const std::array<std::uint32_t, kStates> none{};
  cache_.emplace(own, memory_, world.pools.empty() ? none : world.pools[server], std::span<const double>());
  supply_.emplace(own, most_staged_experts(scenario_, world.system));
  const auto gpus = static_cast<std::uint32_t>(world.plan.shape.servers[server].gpu_bytes.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    of_gpus_.push_back(of_gpu(resources_, world, server, gpu));
    placing_.emplace_back(ServerContext{own.engine, own.scenario, own.system, own.trace, own.costs,
                                        own.timing, of_gpus_.back(), own.metrics, nullptr, nullptr},
                          1);
  }
}

ServerContext HomeStore::context(Metrics& metrics) const {
  return {world_.engine, scenario_,  world_.system, world_.rows, costs_,
          timing_,       resources_, metrics,       nullptr,     nullptr};
}

double HomeStore::execution_seconds(std::uint32_t tokens) const {
  return timing_.expert(scenario_.model, scenario_.model.moe(), tokens, false).value();
}

void HomeStore::add(const Pass& pass, std::uint32_t layer, const ExpertUse& use) {
  const State held = cache_->state(layer, use.object);
  const double seconds =
      timing_.expert(scenario_.model, scenario_.model.moe(), use.tokens, pass.tokens == 1).value();
  supply_->add(use.object, held, cache_->plan_reads(layer, use.object, held), use.tokens, use.score, seconds);
  metrics_.count_hit(held, layer, pass.prompt);
}

void HomeStore::build(std::uint32_t step_tokens, LabelledGraph& out) {
  supply_->plan(step_tokens);
  supply_->build_on_cpu(step_tokens, out);
  supply_->build(out);
}

void HomeStore::count(const LabelledGraph& graph) {
  const std::array<double, kTiers> bytes = bytes_read(graph);
  for (std::size_t i = 0; i < kTiers; ++i) metrics_.bytes[i] += bytes[i];
}

void HomeStore::add_placing(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert, bool from_ssd,
                            LabelledGraph& out) {
  LayerSupply& supply = placing_[gpu];
  const State held = gpu == 0 ? cache_->state(layer, expert) : State::M;  // the cache is the first one's
  ExpertReads reads = cache_->plan_reads(layer, expert, held);
  if (from_ssd) reads.sm_tier = reads.e_tier = Tier::ssd;
  supply.clear();
  supply.add(expert, held, reads, 0, 0, 0);
  supply.plan(0);
  supply.build_on_cpu(0, out);
  supply.build(out);
  const auto parts = static_cast<engine::OpIndex>(out.graph.size());
  const engine::OpIndex there = out.graph.add(out.graph.lane(instant_), 0);
  out.labels.push_back({OpKind::wait, Tier::none, 0, 0, expert});
  for (engine::OpIndex op = 0; op < parts; ++op) out.graph.depend(there, op);
}

void HomeStore::restart() {
  cache_->restart();
  supply_->restart();
}

}  // namespace moelab
