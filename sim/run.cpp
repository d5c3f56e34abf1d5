#include "sim/run.hpp"

#include <algorithm>
#include <optional>

#include "models/input_error.hpp"
#include "models/machine_profile.hpp"
#include "models/model_import.hpp"
#include "models/nothing_fits.hpp"
#include "models/stored_weights.hpp"
#include "models/tensor_parallel.hpp"
#include "models/timing.hpp"
#include "policies/execution/execution.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/cluster/run_cluster.hpp"
#include "sim/run_paged.hpp"
#include "sim/run_provenance.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/cached_stage.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/pool_planning.hpp"
#include "sim/serving/serving_loop.hpp"
#include "sim/serving/step_gates.hpp"
#include "sim/simgrid_module.hpp"
#include "traces/mapped_file.hpp"

namespace moelab {
namespace {

bool is_planned(const SystemConfig& system) {
  return !system.paging && find_cache_policy(system.cache.name)->uses_pools;
}

Plan plan_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                 const ExpertCosts& costs, const MemoryPlan& memory, const RankInclusion* statistics,
                 RunResult& result) {
  if (s.workload.trace_file.empty())
    result.provenance.push_back("planning statistics: a second synthetic trace with another seed");
  else
    result.warnings.push_back(
        "pools were planned on the statistics of the trace that is replayed (in-sample)");
  return plan_pools(system, plan_input(system, costs, memory.expert_cache / trace.layers(),
                                       statistics != nullptr ? *statistics : planning_statistics(s, trace)));
}

bool contains(const Problems& problems, const Problem& problem) {
  return std::any_of(problems.all().begin(), problems.all().end(),
                     [&](const Problem& p) { return to_string(p) == to_string(problem); });
}

/// Policies refuse some parameters only when they are made.
void check_policies(const SystemConfig& system, const RoutingTrace& trace) {
  make_schedule_policy(system.schedule.name, system.schedule.parameters);
  make_prefetch_policy(*find_prefetch_policy(system.prefetch.name),
                       {trace.layers(), trace.experts(), trace.top_k()}, system.prefetch.parameters);
  make_routing_policy(*find_routing_policy(system.routing.name), system.routing.parameters);
  make_execution_policy(*find_execution_policy(system.execution.name), system.execution.parameters);
  CacheShape shape;
  shape.objects = trace.experts();
  shape.bytes = {1, 1, 1, 1, 0};
  make_cache_policy(*find_cache_policy(system.cache.name), shape, system.cache.parameters);
}

/// Compressed planes that come over the link of a discrete GPU.
void check_linked_planes(const Scenario& s, const SystemConfig& system) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(s.name, "system '" + system.name + "' stores its experts compressed; " + what);
  };
  if (system.execution.name != "gpu-only")
    refuse(
        "execution '" + system.execution.name +
        "' lets the CPU compute experts, which needs them whole in the host's memory: expected 'execution: "
        "{policy: gpu-only}', or 'weights: whole'");
  if (system.worker_reads)
    refuse("with a discrete GPU (device '" + s.device.name +
           "') chunks lie in host memory, where threads read nothing: expected 'exponent_reads: io-thread'");
  if (s.device.has_stand_in() && !s.device.cpu.recover)
    refuse("device '" + s.device.name +
           "' has a GPU that the CPU plays, and no cpu.recover: the time in which it joins planes");
}

