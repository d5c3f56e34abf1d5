#include "sim/cluster/run_instances.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "models/input_error.hpp"
#include "sim/cluster/instance_router.hpp"
#include "sim/cluster/run_cluster.hpp"
#include "sim/serving/serving_loop.hpp"
#include "sim/serving/windowed_stage.hpp"

namespace moelab {
namespace {

struct Instance {
  std::optional<ServerState> state;
  std::optional<WindowedStage> stage;
  std::optional<ServingLoop> loop;
};

/// One record a request, of both of its parts, in the order of their ends. `all` has those of decoding
/// instances behind those of the instances that ran the prompts.
std::vector<RequestTimes> joined(const std::vector<RequestTimes>& all, const InstanceRouter& router) {
  std::vector<RequestTimes> requests;
  std::unordered_map<std::uint32_t, RequestTimes> prompts;  // by number
  for (const RequestTimes& q : all) {
    const HandOver* over = router.handed_over(q.number);
    if (over != nullptr && q.server == over->from) {
      prompts.emplace(q.number, q);
      continue;
    }
    RequestTimes& whole = requests.emplace_back(q);
    if (over == nullptr) continue;
    const RequestTimes& prompt = prompts.at(q.number);
    whole.server = over->from;
    whole.decoded_by = static_cast<std::int32_t>(over->to);
    whole.started_s = prompt.started_s;
    whole.cached_tokens = prompt.cached_tokens;
    whole.preempted += prompt.preempted;
    whole.sent_from_s = over->begin_s;
    whole.sent_until_s = over->end_s;
  }
  std::stable_sort(requests.begin(), requests.end(),
                   [](const RequestTimes& a, const RequestTimes& b) { return a.end_s < b.end_s; });
  return requests;
}

TransferCounts transfers_of(const std::vector<RequestTimes>& requests, const InstanceRouter& router) {
  TransferCounts counts;
  for (const RequestTimes& q : requests) {
    if (q.decoded_by < 0) continue;
    ++counts.transfers;
    counts.bytes += router.handed_over(q.number)->bytes;
    counts.wait_s += q.sent_from_s - q.first_token_s;
    counts.send_s += q.sent_until_s - q.sent_from_s;
  }
  return counts;
}

/// Critical paths are those of one instance: a mean over all would dilute what bounds the busiest by the time
/// in which others are idle.
void take_busiest(const std::vector<std::unique_ptr<Instance>>& instances, const InstancesResult& results,
                  Metrics& all) {
  const std::vector<std::size_t> busiest = results.busiest();
  all.stall_s = instances[busiest.front()]->state->metrics.stall_s;
  for (const std::size_t place : busiest) {
    if (results.servers[place].kind == InstanceKind::prefill) continue;
    const Metrics& one = instances[place]->state->metrics;
    all.decode_stall_s = one.decode_stall_s;
    all.layers.stall_s = one.layers.stall_s;
  }
}

/// Of all instances, into one, but for their critical paths.
void add_instances(const std::vector<std::unique_ptr<Instance>>& instances, const InstanceRouter& router,
                   Metrics& all) {
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const Metrics& one = instances[i]->state->metrics;
    add_metrics(one, i, all);
    all.gap_classes.insert(all.gap_classes.end(), one.gap_classes.begin(), one.gap_classes.end());
    all.serving.add(one.serving);
  }
  all.requests = joined(all.requests, router);
  all.end_to_end_s.clear();
  for (const RequestTimes& q : all.requests)
    if (q.measured) all.end_to_end_s.push_back(q.end_s - q.arrival_s);
}

/// Of the GPUs that are simulated, mean.
double computed_seconds(const std::vector<ResourceUse>& busy, const std::string& instance) {
  double seconds = 0, gpus = 0;
  for (const ResourceUse& use : busy) {
    if (!use.name.starts_with(instance + "/") || resource_kind(use.name) != "compute") continue;
    seconds += use.busy_s;
    ++gpus;
  }
  return gpus > 0 ? seconds / gpus : 0;
}

InstanceKind kind_of(const InstancesConfig& config, std::uint32_t number) {
  if (!config.disaggregated()) return InstanceKind::colocated;
  return number < config.prefill ? InstanceKind::prefill : InstanceKind::decode;
}

void add_results(const std::vector<std::unique_ptr<Instance>>& instances, const InstancesConfig& config,
                 RunResult& r) {
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const ServingCounts& counts = instances[i]->state->metrics.serving;
    InstanceResult& one = r.instances.servers.emplace_back();
    one.name = config.name(i);
    one.kind = kind_of(config, i);
    one.stall_s = instances[i]->state->metrics.stall_s;
    one.requests = instances[i]->state->metrics.requests.size();
    one.steps = counts.steps;
    one.rows = counts.rows;
    one.most_kv_use = counts.most_kv_use;
    one.computed_s = computed_seconds(r.busy, one.name);
  }
}

