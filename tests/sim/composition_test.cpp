// Batching, KV cache, arrivals and tensor parallelism with cached experts: what must be equal between
// compositions, and what each of them conserves.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/tensor_parallel.hpp"
#include "sim/results/result_json.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/request_stream.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/serving_reference.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::composition_test {

using namespace moelab::test;

namespace {

SystemConfig& system_of(SmallRun& run) {
  return run.scenario.systems.front();
}

/// Cached experts on either kind of device, decoders only, whose future nothing knows.
SmallRun random_cached_run(std::uint64_t seed) {
  for (std::uint64_t tried = 0;; ++tried) {
    const std::uint64_t of = seed * 64 + tried;
    SmallRun run = of % 2 == 0 ? random_run(of) : random_discrete_run(of);
    if (!run.scenario.model.has_encoder() && !find_cache_policy(run.system().cache.name)->needs_future)
      return run;
  }
}

MemoryPlan plan_of_cached(const SmallRun& run) {
  return plan_memory(run.scenario, run.system(), run.costs(), run.trace);
}

/// Batches as they come and go, with the expert cache and the page cache as large as they were.
void come_and_go(SmallRun& run, const PolicyParameters& parameters, std::uint32_t block_tokens = 1) {
  const Bytes before = plan_of_cached(run).expert_cache;
  system_of(run).batching = BatchingConfig{{"continuous", parameters}, 64};
  system_of(run).kv.block_tokens = block_tokens;
  run.scenario.budget += Bytes(1e6);  // so that it can be planned
  DeviceProfile& device = run.scenario.device;
  Bytes& total = device.is_discrete() ? device.gpu->own->total.value : device.memory.total.value;
  total += Bytes(1e6);
  const Bytes more = plan_of_cached(run).expert_cache - before;
  run.scenario.budget -= more;
  total -= more;
}

void check_same_but_for_waiting(const Metrics& a, const Metrics& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.token_gaps_s == b.token_gaps_s);
  CHECK(a.hits == b.hits);
  CHECK(a.decode_hits == b.decode_hits);
  CHECK(a.bytes == b.bytes);
  CHECK(a.stall_s == b.stall_s);
  CHECK(a.decode_stall_s == b.decode_stall_s);
  CHECK(a.prefetch.used == b.prefetch.used);
  CHECK(a.prefetch.late == b.prefetch.late);
  CHECK(a.layers.hits == b.layers.hits);
  CHECK(a.layers.stall_s == b.layers.stall_s);
}

/// The passes that form where all requests are there from the start: time has no part in them.
std::vector<NaivePass> passes_of(const SmallRun& run, const MemoryPlan& memory) {
  const std::vector<ServedRequest> requests = served_requests(run.scenario, run.trace);
  ListedRequests source(requests);
  const auto policy = make_batching(run.scenario, run.system(), memory);
  RequestStream stream(source, run.trace, *policy);
  Metrics unused;
  std::vector<NaivePass> passes;
  for (Pass pass; stream.next(0, pass); stream.complete(0, unused)) {
    NaivePass& naive = passes.emplace_back();
    naive.prompt = pass.prompt;
    naive.begins_batch = stream.begins();
    for (const auto& [begin, end] : pass.rows)
      for (std::uint64_t row = begin; row < end; ++row) naive.rows.push_back(row);
  }
  return passes;
}

bool fits(const SmallRun& run) {
  try {
    check_scenario(run.scenario, run.trace);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("composition: one request at a time is static batch 1, to the last digit") {
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1000u); ++seed) {
    SmallRun run = random_cached_run(seed);
    INFO("seed " << seed);
    run.scenario.workload.batch = 1;
    give_room(run, 0.7 * run.scenario.model.moe().experts);
    const RunResult in_turn = run.run();
    come_and_go(run, {{"chunked", 0}, {"swap", static_cast<double>(seed % 2)}});
    const RunResult one_by_one = run.run();
    check_same_but_for_waiting(in_turn.metrics, one_by_one.metrics);
    CHECK(in_turn.metrics.wall_s == one_by_one.metrics.wall_s);
    CHECK(one_by_one.metrics.serving.swapped_out + one_by_one.metrics.serving.dropped == 0);
    ++ran;
  }
  CHECK(ran > 0);
}