/// What a system asks of the device: policies of discrete GPUs, and what only they cannot do.
void check_on_gpu(const Scenario& s, const SystemConfig& system) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(s.name, "system '" + system.name + "' " + what);
  };
  const ExecutionPolicyEntry& execution = *find_execution_policy(system.execution.name);
  if (!s.device.is_discrete()) {
    if (system.execution.name != "gpu-only")
      refuse("has execution '" + system.execution.name +
             "', which divides experts between a discrete GPU and the CPU; device '" + s.device.name +
             "' has no GPU with memory of its own");
    return;
  }
  if (system.compressed) return check_linked_planes(s, system);
  if (system.schedule.name != "fifo")
    refuse("has schedule '" + system.schedule.name +
           "'; with a discrete GPU the execution policy orders loads: expected 'schedule: {policy: fifo}'");
  if (execution.needs_cpu &&
      !TimingModel(s.device).cpu_expert(s.model,
                                        whole_experts(s.model.moe(), static_cast<int>(s.tensor_parallel)), 1))
    refuse("has execution '" + system.execution.name + "', which lets the CPU compute experts; device '" +
           s.device.name +
           "' has neither cpu.experts of this shape nor cpu.peak, bandwidth and dense_launch");
}

bool chunks_prompts(const PolicyChoice& batching) {
  const auto& chunks = find_batching_policy(batching.name)->chunks;
  return chunks && chunks(batching.parameters);
}

/// Whether the steps are the trace's static batches, one after another, whenever requests come.
bool steps_are_known(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  if (come_in_turn(s, system)) return true;
  if (has_conversations(s.workload)) return false;  // which turn comes next depends on answers
  const bool chunked = system.batching && chunks_prompts(system.batching->policy);
  return s.workload.batch == 1 && !chunked && served_requests(s, trace).size() <= trace.requests().size();
}

/// Policies that go by scores, and what the trace has of them.
void check_scores(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const auto check = [&](std::string_view family, const PolicyChoice& choice, bool all, bool any) {
    const bool missing = all ? !has_all_scores(trace) : any && !trace.has_scores();
    if (!missing) return;
    throw InputError(
        s.workload.trace_file.empty() ? s.name : s.workload.trace_file,
        "system '" + system.name + "' uses " + std::string(family) + " '" + choice.name + "', which needs " +
            (all ? "the gate scores of all experts; the trace has " +
                       std::string(trace.has_scores() ? "those of the chosen ones only" : "none") +
                       ". Traces that traces/capture_hf.py records have them (its default), as have those "
                       "of 'moelab trace generate --router-scores' and scenarios without 'trace'"
                 : "gate scores; the trace has none. Traces that traces/capture_hf.py records have them, "
                   "as have scenarios without 'trace'"));
  };
  const CachePolicyEntry& cache = *find_cache_policy(system.cache.name);
  check("routing", system.routing, find_routing_policy(system.routing.name)->needs_all_scores, false);
  check("cache", system.cache, cache.needs_all_scores, cache.needs_scores);
  check("prefetch", system.prefetch, find_prefetch_policy(system.prefetch.name)->needs_all_scores, false);
  if (const auto recorded = system.prefetch.parameters.find("recorded");
      recorded != system.prefetch.parameters.end() && recorded->second != 0 && !trace.description().lookahead)
    throw InputError(s.name, "system '" + system.name + "' uses prefetch '" + system.prefetch.name +
                                 "' with 'recorded: 1', but the trace has no predictions; it needs "
                                 "'lookahead_ids' (traces/README.md), or 'recorded: 0'");
  check("execution", system.execution, false, find_execution_policy(system.execution.name)->needs_scores);
  if (cache.needs_future && !steps_are_known(s, system, trace))
    throw InputError(s.name,
                     "system '" + system.name + "' uses cache '" + system.cache.name +
                         "', which looks up what the trace will use, and which requests meet in a step "
                         "depends on when they come; expected 'workload.batch: 1', or static batches in "
                         "turn (no 'batching', arrivals_per_s, conversations or request_log)");
  if (cache.needs_future && system.routing.name != "model")
    throw InputError(s.name, "system '" + system.name + "' uses cache '" + system.cache.name +
                                 "', which looks up what the trace will use, with routing '" +
                                 system.routing.name + "', which uses something else");
}