/// The instances of a run, in one engine.
class Instances {
 public:
  /// Everything by reference outlives it.
  Instances(engine::Engine& engine, RequestSource& source, const Scenario& s, const SystemConfig& system,
            const PagedPlan& plan)
      : router(engine, source, *system.instances, kv_shape(s, system, plan.memory), plan.memory.kv_block),
        engine_(engine),
        s_(s),
        system_(system),
        plan_(plan),
        tokens_(system.instances->count(), 0) {}

  void add(std::uint32_t number, const RoutingTrace& trace, const std::vector<ServedRequest>& requests,
           std::span<const double> profile, const RunOptions& options, GraphObserver* observer) {
    Instance& one = *all.emplace_back(std::make_unique<Instance>());
    const std::string prefix = system_.instances->name(number) + "/";
    one.state.emplace(engine_, observer != nullptr ? observer->of_server(prefix) : nullptr,
                      progress_of(number, requests, options));
    one.state->serve(router.source(number), trace, make_batching(s_, system_, plan_.memory), drafts_of(s_));
    one.state->stream->measure(measured_requests(s_, requests));
    router.set_policy(number, *one.state->batching);
    one.stage.emplace(*one.state, s_, system_, trace, plan_, requests, profile, nullptr, prefix);
    one.loop.emplace(*one.state, *one.stage, s_.model, plan_.memory.kv_block);
  }

  void run() {
    std::vector<engine::Process> processes;
    for (const auto& one : all) processes.push_back(one->loop->serve());
    for (engine::Process& process : processes) engine_.spawn(process);
    router.begin();
    engine_.run();
    if (router.unanswered() > 0) throw std::logic_error("requests wait for instances that nothing will free");
  }

  InstanceRouter router;
  std::vector<std::unique_ptr<Instance>> all;

 private:
  ServingProgress progress_of(std::uint32_t number, const std::vector<ServedRequest>& requests,
                              const RunOptions& options) {
    if (!options.progress) return {};
    std::uint64_t all_tokens = 0;
    for (const ServedRequest& q : requests) all_tokens += q.output_tokens;
    return [this, number, all_tokens, &options](std::uint64_t generated) {
      tokens_[number] = generated;
      const std::uint64_t sum = std::accumulate(tokens_.begin(), tokens_.end(), std::uint64_t{0});
      options.progress(system_, sum, all_tokens);
    };
  }

  engine::Engine& engine_;
  const Scenario& s_;
  const SystemConfig& system_;
  const PagedPlan& plan_;
  std::vector<std::uint64_t> tokens_;  // generated, by instance
};

}  // namespace

void run_instances(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                   const PagedPlan& plan, const std::vector<ServedRequest>& requests,
                   std::span<const double> profile, const RunOptions& options, RunResult& r) {
  if (options.platform)
    throw InputError(s.name, "system '" + system.name + "' has several instances; on hardware one runs");
  const InstancesConfig& config = *system.instances;
  const std::unique_ptr<RequestSource> source = make_request_source(s, requests, options.arrivals);
  const std::unique_ptr<engine::Engine> engine = make_engine(options.executor);
  GraphObserver* observer = options.observer ? options.observer(system) : nullptr;
  Instances instances(*engine, *source, s, system, plan);
  for (std::uint32_t i = 0; i < config.count(); ++i)
    instances.add(i, trace, requests, profile, options, observer);
  free_resources(options, *engine);
  instances.run();

  add_instances(instances.all, instances.router, r.metrics);
  set_measured_time(s, r.metrics, false);
  add_account(*engine, r);
  add_results(instances.all, config, r);
  take_busiest(instances.all, r.instances, r.metrics);
  r.instances.gpus = config.count() * s.gpus();
  r.instances.transfers = transfers_of(r.metrics.requests, instances.router);
}

}  // namespace moelab
