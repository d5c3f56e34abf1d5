#include "sim/run_paged.hpp"

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "sim/cluster/run_instances.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/serving_loop.hpp"
#include "sim/serving/windowed_stage.hpp"

namespace moelab {

void check_paged_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const PagingConfig& paging = *system.paging;
  make_residency_policy(*find_residency_policy(paging.residency.name), paging.residency.parameters);
  make_routing_policy(*find_routing_policy(system.routing.name), system.routing.parameters);
  CacheShape shape;
  shape.objects = trace.experts();
  shape.bytes = {1, 1, 1, 1, 0};
  make_cache_policy(*find_cache_policy(system.cache.name), shape, system.cache.parameters);
  const std::vector<ServedRequest> requests = served_requests(s, trace);
  const PagedPlan plan = plan_paged(s, system, requests);
  if (plan.memory.shortfall > Bytes(0)) return;
  check_requests(s, system, plan.memory, requests);
  measured_requests(s, requests);
}

void run_paged_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                      const RunOptions& options, RunResult& r) {
  const std::vector<ServedRequest> requests = served_requests(s, trace);
  const PagedPlan plan = plan_paged(s, system, requests);
  r.paged = true;
  r.memory = plan.memory;
  r.executor = options.executor == ExecutorKind::simgrid ? "simgrid" : "fast";
  if (r.memory.shortfall > Bytes(0)) return;

  std::vector<double> profile;
  if (find_cache_policy(system.cache.name)->needs_profile) profile = profile_experts(s, trace, r);
  if (system.instances) return run_instances(s, system, trace, plan, requests, profile, options, r);

  std::uint64_t all_tokens = 0;
  for (const ServedRequest& request : requests) all_tokens += request.output_tokens;
  ServingProgress progress;
  if (options.progress)
    progress = [&](std::uint64_t tokens) { options.progress(system, tokens, all_tokens); };

  ExpertCosts costs;
  if (options.platform) costs = expert_costs(s.model, TimingModel(s.device), system, 1);
  const Platform platform = make_platform(s, system, costs, plan.memory, options);
  const std::unique_ptr<engine::Engine>& engine = platform.engine;
  ServerState state(*engine, options.observer ? options.observer(system) : nullptr, progress);
  const std::unique_ptr<RequestSource> source = make_request_source(s, requests, options.arrivals);
  state.serve(*source, trace, make_batching(s, system, plan.memory), drafts_of(s));
  state.stream->measure(measured_requests(s, requests));
  WindowedStage stage(state, s, system, trace, plan, requests, profile, platform.window);
  ServingLoop loop(state, stage, s.model, plan.memory.kv_block);
  free_resources(options, *engine);
  engine::Process serving = loop.serve();
  engine->spawn(serving);
  engine->run();

  r.metrics = state.metrics;
  set_measured_time(s, r.metrics, false);
  add_account(*engine, r);
}

}  // namespace moelab