TEST_CASE("composition: requests that never meet are served as in turn") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun run = random_cached_run(seed);
    INFO("seed " << seed);
    system_of(run).prefetch = {"none", {}};  // nothing goes on between requests
    system_of(run).prefetch_buffer = 0;
    run.scenario.workload.batch = 1;
    give_room(run, 0.7 * run.scenario.model.moe().experts);
    const Metrics in_turn = run.run().metrics;
    run.scenario.workload.arrivals_per_s = 1e-3;  // a run takes milliseconds
    if (coin(*std::make_unique<Random>(seed))) come_and_go(run, {});
    const Metrics apart = run.run().metrics;
    CHECK(apart.hits == in_turn.hits);
    CHECK(apart.bytes == in_turn.bytes);
    REQUIRE(apart.token_gaps_s.size() == in_turn.token_gaps_s.size());
    for (std::size_t i = 0; i < apart.token_gaps_s.size(); ++i)
      CHECK(apart.token_gaps_s[i] == Approx(in_turn.token_gaps_s[i]).margin(1e-10));
    for (std::size_t i = 0; i < apart.ttft_s.size(); ++i) {
      CHECK(apart.ttft_s[i] == Approx(in_turn.ttft_s[i]).margin(1e-10));
      CHECK(apart.end_to_end_s[i] == Approx(in_turn.end_to_end_s[i]).margin(1e-10));
    }
    CHECK(sum(apart.stall_s) == Approx(sum(in_turn.stall_s)).margin(1e-8));
  }
}

TEST_CASE("composition: requests that meet, preempted or not, find what a naive replay finds") {
  int ran = 0, preempted = 0, chunked = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1000u); ++seed) {
    SmallRun run = random_cached_run(seed);
    INFO("seed " << seed);
    Random random(seed);
    SystemConfig& system = system_of(run);
    const bool swap = run.scenario.device.is_discrete() && coin(random);
    come_and_go(run, {{"chunked", from(random, 0, 1)}, {"swap", swap ? 1 : 0}}, from(random, 1, 3));
    system.batching->max_tokens = from(random, 16, 24);
    system.kv.pressure.name = coin(random) ? "experts-yield" : "requests-yield";
    if (swap) system.kv.swap_space = Bytes(1e6 * random.uniform());
    if (!fits(run)) continue;
    ++ran;
    Recorder record;
    const RunResult r = run.run(&record);
    const Metrics& m = r.metrics;
    std::uint64_t outputs = 0;
    const auto requests = served_requests(run.scenario, run.trace);
    for (const ServedRequest& q : requests) outputs += q.output_tokens;
    CHECK(m.tokens == outputs);
    CHECK(m.end_to_end_s.size() == requests.size());
    CHECK(m.serving.most_blocks <= r.memory.kv_blocks);
    CHECK(sum(m.stall_s) == Approx(m.wall_s).epsilon(1e-9));
    CHECK((r.memory.non_expert + r.memory.kv_cache + r.memory.activations + r.memory.staging +
           r.memory.prefetch + r.memory.expert_cache)
              .value() <= run.scenario.budget.value() * (1 + 1e-12));
    preempted += m.serving.swapped_out + m.serving.dropped > 0 ? 1 : 0;
    chunked += m.serving.rows > 0 && system.batching->policy.parameters.at("chunked") != 0 ? 1 : 0;
    if (swap) CHECK(m.serving.swap_out_bytes == m.serving.swap_in_bytes);
    if (system.prefetch.name != "none" || system.execution.name != "gpu-only" ||
        system.routing.name != "model")
      continue;
    const Counts counts = replay(run, r, {}, passes_of(run, r.memory));
    CHECK(m.hits == counts.hits);
    CHECK(m.decode_hits == counts.decode_hits);
    for (std::size_t t = 0; t < kTiers; ++t) CHECK(m.bytes[t] == Approx(counts.bytes[t]).epsilon(1e-9));
  }
  CHECK(ran > moelab::test::random_runs(600));
  CHECK(preempted > moelab::test::random_runs(50));
  CHECK(chunked > moelab::test::random_runs(200));
}

namespace {

/// `ranks` GPUs that share a model whose experts are cached; the CPU computes nothing.
SmallRun shared_run(std::uint64_t seed, std::uint32_t ranks) {
  Random random(seed);
  SmallRun run = random_discrete_run(seed);
  run.scenario.device.gpu->node = small_node().gpu->node;
  system_of(run).execution = {"gpu-only", {}};
  run.scenario.model = tensor_parallel_part(run.scenario.model, static_cast<int>(ranks));
  give_room(run, 0.6 * run.scenario.model.moe().experts);
  return run;
}

}  // namespace

