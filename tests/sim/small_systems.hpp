// Small models, devices, traces and systems for tests of the serving loop, and a record of what a run did.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/architecture.hpp"
#include "models/device.hpp"
#include "models/timing.hpp"
#include "policies/cache/cache.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/graph_observer.hpp"
#include "tests/sim/small_devices.hpp"
#include "traces/random.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::test {

struct ModelShape {
  int moe_layers = 2;  // of the decoder
  int dense_layers = 0;
  int experts = 4;
  int top_k = 2;
  int matrices = 3;
  int shared_width = 0;
  int encoder_layers = 0;  // all with experts
};

inline Architecture small_model(const ModelShape& shape) {
  Architecture a;
  a.name = "small-model";
  a.title = "Small model";
  a.hidden = 32;
  a.vocab = 100;
  Layer layer;
  layer.attention.heads = 4;
  layer.attention.kv_heads = 2;
  layer.attention.head_dim = layer.attention.value_dim = 8;
  layer.feed_forward.width = 48;
  Layer moe = layer;
  moe.feed_forward.kind = FeedForward::Kind::moe;
  moe.feed_forward.experts = shape.experts;
  moe.feed_forward.top_k = shape.top_k;
  moe.feed_forward.matrices = shape.matrices;
  moe.feed_forward.shared_width = shape.shared_width;
  for (int i = 0; i < shape.encoder_layers; ++i) {
    a.layers.push_back(moe);
    a.layers.back().stack = Stack::encoder;
  }
  layer.cross_attention = moe.cross_attention = shape.encoder_layers > 0;
  for (int i = 0; i < shape.dense_layers; ++i) a.layers.push_back(layer);
  for (int i = 0; i < shape.moe_layers; ++i) a.layers.push_back(moe);
  return a;
}

/// How long each request of a trace is.
struct Lengths {
  std::uint32_t prompt;
  std::uint32_t decode;  // rows
};

/// Uniform routing by the best of uniform scores, now and then by something else. With `gaps`, a layer
/// sometimes does not run for a token.
inline RoutingTrace random_trace(Random& random, const Architecture& model,
                                 const std::vector<Lengths>& requests, bool scores = true,
                                 bool gaps = false) {
  const FeedForward& ff = model.moe();
  const std::vector<int> moe_layers = model.moe_layers();
  const auto k = static_cast<std::uint32_t>(ff.top_k);
  TraceDescription description;
  description.model = model.name;
  description.provenance = "made up by a test";
  description.synthetic = true;
  description.layers = static_cast<std::uint32_t>(moe_layers.size());
  description.experts = static_cast<std::uint32_t>(ff.experts);
  description.top_k = k;
  description.gate_scores = scores;
  if (scores) description.router_scores = RouterScores::sigmoid;
  RoutingTraceBuilder builder(description);
  std::vector<std::uint16_t> order(static_cast<std::size_t>(ff.experts));
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<std::uint16_t>(e);
  std::vector<float> score(order.size());
  const auto add = [&](Phase phase) {
    std::vector<std::uint16_t> ids;
    std::vector<float> gate, router;
    for (const int i : moe_layers) {
      const bool encoder = model.layers[static_cast<std::size_t>(i)].stack == Stack::encoder;
      const bool runs = model.has_encoder() ? encoder == (phase == Phase::encoder) : true;
      const bool absent = !runs || (gaps && random.below(8) == 0);
      for (float& x : score) x = absent ? 0 : static_cast<float>(random.uniform());
      std::sort(order.begin(), order.end(), [&](auto a, auto b) { return score[a] > score[b]; });
      if (random.below(16) == 0) std::swap(order.front(), order.back());
      for (std::uint32_t r = 0; r < k; ++r) {
        ids.push_back(absent ? kNoExpert : order[r]);
        if (scores) gate.push_back(score[order[r]]);
      }
      if (scores) router.insert(router.end(), score.begin(), score.end());
    }
    builder.add_token({phase, ids, gate, router, {}, {}});
  };
  for (const Lengths& q : requests) {
    builder.begin_request();
    for (std::uint32_t t = 0; t < q.prompt; ++t) add(model.has_encoder() ? Phase::encoder : Phase::prefill);
    for (std::uint32_t t = 0; t < q.decode; ++t) add(Phase::decode);
  }
  return builder.finish();
}

