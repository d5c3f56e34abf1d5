#include "sim/run_paged.hpp"

#include "models/input_error.hpp"
#include "policies/batching/batching.hpp"
#include "policies/residency/residency.hpp"
#include "sim/serving/paged_server.hpp"

namespace moelab {

void check_paged_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const PagingConfig& paging = *system.paging;
  find_residency_policy(paging.residency.name)->make(paging.residency.parameters);
  const std::vector<ServedRequest> requests = served_requests(s, trace);
  const PagedPlan plan = plan_paged(s, system, requests);
  if (plan.memory.shortfall > Bytes(0)) return;
  const std::unique_ptr<BatchingPolicy> batching = make_batching(s, paging, plan.memory);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (const std::string why = batching->misfit(batch_request(requests[i])); !why.empty())
      throw InputError(s.name, "system '" + system.name + "' can never serve request " +
                                   std::to_string(i + 1) + " (" + std::to_string(requests[i].prompt_tokens) +
                                   " prompt and " + std::to_string(requests[i].output_tokens) +
                                   " output tokens): it " + why);
}

void run_paged_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                      const RunOptions& options, RunResult& r) {
  if (options.platform)
    throw InputError(s.name,
                     "system '" + system.name +
                         "' pages its experts; only experts that are fetched one by one run on hardware");
  const std::vector<ServedRequest> requests = served_requests(s, trace);
  const PagedPlan plan = plan_paged(s, system, requests);
  r.paged = true;
  r.memory = plan.memory;
  r.executor = options.executor == ExecutorKind::simgrid ? "simgrid" : "fast";
  if (r.memory.shortfall > Bytes(0)) return;

  std::uint64_t all_tokens = 0;
  for (const ServedRequest& request : requests) all_tokens += request.output_tokens;
  GraphObserver* const observer = options.observer ? options.observer(system) : nullptr;
  ServingProgress progress;
  if (options.progress)
    progress = [&](std::uint64_t tokens) { options.progress(system, tokens, all_tokens); };

  const std::unique_ptr<engine::Engine> engine = make_engine(options.executor);
  PagedServer server(*engine, s, system, trace, plan, requests, observer, progress);
  free_resources(options, *engine);
  engine::Process serving = server.serve();
  engine->spawn(serving);
  engine->run();

  r.metrics = server.metrics();
  add_account(*engine, r);
}

}  // namespace moelab