void check_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                  const std::optional<RankInclusion>& statistics) {
  const Scenario s = scenario_of_system(scenario, system);
  if (s.cluster) {
    check_cluster_system(s, system, trace);
    return;
  }
  if (system.paging) {
    check_scores(s, system, trace);
    return check_paged_system(s, system, trace);
  }
  check_expert_policies(s, system, trace);
  check_scores(s, system, trace);
  const ExpertCosts costs =
      expert_costs(s.model, TimingModel(s.device), system, static_cast<int>(s.tensor_parallel));
  const MemoryPlan memory = plan_memory(s, system, costs, trace);
  if (memory.shortfall > Bytes(0)) return;  // a result, when it is run
  if (come_in_turn(s, system)) {
    measured_range(s, trace.requests().size(), nullptr);
  } else {
    const std::vector<ServedRequest> requests = served_requests(s, trace);
    check_requests(s, system, memory, requests);
    measured_requests(s, requests);
  }
  if (is_planned(system)) plan_input(system, costs, memory.expert_cache / trace.layers(), *statistics);
}

/// Empty where the system substitutes nothing, or what that does to the model was not measured.
ExpectedAccuracy expected_quality(const Scenario& s, const SystemConfig& system) {
  const auto value = [&](const PolicyParameter& p) {
    const auto given = system.routing.parameters.find(std::string(p.name));
    return given == system.routing.parameters.end() ? p.default_value : given->second;
  };
  double alpha = 0, substitute = 0;
  for (const PolicyParameter& p : find_routing_policy(system.routing.name)->info.parameters) {
    if (p.name == "alpha") alpha = value(p);
    if (p.name == "substitute") substitute = value(p);
  }
  if (substitute == 0) return {};
  return accuracy_after_substitution(s.model.name, alpha).value_or(ExpectedAccuracy());
}

/// Of `requests`, or, where there are none, of the trace's.
std::uint64_t tokens_to_generate(const Scenario& s, const RoutingTrace& trace,
                                 const std::vector<ServedRequest>& requests) {
  std::uint64_t tokens = 0;
  for (const ServedRequest& q : requests) tokens += q.output_tokens;
  if (!requests.empty()) return tokens;
  for (std::size_t i = 0; i < trace.requests().size(); ++i)
    tokens += trace_request(trace, i, prompts_of(s)).output_tokens;
  return tokens;
}

Counted counted_of(const Scenario& s, const SystemConfig& system) {
  const bool one_by_one = !system.paging && !system.placed;
  const auto fetch = system.paging ? system.paging->fetch : PagingConfig::Fetch::layer;
  const bool by_number = system.paging && (system.paging->pinned > 0 || fetch != PagingConfig::Fetch::layer);
  const bool from_store = system.placed && system.placed->loads();
  return {.lookups = one_by_one || by_number || from_store,
          .bytes = !system.placed || from_store,
          .prefetch = (one_by_one && system.prefetch.name != "none") || fetch == PagingConfig::Fetch::ahead,
          .routing = !system.placed && find_routing_policy(system.routing.name)->needs_all_scores,
          .execution = one_by_one && !system.compressed && (s.cluster || s.device.is_discrete()),
          .prefixes = system.batching && shares_prefixes(s.workload) && !s.workload.prefilled};
}