/// One finished operation.
struct DoneOp {
  engine::ResourceId resource;
  double start, end;
  OpLabel label;
};
/// One graph as the observer saw it; what never started is left out.
struct DoneGraph {
  std::uint64_t pass;
  std::int32_t layer;  // of the model; -1: the end of a pass, or a fetch
  double submitted;
  std::vector<DoneOp> ops;
  bool is_fetch() const {
    return layer < 0 && std::any_of(ops.begin(), ops.end(), [](const DoneOp& op) {
             return op.label.kind != OpKind::dense && op.label.kind != OpKind::host;
           });
  }
  bool holds(OpKind kind) const {
    return std::any_of(ops.begin(), ops.end(), [kind](const DoneOp& op) { return op.label.kind == kind; });
  }
};

class Recorder final : public GraphObserver {
 public:
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override {
    DoneGraph done{pass, layer, graph.graph.submitted_at(), {}};
    for (engine::OpIndex op = 0; op < graph.graph.size(); ++op)
      if (graph.graph.was_started(op))
        done.ops.push_back(
            {graph.graph.resource(op), graph.graph.start(op), graph.graph.end(op), graph.labels[op]});
    graphs.push_back(std::move(done));
  }
  std::vector<DoneGraph> graphs;
};

/// A scenario of one system, with the trace that it runs on.
struct SmallRun {
  Scenario scenario;
  RoutingTrace trace;
  const SystemConfig& system() const { return scenario.systems.front(); }
  ExpertCosts costs() const { return expert_costs(scenario.model, TimingModel(scenario.device), system()); }
  RunResult run(GraphObserver* observer = nullptr) const {
    RunOptions options;
    options.observer = [observer](const SystemConfig&) { return observer; };
    return run_system(scenario, system(), trace, options);
  }
};

/// A system that keeps nothing, stores whole tensors and reads them past the page cache.
inline SystemConfig plain_system(std::string name = "plain") {
  SystemConfig s;
  s.name = s.title = std::move(name);
  s.page_cache = false;
  return s;
}

/// What a step of so many rows has besides weights and KV cache, in BF16: each row going into the widest
/// layer, coming out of it and in between; and so many rows of logits in single precision.
inline double bytes_of_rows(const Architecture& model, double rows, double logits) {
  double widest = 0;
  for (const Layer& layer : model.layers) {
    const FeedForward& ff = layer.feed_forward;
    double between = 0;
    if (ff.kind == FeedForward::Kind::dense) between = (ff.matrices - 1) * ff.width;
    if (ff.kind == FeedForward::Kind::moe)
      between = (ff.matrices - 1) * (ff.top_k * ff.width + ff.shared_width) + ff.top_k * model.hidden;
    widest = std::max(widest, between);
  }
  return rows * 2 * (2 * model.hidden + widest) + 4.0 * logits * model.vocab;
}
/// Logits of each request, and of each draft; or a draft model's rows, where these take more.
inline double bytes_of_rows(const Scenario& s, double rows) {
  const double batch = s.workload.batch, each = 1.0 + s.speculation.tokens;
  const double target = bytes_of_rows(s.model, rows, batch * each * s.tensor_parallel);
  if (s.speculation.tokens == 0 || !s.speculation.model) return target;
  return std::max(target, bytes_of_rows(*s.speculation.model, rows, batch));
}

