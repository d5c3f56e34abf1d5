#include "sim/run.hpp"

#include <algorithm>

#include "sim/serving/pool_planning.hpp"
#include "traces/generator.hpp"

namespace moelab {
namespace {

/// Planning looks at another trace of the same statistics, as a deployment would look at yesterday's.
constexpr std::uint64_t kHistorySeedOffset = 0x9e3779b97f4a7c15;

GeneratorParameters generator_parameters(const Scenario& s, std::uint64_t seed) {
  const FeedForward& ff = s.model.moe();
  GeneratorParameters p;
  p.model = s.model.name;
  p.experts = static_cast<std::uint32_t>(ff.experts);
  p.top_k = static_cast<std::uint32_t>(ff.top_k);
  for (const Layer& layer : s.model.layers) {
    if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
    ++p.layers;
    if (layer.stack == Stack::encoder) ++p.encoder_layers;
  }
  p.requests = s.workload.requests;
  p.prompt_tokens = s.workload.prompt_tokens;
  p.output_tokens = s.workload.output_tokens;
  p.skew = s.workload.skew;
  p.reuse = s.workload.reuse;
  p.drift = s.workload.drift;
  p.gate_decay = s.workload.gate_decay;
  p.seed = seed;
  return p;
}

void check_trace_fits(const Scenario& s, const RoutingTrace& trace) {
  const FeedForward& ff = s.model.moe();
  const auto fail = [&](const std::string& what, std::uint64_t has, std::uint64_t wants) {
    if (has != wants)
      throw InputError(s.workload.trace_file, "the trace has " + std::to_string(has) + " " + what +
                                                  ", model '" + s.model.name + "' has " +
                                                  std::to_string(wants));
  };
  fail("MoE layers", trace.layers(), s.model.moe_layers().size());
  fail("experts a layer", trace.experts(), static_cast<std::uint64_t>(ff.experts));
  fail("experts a token (k)", trace.top_k(), static_cast<std::uint64_t>(ff.top_k));
  if (trace.requests().empty()) throw InputError(s.workload.trace_file, "the trace has no requests");
}

bool is_planned(const SystemConfig& system) {
  return find_cache_policy(system.cache.name)->uses_pools;
}

Plan plan_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                 const ExpertCosts& costs, const MemoryPlan& memory, RunResult& result) {
  const bool generated = s.workload.trace_file.empty();
  const RoutingTrace history =
      generated ? generate_routing_trace(generator_parameters(s, s.seed + kHistorySeedOffset)) : trace;
  if (generated)
    result.provenance.push_back("planning statistics: a second synthetic trace with another seed");
  else
    result.warnings.push_back(
        "pools were planned on the statistics of the trace that is replayed (in-sample)");
  const RankInclusion use = rank_inclusion(history, s.workload.batch, s.model.has_encoder());
  return plan_pools(system, costs, memory.expert_cache / trace.layers(), use);
}

void add_provenance(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace, RunResult& r) {
  r.provenance.push_back("trace: " + trace.provenance());
  r.provenance.push_back("model: " + s.model.source);
  if (!system.source.empty()) r.provenance.push_back("system: " + system.source);
  if (!system.host_source.empty()) r.provenance.push_back("host overhead: " + system.host_source);
  for (const std::string& line : s.device.provenance) r.provenance.push_back("device " + line);
  if (s.device.unmeasured)
    r.warnings.push_back("the device profile '" + s.device.name +
                         "' holds numbers that nobody measured on that device (see provenance)");
  if (trace.synthetic()) r.warnings.push_back("the routing trace is synthetic");
}

}  // namespace

RoutingTrace scenario_trace(const Scenario& scenario) {
  if (scenario.workload.trace_file.empty())
    return generate_routing_trace(generator_parameters(scenario, scenario.seed));
  RoutingTrace trace = read_routing_trace(scenario.workload.trace_file);
  check_trace_fits(scenario, trace);
  return trace;
}

void check_scenario(const Scenario& scenario, const RoutingTrace& trace) {
  const TimingModel timing(scenario.device);
  for (const SystemConfig& system : scenario.systems) {
    if (find_cache_policy(system.cache.name)->needs_scores && !trace.has_scores())
      throw InputError(scenario.name, "system '" + system.name + "' uses cache '" + system.cache.name +
                                          "', which needs gate scores; the trace has none");
    plan_memory(scenario, system, expert_costs(scenario.model, timing, system), trace);
  }
}

RunResult run_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                     const RunOptions& options) {
  RunResult r;
  r.scenario = scenario.name;
  r.system = system.name;
  r.system_title = system.title;
  r.seed = scenario.seed;
  add_provenance(scenario, system, trace, r);

  const TimingModel timing(scenario.device);
  const ExpertCosts costs = expert_costs(scenario.model, timing, system);
  r.memory = plan_memory(scenario, system, costs, trace);
  if (is_planned(system)) {
    r.plan = plan_system(scenario, system, trace, costs, r.memory, r);
    r.planned = true;
  }

  std::uint64_t all_tokens = 0;
  for (const TraceRequest& q : trace.requests())
    all_tokens += q.end - q.decode_begin + (scenario.model.has_encoder() ? 0 : 1);
  ServerOptions server_options;
  if (options.observer) server_options.observer = options.observer(system);
  if (options.progress)
    server_options.progress = [&](std::uint64_t tokens) { options.progress(system, tokens, all_tokens); };

  const std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  Server server(*engine, scenario, system, trace, costs, r.memory, r.plan.capacity, server_options);
  engine::Process serving = server.serve();
  engine->spawn(serving);
  engine->run();

  r.executor = engine->executor_name();
  r.metrics = server.metrics();
  r.operations = engine->operations();
  for (engine::ResourceId id = 0; id < engine->resources(); ++id)
    r.busy.push_back({engine->resource_name(id), engine->busy_seconds(id)});
  return r;
}

}  // namespace moelab