RunResult run_of(const Scenario& as_read, const SystemConfig& system, const RoutingTrace& trace,
                 const RunOptions& options) {
  const Scenario scenario = scenario_of_system(as_read, system);
  RunResult r;
  r.scenario = scenario.name;
  r.system = system.name;
  r.seed = scenario.seed;
  r.classes = class_names(scenario.workload);
  r.question = scenario.question;
  r.model = title_with_weights(scenario.model, scenario.gpus(), scenario.expert_parallel);
  r.device = scenario.place_title();
  if (system.runtime)
    r.runtime = system.runtime->title;
  else if (scenario.machine)
    r.runtime = load_runtime(kBareRuntime).title;
  r.routing = routing_title(scenario, trace);
  add_provenance(scenario, system, trace, r);
  r.document = scenario_document(scenario, system);
  r.counted = counted_of(scenario, system);
  // A scenario that was made, not read, names its trace only to say that there is one.
  if (scenario.document != Scenario().document) r.data_files = data_files(scenario);
  if (scenario.cluster) {
    run_cluster_system(scenario, system, trace, options, r);
    return r;
  }
  if (system.paging) {
    r.quality = expected_quality(scenario, system);
    run_paged_system(scenario, system, trace, options, r);
    return r;
  }

  const TimingModel timing(scenario.device);
  const ExpertCosts costs =
      expert_costs(scenario.model, timing, system, static_cast<int>(scenario.tensor_parallel));
  r.memory = plan_memory(scenario, system, costs, trace);
  if (r.memory.shortfall > Bytes(0)) {
    r.executor = options.executor == ExecutorKind::simgrid ? "simgrid" : "fast";
    return r;
  }
  if (is_planned(system)) {
    r.plan = plan_system(scenario, system, trace, costs, r.memory, options.statistics, r);
    r.planned = true;
  }

  r.quality = expected_quality(scenario, system);

  std::vector<ServedRequest> requests;
  if (!come_in_turn(scenario, system)) requests = served_requests(scenario, trace);
  const bool in_turn = come_in_turn(scenario, system);
  const std::unique_ptr<RequestSource> source =
      in_turn ? std::make_unique<RequestsInTurn>(trace, scenario.workload.batch, prompts_of(scenario),
                                                 request_classes(scenario))
              : make_request_source(scenario, requests, options.arrivals);
  const std::uint64_t all_tokens = tokens_to_generate(scenario, trace, requests);
  ServingProgress progress;
  if (options.progress)
    progress = [&](std::uint64_t tokens) { options.progress(system, tokens, all_tokens); };

  CachedStageOptions stage_options;
  stage_options.witness = options.witness;
  std::vector<double> profile;
  if (find_cache_policy(system.cache.name)->needs_profile) profile = profile_experts(scenario, trace, r);
  stage_options.profile = profile;
  const Platform platform = make_platform(scenario, system, costs, r.memory, options);
  const std::unique_ptr<engine::Engine>& engine = platform.engine;
  stage_options.mirror = platform.mirror;
  ServerState state(*engine, options.observer ? options.observer(system) : nullptr, progress);
  state.serve(*source, trace, make_batching(scenario, system, r.memory), drafts_of(scenario));
  state.stream->measure(in_turn ? measured_range(scenario, trace.requests().size(), nullptr)
                                : measured_requests(scenario, requests));
  CachedStage stage(state, scenario, system, trace, costs, r.memory, r.plan.capacity, stage_options);
  ServingLoop loop(state, stage, scenario.model, r.memory.kv_block);
  free_resources(options, *engine);
  engine::Process serving = loop.serve();
  engine->spawn(serving);
  engine->run();

  r.metrics = state.metrics;
  set_measured_time(scenario, r.metrics, in_turn);
  add_account(*engine, r);
  return r;
}

}  // namespace

std::vector<double> profile_experts(const Scenario& s, const RoutingTrace& trace, RunResult& result) {
  if (s.workload.trace_file.empty())
    result.provenance.push_back("profile of experts: later requests of the same synthetic model");
  else
    result.warnings.push_back(
        "experts were profiled on the trace that is replayed (in-sample): those kept suit it better than a "
        "profile of other requests would");
  return expert_profile(s, trace);
}

Platform make_platform(const Scenario& s, const SystemConfig& system, const ExpertCosts& costs,
                       const MemoryPlan& memory, const RunOptions& options) {
  if (options.platform && s.speculation.any())
    throw InputError(
        s.name,
        "speculation.tokens: which drafts are accepted is drawn, and on hardware no model drafts or "
        "verifies; expected 0 there");
  if (options.platform && s.gpus() > 1)
    throw InputError(s.name, std::string(s.tensor_parallel > 1 ? "tensor_parallel" : "data_parallel") +
                                 " shares the model over GPUs; on hardware one GPU runs");
  if (options.platform) return options.platform(system, costs, memory);
  return {make_engine(options.executor), nullptr, nullptr};
}