/// Bytes that the budget must hold before it can cache an expert, by the definition in memory_plan.hpp.
inline double bytes_before_cache(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const FeedForward& ff = s.model.moe();
  const double expert = expert_bytes(s.model).value();
  const SpeculationConfig& spec = s.speculation;
  const bool drafts = spec.tokens > 0;
  const double each = 1.0 + spec.tokens;  // rows of a request that decodes
  const double of_draft = drafts && spec.model ? kv_bytes_per_token(*spec.model).value() : 0;
  const double draft = !drafts ? 0 : spec.model ? non_expert_bytes(*spec.model).value() : spec.head.value();
  double most_kv = 0, most_rows = 1;
  for (std::size_t first = 0; first < trace.requests().size(); first += s.workload.batch) {
    double kv = 0, rows = 0;
    for (std::size_t i = first; i < std::min(first + s.workload.batch, trace.requests().size()); ++i) {
      const TraceRequest& q = trace.requests()[i];
      const auto prompt = static_cast<double>(q.decode_begin - q.begin);
      const double decoder = static_cast<double>(q.end - q.decode_begin) + 1;  // tokens of an encoder's
      kv += s.model.has_encoder() ? cross_kv_bytes_per_token(s.model).value() * prompt +
                                        kv_bytes_per_token(s.model).value() * decoder
                                  : (kv_bytes_per_token(s.model).value() + of_draft) * (prompt + decoder);
      kv += each * state_bytes_per_request(s.model).value();
      rows += s.workload.prefilled ? each : std::max(prompt, each);
    }
    most_kv = std::max(most_kv, kv);
    most_rows = std::max(most_rows, rows);
  }
  double in_use = std::min<double>(ff.experts, ff.top_k * each * s.workload.batch);
  if (system.fetch_whole_layer) in_use = ff.experts;
  return non_expert_bytes(s.model).value() + draft + most_kv + bytes_of_rows(s, most_rows) +
         in_use * expert * (system.compressed ? 2 : 1) + system.prefetch_buffer * expert;
}

/// A budget that leaves room for so many full experts a layer, and as much memory outside it.
inline void give_room(SmallRun& run, double experts_a_layer) {
  run.scenario.budget =
      Bytes(bytes_before_cache(run.scenario, run.system(), run.trace) +
            experts_a_layer * run.trace.layers() * expert_bytes(run.scenario.model).value());
  DeviceProfile& device = run.scenario.device;
  if (device.is_discrete())
    device.gpu->own->total.value = device.gpu->own->reserve.value + run.scenario.budget * 2;
  else
    device.memory.total.value = device.memory.system_reserve.value + run.scenario.budget * 2;
}

/// A random way to draft: look-up, a head by its time or its bytes, or a model of dense layers.
inline SpeculationConfig random_speculation(Random& random) {
  SpeculationConfig s;
  s.tokens = 1 + static_cast<std::uint32_t>(random.below(5));
  constexpr std::array<double, 4> kRates = {0, 0.4, 0.8, 1};
  s.acceptance = kRates[random.below(kRates.size())];
  switch (random.below(4)) {
    case 0:
      s.time = Seconds(1e-5 * random.uniform());
      break;
    case 1:
      s.head = Bytes(4096);
      break;
    case 2:
      s.model = small_model({.moe_layers = 0, .dense_layers = 2});
      break;
    default:
      break;
  }
  return s;
}

/// One request of `prompt` and `decode` rows, every one routed to experts 0 .. k-1 of every layer.
inline RoutingTrace steady_trace(const Architecture& model, Lengths lengths) {
  const FeedForward& ff = model.moe();
  const auto layers = static_cast<std::uint32_t>(model.moe_layers().size());
  const auto k = static_cast<std::uint32_t>(ff.top_k);
  RoutingTraceBuilder builder(model.name, "made up by a test", true, layers,
                              static_cast<std::uint32_t>(ff.experts), k, false);
  std::vector<std::uint16_t> ids;
  for (std::uint32_t l = 0; l < layers; ++l)
    for (std::uint32_t r = 0; r < k; ++r) ids.push_back(static_cast<std::uint16_t>(r));
  builder.begin_request();
  for (std::uint32_t t = 0; t < lengths.prompt; ++t) builder.add_token(Phase::prefill, ids, {});
  for (std::uint32_t t = 0; t < lengths.decode; ++t) builder.add_token(Phase::decode, ids, {});
  return builder.finish();
}

inline bool coin(Random& random) {
  return random.below(2) == 1;
}
inline std::uint32_t from(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random.below(high - low + 1));
}
template <class Entry>
std::string any_name(Random& random, const PolicyTable<Entry>& table) {
  return std::string(table[random.below(table.size())].info.name);
}

/// Shares of memory of the pools in use, adding up to 1.
inline void random_ratios(Random& random, SystemConfig& system) {
  double sum = 0;
  for (std::size_t p = 0; p < 4; ++p)
    if (system.pools[p]) sum += system.ratios[p] = 0.1 + random.uniform();
  for (double& ratio : system.ratios) ratio /= sum;
}