TEST_CASE("composition: GPUs that share a model are one with a part of it, but for what they sum up") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(400u); ++seed) {
    const std::uint32_t ranks = seed % 2 == 0 ? 2 : 4;
    SmallRun run = shared_run(seed, ranks);
    INFO("seed " << seed);
    const RunResult part = run.run();
    run.scenario.tensor_parallel = ranks;
    // Each of them has the logits of all parts of the vocabulary.
    run.scenario.budget += (ranks - 1) * 4.0 * run.scenario.workload.batch * Bytes(run.scenario.model.vocab);
    RunOptions free;
    free.free_resources = {"collective"};
    const RunResult unhindered = run_system(run.scenario, run.system(), run.trace, free);
    CHECK(unhindered.metrics.token_gaps_s == part.metrics.token_gaps_s);
    CHECK(unhindered.metrics.ttft_s == part.metrics.ttft_s);
    CHECK(unhindered.metrics.hits == part.metrics.hits);
    CHECK(unhindered.metrics.bytes == part.metrics.bytes);
    CHECK(unhindered.memory.host_experts == ranks * part.memory.host_experts);

    Recorder record;
    const RunResult r = run.run(&record);
    // Each pass sums up behind every attention and every feed-forward part.
    std::size_t sums = 0, passes = 0;
    for (const DoneGraph& graph : record.graphs)
      for (const DoneOp& op : graph.ops)
        if (op.label.kind == OpKind::all_reduce && !graph.holds(OpKind::predict)) ++sums;
    for (const NaivePass& pass : naive_passes(run.trace, run.scenario.workload.batch, false))
      passes += pass.rows.empty() ? 0 : 1;
    CHECK(sums == 2 * run.scenario.model.layers.size() * passes);
    if (system_of(run).prefetch.name != "none") continue;
    const double summed = r.metrics.stall_s[static_cast<std::size_t>(Cause::all_reduce)];
    CHECK(summed > 0);
    CHECK(r.metrics.wall_s == Approx(part.metrics.wall_s + summed).epsilon(1e-9));
  }
}

TEST_CASE("composition: the CPU computes whole experts for GPUs that share a model") {
  // 2 GFLOP/s and 500 MB/s: a roofline, linear in an expert's width but for its launches.
  SmallRun run = shared_run(3, 2);
  system_of(run) = plain_system();
  system_of(run).execution = {"cpu-only", {}};
  run.trace = steady_trace(run.scenario.model, {3, 4});
  run.scenario.workload.batch = 1;
  give_room(run, 0.5);
  run.scenario.tensor_parallel = 2;
  const Architecture& part = run.scenario.model;
  FeedForward whole = part.moe();
  whole.width *= 2;
  const double seconds = TimingModel(run.scenario.device).cpu_expert(part, whole, 1)->value() +
                         run.scenario.device.cpu.dispatch.value.value();
  Recorder record;
  run.run(&record);
  int computed = 0;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops)
      if (op.label.kind == OpKind::cpu_execute && op.label.tokens == 1) {
        CHECK(op.end - op.start == Approx(seconds).epsilon(1e-9));
        ++computed;
      }
  CHECK(computed > 0);
}