void check_expert_policies(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  check_on_gpu(s, system);
  check_policies(system, trace);
}

std::unique_ptr<engine::Engine> make_engine(ExecutorKind kind) {
  return kind == ExecutorKind::simgrid ? engine::make_simgrid_engine() : engine::make_fast_engine();
}

void add_account(const engine::Engine& engine, RunResult& result) {
  result.executor = engine.executor_name();
  result.operations = engine.operations();
  result.wakes = engine.wakes();
  for (engine::ResourceId id = 0; id < engine.resources(); ++id)
    result.busy.push_back({engine.resource_name(id), engine.busy_seconds(id), engine.slots(id)});
}

std::string resource_kind(const std::string& resource) {
  const std::size_t stroke = resource.rfind('/');
  if (stroke == std::string::npos) return resource;
  return resource.substr(stroke + 1, resource.find_last_not_of("0123456789") - stroke);
}

void free_resources(const RunOptions& options, engine::Engine& engine) {
  const auto& kinds = options.free_resources;
  for (engine::ResourceId id = 0; id < engine.resources(); ++id)
    if (std::find(kinds.begin(), kinds.end(), resource_kind(engine.resource_name(id))) != kinds.end())
      engine.make_free(id);
}

std::optional<RankInclusion> check_scenario(const Scenario& scenario, const RoutingTrace& trace,
                                            const RankInclusion* given) {
  std::optional<RankInclusion> statistics;
  // A cluster's servers have their own.
  if (!scenario.cluster && std::any_of(scenario.systems.begin(), scenario.systems.end(), is_planned))
    statistics = given != nullptr ? *given : planning_statistics(scenario, trace);
  Problems problems;
  for (const SystemConfig& system : scenario.systems) {
    try {
      check_system(scenario, system, trace, statistics);
    } catch (const InputError& error) {
      for (Problem problem : error.problems()) {
        if (problem.file.empty()) {
          problem.file = scenario.name;
          problem.what = "system '" + system.name + "': " + problem.what;
        }
        if (!contains(problems, problem)) problems.add(problem);
      }
    }
  }
  problems.throw_if_any();
  return statistics;
}

Bytes page_cache_beside_budget(const Scenario& scenario, const RunResult& result) {
  return scenario.cluster || scenario.device.is_discrete() ? Bytes(0) : result.memory.page_cache;
}

void check_fits(const RunResult& r) {
  if (r.memory.shortfall > Bytes(0)) throw NothingFits(r.scenario, lacking_text(r));
}

void check_fits(const Scenario& s, const RoutingTrace& trace) {
  for (const SystemConfig& system : s.systems) {
    if (system.paging || system.placed) continue;
    const Scenario own = scenario_of_system(s, system);
    const ExpertCosts costs =
        expert_costs(own.model, TimingModel(own.device), system, static_cast<int>(own.tensor_parallel));
    const MemoryPlan memory = plan_memory(own, system, costs, trace);
    if (memory.shortfall > Bytes(0)) throw NothingFits(s.name, shortfall_text(system.name, memory));
  }
}

std::uint64_t tokens_of_run(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  std::vector<ServedRequest> requests;
  if (!come_in_turn(scenario, system)) requests = served_requests(scenario, trace);
  return tokens_to_generate(scenario, trace, requests);
}

RunResult run_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                     const RunOptions& options) {
  try {
    RunResult result = run_of(scenario, system, trace, options);
    check_mapped_files();
    const std::uint32_t instances = system.instances ? system.instances->count() : 1;
    if (result.memory.shortfall == Bytes(0))
      result.service = service_rates(scenario, result.metrics, instances);
    return result;
  } catch (const engine::TooLong& error) {
    throw InputError(scenario.name, "system '" + system.name + "': " + error.what() +
                                        "; look for a rate of device '" + scenario.device.name +
                                        "' or an overhead of the system that is far from any real one");
  }
}

}  // namespace moelab