inline SystemConfig random_system(Random& random, const Architecture& model) {
  SystemConfig s = plain_system("random");
  s.compressed = coin(random);
  if (s.compressed) {
    s.codec = "lz";
    s.shards = from(random, 1, 3);
    s.threads = from(random, 1, 4);
    s.worker_reads = coin(random);
  }
  s.page_cache = coin(random);
  s.fetch_whole_layer = from(random, 0, 3) == 0;
  const bool tiny = model.moe().experts <= (s.compressed ? 1 : 2) && s.shards <= 1;  // few orders to try
  do s.schedule.name = any_name(random, schedule_policies());
  while (s.schedule.name == "exhaustive" && !tiny);
  s.cache.name = any_name(random, cache_policies());
  if (find_cache_policy(s.cache.name)->uses_pools) {
    for (std::size_t p = 1; p < 4; ++p) s.pools[p] = s.compressed && coin(random);
    s.planning.name = any_name(random, planning_policies());
    s.plan_step = 0.25;
    if (s.planning.name == "fixed") random_ratios(random, s);
  } else if (s.compressed) {
    s.kept_as = static_cast<State>(random.below(4));
  }
  s.prefetch.name = any_name(random, prefetch_policies());
  if (s.prefetch.name != "none") s.prefetch_buffer = from(random, 1, 12);
  if (s.prefetch.name == "layer-window")
    s.prefetch.parameters = {{"depth", from(random, 1, 3)}, {"wrap", from(random, 0, 1)}};
  if (coin(random)) s.host_per_layer = Seconds(1e-5 * from(random, 0, 3));
  if (coin(random)) s.host_per_pass = Seconds(1e-5 * from(random, 0, 3));
  return s;
}

inline SmallRun random_run(std::uint64_t seed) {
  Random random(seed);
  SmallRun run;
  Scenario& s = run.scenario;
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 4));
  shape.dense_layers = static_cast<int>(from(random, 0, 1));
  shape.experts = static_cast<int>(from(random, 1, 8));
  shape.top_k = static_cast<int>(from(random, 1, static_cast<std::uint32_t>(std::min(shape.experts, 3))));
  shape.matrices = static_cast<int>(from(random, 2, 3));
  shape.shared_width = coin(random) ? 48 : 0;
  shape.encoder_layers = from(random, 0, 3) == 0 ? static_cast<int>(from(random, 1, 3)) : 0;
  s.name = "random";
  s.seed = seed;
  s.model = small_model(shape);
  s.device = small_device();
  if (coin(random)) s.device.cpu.dispatch.value = Seconds(1e-6);
  s.workload.batch = from(random, 1, 3);
  s.workload.trace_file = "made up";  // so that plans use the trace itself
  std::vector<Lengths> lengths;
  for (std::uint32_t i = from(random, 1, 5); i > 0; --i)
    lengths.push_back({from(random, s.model.has_encoder() ? 1 : 0, 4), from(random, 1, 12)});
  s.systems.push_back(random_system(random, s.model));
  Random reading(seed + 0x2ead);
  SystemConfig& system = s.systems.back();
  if (find_cache_policy(system.cache.name)->may_span_model && reading.below(2) == 1)
    system.cache_domain = CacheDomain::model;
  if (system.cache.name == "zipmoe")
    for (const char* name : {"reset", "slot_counts", "spill", "count_tokens"})
      system.cache.parameters[name] = reading.below(2) == 1 ? 1 : 0;
  // A planner wants every layer to run.
  const bool gaps = !find_cache_policy(run.system().cache.name)->uses_pools && coin(random);
  run.trace = random_trace(random, s.model, lengths, true, gaps);
  give_room(run, random.uniform() * 1.2 * shape.experts);
  const double weights = expert_bytes(s.model).value() * shape.experts * run.trace.layers();
  s.device.memory.total.value =
      s.device.memory.system_reserve.value + s.budget + Bytes(weights * 1.2 * random.uniform());
  Random cpu(seed + 0x5eed);
  if (cpu.below(2) == 1) give_cpu_work(s.device, cpu);
  return run;
}

}  // namespace moelab::test