TEST_CASE("composition: a window with everything resident is a cache with everything resident") {
  // Where a step uses one expert a layer, as one kernel for all experts is then one for that expert.
  const bool discrete = GENERATE(true, false);
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u); ++seed) {
    INFO("seed " << seed << (discrete ? ", discrete" : ", one memory"));
    Random random(seed);
    ModelShape shape;
    shape.moe_layers = static_cast<int>(from(random, 1, 4));
    shape.dense_layers = static_cast<int>(from(random, 0, 2));
    shape.experts = static_cast<int>(from(random, 1, 6));
    shape.top_k = 1;
    SmallRun run;
    Scenario& s = run.scenario;
    s.name = "resident";
    s.model = small_model(shape);
    s.device = discrete ? small_node() : small_device();
    if (coin(random)) s.device.cpu.dispatch.value = Seconds(1e-6);
    s.workload.batch = 1;
    s.workload.trace_file = "made up";
    s.workload.prefilled = true;
    const SystemConfig cached = [&] {
      SystemConfig c = plain_system("cached");
      c.cache.name = "fixed-popular";
      if (coin(random)) c.host_per_layer = Seconds(1e-5);
      return c;
    }();
    SystemConfig window = cached;
    window.name = "window";
    window.cache = {"none", {}};
    window.paging.emplace().backends = {"resident"};
    window.batching.emplace();
    window.kv.pressure.name = "requests-yield";
    s.systems = {cached};
    std::vector<Lengths> lengths;
    for (std::uint32_t i = from(random, 1, 4); i > 0; --i)
      lengths.push_back({from(random, 1, 4), from(random, 1, 12)});
    run.trace = random_trace(random, s.model, lengths, false);
    s.budget = Bytes(9e8);
    const Metrics in_cache = run.run().metrics;
    CHECK(in_cache.hits[index(State::M)] == 0);  // all fit
    s.systems = {window};
    const Metrics in_window = run.run().metrics;
    REQUIRE(in_window.token_gaps_s.size() == in_cache.token_gaps_s.size());
    CHECK(in_window.wall_s == Approx(in_cache.wall_s).epsilon(1e-12));
    for (std::size_t i = 0; i < in_window.token_gaps_s.size(); ++i)
      CHECK(in_window.token_gaps_s[i] == Approx(in_cache.token_gaps_s[i]).epsilon(1e-9));
  }
}

TEST_CASE("composition: oracles know the steps of one request at a time, and no others") {
  SmallRun run = random_cached_run(5);
  run.scenario.device = small_device();
  system_of(run) = plain_system();
  system_of(run).cache.name = "belady";
  run.scenario.workload.batch = 1;
  give_room(run, 1.5);
  const RunResult in_turn = run.run();
  come_and_go(run, {});
  CHECK(run.run().metrics.hits == in_turn.metrics.hits);
  run.scenario.workload.batch = 2;
  CHECK_THROWS_WITH(check_scenario(run.scenario, run.trace),
                    Catch::Contains("which requests meet in a step depends on when they come") &&
                        Catch::Contains("expected 'workload.batch: 1'"));
}

namespace {

std::set<std::string> parts_of(const RunResult& r) {
  std::set<std::string> parts;
  const nlohmann::json j = nlohmann::json::parse(results_json({r}));
  for (const char* part : {"hits", "decode_hits", "bytes", "prefetch", "routing", "execution", "serving"})
    if (j.contains(part)) parts.insert(part);
  return parts;
}

}  // namespace

TEST_CASE("composition: results hold what was counted, and nothing that was not") {
  using Parts = std::set<std::string>;
  SmallRun run = random_discrete_run(1);
  system_of(run) = plain_system();
  give_room(run, 1);
  CHECK(parts_of(run.run()) == Parts{"hits", "decode_hits", "bytes", "execution"});
  system_of(run).prefetch.name = "layer-window";
  system_of(run).prefetch_buffer = 2;
  system_of(run).routing.name = "smoe";
  give_room(run, 1);
  CHECK(parts_of(run.run()) == Parts{"hits", "decode_hits", "bytes", "execution", "prefetch", "routing"});
  come_and_go(run, {});
  CHECK(parts_of(run.run()).contains("serving"));

  const SmallRun paged = paged_run(small_model({}), {"resident", "host"});
  const RunResult r = paged.run();
  CHECK(parts_of(r) == Parts{"bytes", "serving"});
  CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::host)] == r.metrics.serving.loaded_bytes);

  Scenario cluster = cluster_scenario(small_model(ModelShape()), {1, 2}, "uniform");
  CHECK(parts_of(run_cluster(cluster)).empty());
  SystemConfig& alone = cluster.systems.front();
  alone.placed.reset();
  alone.batching.reset();
  alone.cache.name = "lru";
  const RunResult of_servers = run_cluster(cluster);
  CHECK(parts_of(of_servers) == Parts{"hits", "decode_hits", "bytes", "execution"});
  // What was missing was loaded, of all servers.
  const auto missing = static_cast<double>(of_servers.metrics.hits[index(State::M)]);
  CHECK(missing > 0);
  CHECK(of_servers.metrics.bytes[static_cast<std::size_t>(Tier::host)] ==
        Approx(missing * expert_bytes(cluster.model).value()).epsilon(1e-9));
}

}  // namespace moelab::composition_test
