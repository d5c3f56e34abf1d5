// The serving loop against naive recomputation, closed forms and conservation laws, on small models.
#include "sim/run.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/page_cache.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/timing.hpp"
#include "policies/planning/planning.hpp"
#include "sim/results/result_json.hpp"
#include "sim/serving/future_uses.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/page_cache.hpp"
#include "sim/serving/pool_planning.hpp"
#include "sim/serving/request_stream.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/serving_reference.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::serving_test {

using namespace moelab::test;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(600u, 120u);

/// Demand graphs in the order of the loop: for each pass its layers (dense part, then experts) and its end.
void check_graph_sequence(const SmallRun& run, const Recorder& record, const RunResult& r) {
  check_no_gaps(record, r);
  // An expert executes once for each pass and layer that use it.
  std::size_t layer_graphs = 0;
  const auto passes = naive_passes(run.trace, run.scenario.workload.batch, run.scenario.model.has_encoder());
  std::map<std::pair<std::uint64_t, std::int32_t>, std::multiset<std::uint32_t>> executed, expected;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops)
      if (op.label.kind == OpKind::execute) executed[{graph.pass, graph.layer}].insert(op.label.expert);
  for (std::size_t p = 0; p < passes.size(); ++p)
    for (const auto& [layer, moe_layer] : layers_of(run.scenario.model, passes[p].prompt)) {
      ++layer_graphs;
      if (moe_layer < 0) continue;
      ++layer_graphs;
      for (const auto& [e, tokens] : naive_uses(run.trace, passes[p], static_cast<std::uint32_t>(moe_layer)))
        expected[{p, layer}].insert(e);
    }
  CHECK(executed == expected);
  const auto demands = std::count_if(record.graphs.begin(), record.graphs.end(), [](const DoneGraph& g) {
    return g.layer >= 0 && !g.holds(OpKind::predict);
  });
  CHECK(static_cast<std::size_t>(demands) == layer_graphs);
}

/// What each MoE layer saw in decode passes, from the trace and from the record.
void check_layers(const SmallRun& run, const Recorder& record, const RunResult& r) {
  const auto passes = naive_passes(run.trace, run.scenario.workload.batch, run.scenario.model.has_encoder());
  std::vector<double> uses(run.trace.layers(), 0), seconds(run.trace.layers(), 0);
  std::map<std::pair<std::uint64_t, std::int32_t>, std::pair<double, double>> spans;  // begin, end
  for (const DoneGraph& graph : record.graphs) {
    if (graph.layer < 0) continue;
    auto& span = spans.try_emplace({graph.pass, graph.layer}, graph.submitted, 0).first->second;
    span.second = std::max(span.second, end_of(graph));
  }
  for (std::size_t p = 0; p < passes.size(); ++p) {
    if (passes[p].prompt) continue;
    for (const auto& [layer, moe_layer] : layers_of(run.scenario.model, false)) {
      if (moe_layer < 0) continue;
      const auto number = static_cast<std::size_t>(moe_layer);
      uses[number] +=
          static_cast<double>(naive_uses(run.trace, passes[p], static_cast<std::uint32_t>(moe_layer)).size());
      const auto& [begin, end] = spans.at({p, layer});
      seconds[number] += end - begin;
    }
  }
  const LayerCounts& counts = r.metrics.layers;
  REQUIRE(counts.stall_s.size() == uses.size());
  for (std::size_t s = 0; s < kStates; ++s)
    CHECK(sum(counts.hits[s]) == static_cast<double>(r.metrics.decode_hits[s]));
  for (std::size_t layer = 0; layer < uses.size(); ++layer) {
    double found = 0;
    for (const auto& hits : counts.hits) found += static_cast<double>(hits[layer]);
    CHECK(found == uses[layer]);
    CHECK(counts.stall_s[layer] == Approx(seconds[layer]).epsilon(1e-9));
  }
}

/// Runs of a pass say what row by row counting says, through windows of several lengths.
void check_runs(const std::vector<RowRun>& runs, const NaiveAttention& naive) {
  for (const int window : {0, 1, 2, 3, 5, 9, 100}) {
    INFO("window " << window);
    double prompts = 0, decoding = 0, encoded = 0;
    for (const RowRun& run : runs) {
      (run.prompt ? prompts : decoding) += attended_tokens(run, window);
      encoded += run.rows * run.encoded;
    }
    CHECK(prompts == sum_through(naive.prompts, window));
    CHECK(decoding == sum_through(naive.decoding, window));
    CHECK(encoded == sum_through(naive.encoded, 0));
  }
}

/// Times of tokens from the ends of passes.
void check_token_times(const SmallRun& run, const Recorder& record, const RunResult& r) {
  const auto passes = naive_passes(run.trace, run.scenario.workload.batch, run.scenario.model.has_encoder());
  std::vector<double> end(passes.size(), 0);
  for (const DoneGraph& graph : record.graphs)
    if (!graph.is_fetch()) end[graph.pass] = std::max(end[graph.pass], end_of(graph));
  std::map<std::size_t, double> last;
  std::map<std::size_t, std::uint64_t> left;
  const auto requests = run.trace.requests();
  for (const NaivePass& pass : passes)
    for (const std::size_t q : pass.gets_token) ++left[q];
  std::vector<double> ttft, gaps, whole;
  std::uint64_t tokens = 0;
  double arrival = 0;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    if (passes[p].begins_batch) arrival = p == 0 ? 0 : end[p - 1];
    for (const std::size_t q : passes[p].gets_token) {
      ++tokens;
      if (last.contains(q))
        gaps.push_back(end[p] - last[q]);
      else
        ttft.push_back(end[p] - arrival);
      last[q] = end[p];
      if (--left[q] == 0) whole.push_back(end[p] - arrival);
    }
  }
  CHECK(r.metrics.tokens == tokens);
  CHECK(r.metrics.ttft_s == ttft);
  CHECK(r.metrics.token_gaps_s == gaps);
  CHECK(r.metrics.end_to_end_s == whole);
  CHECK(whole.size() == requests.size());
}

}  // namespace

TEST_CASE("serving: random systems keep the laws and agree with naive replays") {
  std::map<std::string, int> seen;
  PrefetchCounts all;
  for (std::uint64_t seed = 1; seed <= kRandomRuns; ++seed) {
    const SmallRun run = random_run(seed);
    const SystemConfig& system = run.system();
    INFO("seed " << seed << ", cache " << system.cache.name << ", schedule " << system.schedule.name
                 << ", prefetch " << system.prefetch.name);
    Recorder record;
    const RunResult r = run.run(&record);
    check_graph_sequence(run, record, r);
    check_token_times(run, record, r);
    check_layers(run, record, r);
    check_conservation(run, record, r);
    check_prefetch_counts(r, record);
    // Without an observer: layers that have been seen before are not run again, and every figure is the same.
    CHECK(results_json({run.run()}) == results_json({r}));

    std::uint64_t used = 0, used_decoding = 0;
    for (const NaivePass& pass :
         naive_passes(run.trace, run.scenario.workload.batch, run.scenario.model.has_encoder()))
      for (std::uint32_t l = 0; l < run.trace.layers(); ++l) {
        used += naive_uses(run.trace, pass, l).size();
        used_decoding += pass.prompt ? 0 : naive_uses(run.trace, pass, l).size();
      }
    CHECK(sum(r.metrics.hits) == static_cast<double>(used));
    CHECK(sum(r.metrics.decode_hits) == static_cast<double>(used_decoding));
    if (system.prefetch.name == "none") {
      const Counts expected = replay(run, r);
      CHECK(r.metrics.hits == expected.hits);
      CHECK(r.metrics.decode_hits == expected.decode_hits);
      for (std::size_t t = 0; t < expected.bytes.size(); ++t)
        CHECK(r.metrics.bytes[t] == Approx(expected.bytes[t]).epsilon(1e-9));
    }
    for (const std::string& name : {"cache " + system.cache.name, "schedule " + system.schedule.name,
                                    "prefetch " + system.prefetch.name, "planning " + system.planning.name})
      ++seen[name];
    all.used += r.metrics.prefetch.used;
    all.late += r.metrics.prefetch.late;
    all.unused += r.metrics.prefetch.unused;
    all.cancelled += r.metrics.prefetch.cancelled;
  }
  // The draw has met everything there is.
  for (const auto& entry : cache_policies()) CHECK(seen["cache " + std::string(entry.info.name)] > 0);
  for (const auto& entry : schedule_policies()) CHECK(seen["schedule " + std::string(entry.info.name)] > 0);
  for (const auto& entry : prefetch_policies()) CHECK(seen["prefetch " + std::string(entry.info.name)] > 0);
  for (const auto& entry : planning_policies()) CHECK(seen["planning " + std::string(entry.info.name)] > 0);
  CHECK(all.used > 100);
  CHECK(all.late > 100);
  CHECK(all.unused > 100);
  CHECK(all.cancelled > 100);
}

TEST_CASE("serving: the same scenario gives the same bytes, in any order of systems") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u); ++seed) {
    SmallRun run = random_run(seed);
    SmallRun other = random_run(seed + 1000);
    const std::string alone = results_json({run.run()});
    CHECK(results_json({run.run()}) == alone);
    other.run();
    CHECK(results_json({run.run()}) == alone);
  }
}

TEST_CASE("serving: another seed gives another generated trace and another result") {
  SmallRun run = random_run(7);
  Scenario& s = run.scenario;
  s.model = small_model({.moe_layers = 2, .experts = 8, .top_k = 2});
  s.workload = {};
  s.workload.batch = 2;
  s.workload.requests = 4;
  s.workload.prompt_tokens = 5;
  s.workload.output_tokens = 9;
  s.workload.skew = 1;
  s.systems = {plain_system()};
  s.systems[0].cache.name = "lru";
  std::set<std::string> results;
  for (const std::uint64_t seed : {1u, 2u, 1u}) {
    s.seed = seed;
    run.trace = scenario_trace(s);
    give_room(run, 3);
    RunResult r = run.run();
    r.seed = 0;  // which is in the result for itself
    results.insert(results_json({r}));
  }
  CHECK(results.size() == 2);
}

namespace {

/// One layer of experts, one request that uses experts 0 .. k-1 in every pass.
SmallRun steady_run(ModelShape shape, Lengths lengths, SystemConfig system = plain_system()) {
  SmallRun run;
  run.scenario.name = "steady";
  run.scenario.model = small_model(shape);
  run.scenario.device = small_device();
  run.scenario.systems = {std::move(system)};
  run.trace = steady_trace(run.scenario.model, lengths);
  give_room(run, shape.experts);
  return run;
}

struct Times {
  double attention, expert, shared, head, dispatch;
};
/// What one decode pass of one token takes apart from loading, from the work functions and the timing model.
Times pass_times(const SmallRun& run, double tokens, double context, double queries_per_read) {
  const Scenario& s = run.scenario;
  const TimingModel timing(s.device);
  const Layer& layer = s.model.layers.back();
  return {timing.kernel(attention_work(s.model, layer, tokens, context, queries_per_read)).value(),
          timing.kernel(expert_work(s.model, s.model.moe(), tokens)).value(),
          timing.kernel(dense_work(s.model, layer, tokens)).value(),
          timing.kernel(head_work(s.model, 1)).value(), timing.dispatch().value()};
}

}  // namespace

TEST_CASE("serving: a decode pass with everything resident takes its dense and expert times") {
  for (const int shared : {0, 48, 4000}) {
    SystemConfig system = plain_system();
    system.cache.name = "lru";
    SmallRun run = steady_run({.moe_layers = 1, .top_k = 3, .shared_width = shared}, {5, 3}, system);
    run.scenario.device.cpu.dispatch.value = Seconds(3e-7);
    const RunResult r = run.run();
    REQUIRE(r.metrics.token_gaps_s.size() == 3);
    for (std::size_t row = 0; row < 3; ++row) {
      // The row attends to 5 prompt tokens, `row` rows before it and itself. Experts run one after the other
      // on their stream, behind the shared ones, which need no loading; each hand-off costs `dispatch`.
      const Times t = pass_times(run, 1, 5 + static_cast<double>(row) + 1, 1);
      const double experts = 3 * (t.expert + t.dispatch);
      const double before = shared > 0 ? t.shared + t.dispatch : 0;
      CHECK(r.metrics.token_gaps_s[row] ==
            Approx(t.attention + t.dispatch + before + experts + t.head + t.dispatch).epsilon(1e-12));
    }
    CHECK(r.metrics.decode_hits[index(State::F)] == 9);
    CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] ==
          3 * expert_bytes(run.scenario.model).value());  // each once, in the prompt's pass
  }
}

TEST_CASE("serving: loading whole tensors on demand takes the closed form") {
  for (const double ssd_rate : {5e8, 5e11}) {  // reads slower than execution, and faster
    SmallRun run = steady_run({.moe_layers = 1, .experts = 6, .top_k = 4}, {5, 2});
    run.scenario.device.ssd.read.value = Curve::affine(0, ssd_rate);
    const RunResult r = run.run();
    const double read = expert_tensor_bytes(run.scenario.model).value() / ssd_rate;
    for (std::size_t row = 0; row < 2; ++row) {
      // Reads follow each other on the I/O thread, 3 an expert; expert j executes once its reads are done and
      // expert j - 1 has executed: the end is max over j of (j + 1) * 3 * read + (4 - j) * execute.
      const Times t = pass_times(run, 1, 5 + static_cast<double>(row) + 1, 1);
      double experts = 0;
      for (int j = 0; j < 4; ++j) experts = std::max(experts, (j + 1) * 3 * read + (4 - j) * t.expert);
      CHECK(r.metrics.token_gaps_s[row] == Approx(t.attention + experts + t.head).epsilon(1e-12));
    }
    CHECK(r.metrics.hits[index(State::M)] == 12);
  }
}

TEST_CASE("serving: a prompt's pass takes its dense and expert times") {
  SystemConfig system = plain_system();
  SmallRun run = steady_run({.moe_layers = 1, .top_k = 2}, {7, 0}, system);
  run.scenario.device.ssd.read.value = Curve::affine(0, 1e30);
  // 7 rows attend to 1 to 7 tokens, 4 on average, and share reads of the cache in tiles of 128. Each expert
  // takes all 7 tokens. One row goes through the head.
  const Times t = pass_times(run, 7, 4, 128);
  CHECK(run.run().metrics.wall_s == Approx(t.attention + 2 * t.expert + t.head).epsilon(1e-12));
}

TEST_CASE("serving: a resource of infinite speed has no share of the stalls") {
  SystemConfig system = plain_system();
  system.compressed = true;
  system.codec = "lz";
  system.shards = 2;
  system.threads = 2;
  const auto stalls_of = [&](auto change) {
    SmallRun run = steady_run({.moe_layers = 2, .experts = 6, .top_k = 4}, {5, 3}, system);
    change(run.scenario.device);
    return run.run().metrics.stall_s;
  };
  const auto share = [](const auto& stalls, std::initializer_list<Cause> causes) {
    double part = 0;
    for (const Cause cause : causes) part += stalls[static_cast<std::size_t>(cause)];
    return part / sum(stalls);
  };
  const auto plain = stalls_of([](DeviceProfile&) {});
  CHECK(share(plain, {Cause::ssd_read}) > 0.1);
  CHECK(share(plain, {Cause::recover, Cause::expert_compute, Cause::dense_compute}) > 0.1);
  const auto fast_ssd = stalls_of([](DeviceProfile& d) { d.ssd.read.value = Curve::affine(0, 1e30); });
  CHECK(share(fast_ssd, {Cause::ssd_read}) < 1e-12);
  CHECK(share(fast_ssd, {Cause::decompress}) > 0.01);
  const auto fast_codec = stalls_of([](DeviceProfile& d) {
    std::get<Sourced<BytesPerSecond>>(d.codecs["lz"].decompress).value = BytesPerSecond(1e30);
  });
  CHECK(share(fast_codec, {Cause::decompress}) < 1e-12);
  const auto fast_gpu = stalls_of([](DeviceProfile& d) {
    d.memory.bandwidth->value = BytesPerSecond(1e30);
    d.gpu->peak.value = FlopsPerSecond(1e30);
    d.gpu->launch.value = Seconds(0);
  });
  CHECK(share(fast_gpu, {Cause::recover, Cause::expert_compute, Cause::dense_compute}) < 1e-12);
  CHECK(share(fast_gpu, {Cause::ssd_read, Cause::decompress}) == Approx(1));
}

TEST_CASE("serving: host overhead adds itself and nothing else") {
  int runs = 0;
  for (std::uint64_t seed = 1; runs < 60; ++seed) {
    SmallRun run = random_run(seed);
    SystemConfig& system = run.scenario.systems[0];
    if (system.prefetch.name != "none") continue;  // which goes on meanwhile
    ++runs;
    // How concurrent reads slow each other down is fixed when they start, and what is simultaneous by
    // rounding only differs when all is shifted.
    run.scenario.device.ssd.slowdown_while_decompressing.value = 1;
    run.scenario.device.ssd.readers.value = {1, 1, 1, 1, 1};
    const auto wall = [&](double per_layer, double per_pass) {
      system.host_per_layer = Seconds(per_layer);
      system.host_per_pass = Seconds(per_pass);
      return run.run().metrics;
    };
    const Metrics none = wall(0, 0);
    CHECK(none.stall_s[static_cast<std::size_t>(Cause::host)] == 0);
    const auto passes =
        naive_passes(run.trace, run.scenario.workload.batch, run.scenario.model.has_encoder());
    std::size_t layers = 0;
    for (const NaivePass& pass : passes) layers += layers_of(run.scenario.model, pass.prompt).size();
    const double per_layer = 1e-3 * static_cast<double>(layers);
    const double per_pass = 1e-3 * static_cast<double>(passes.size());
    CHECK(wall(1e-3, 0).wall_s == Approx(none.wall_s + per_layer).epsilon(1e-9));
    CHECK(wall(0, 1e-3).wall_s == Approx(none.wall_s + per_pass).epsilon(1e-9));
    CHECK(wall(0, 1e-3).stall_s[static_cast<std::size_t>(Cause::host)] == Approx(per_pass).epsilon(1e-9));
  }
}

TEST_CASE("serving: a window over the next layer is fetched while this one computes") {
  for (const double launch : {2e-6, 40e-6, 900e-6}) {
    SystemConfig system = plain_system();
    system.prefetch = {"layer-window", {{"depth", 1}}};
    system.prefetch_buffer = 8;
    // All four experts of both layers are used, so that the window is right.
    SmallRun run = steady_run({.moe_layers = 2, .experts = 4, .top_k = 4}, {1, 0}, system);
    run.scenario.device.ssd.read.value = Curve::affine(0, 5e7);
    run.scenario.device.gpu->launch.value = Seconds(launch);
    const RunResult r = run.run();
    const double load = 3 * expert_tensor_bytes(run.scenario.model).value() / 5e7;  // an expert
    const Times t = pass_times(run, 1, 1, 128);
    // Layer 0: four loads one after the other, each expert executes once it is there and the one before is
    // done. From the last load on, the I/O thread reads ahead for layer 1 until that one's gate has run, for
    // `ahead` seconds. There, what is in memory executes at once, and the rest is read without a gap.
    double gate_1 = t.attention;
    for (int j = 0; j < 4; ++j) gate_1 = std::max(gate_1, t.attention + (1 + j) * load) + t.expert;
    gate_1 += t.attention;
    const double ahead = gate_1 - (t.attention + 4 * load);
    const auto in_time = static_cast<std::uint64_t>(std::min(4.0, std::floor(ahead / load)));
    const double partly = ahead - static_cast<double>(in_time) * load;
    // They execute in the order in which they arrive.
    double end = gate_1;
    for (int j = 0; j < 4; ++j) end = std::max(end, t.attention + (5 + j) * load) + t.expert;
    CHECK(r.metrics.wall_s == Approx(end + t.head).epsilon(1e-12));
    CHECK(r.metrics.prefetch.used == in_time);
    CHECK(r.metrics.prefetch.late == (in_time < 4 && partly > 0 ? 1 : 0));
    CHECK(r.metrics.prefetch.cancelled == 4 - r.metrics.prefetch.used - r.metrics.prefetch.late);
    CHECK(r.metrics.prefetch.unused == 0);
    CHECK(r.metrics.hits[index(State::F)] == in_time);
    CHECK(r.metrics.hits[index(State::M)] == 8 - in_time);
    CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] ==
          8 * expert_bytes(run.scenario.model).value());
    const double late = r.metrics.prefetch.late ? (1 - partly / load) * load : 0;
    CHECK(r.metrics.stall_s[static_cast<std::size_t>(Cause::prefetch)] <= late * (1 + 1e-9));
  }
}

TEST_CASE("serving: a wait for a fetch ends with the fetch, the wait for the stream after it is compute") {
  SystemConfig system = plain_system();
  system.prefetch = {"layer-window", {{"depth", 1}}};
  system.prefetch_buffer = 4;
  SmallRun run = steady_run({.moe_layers = 2, .experts = 2, .top_k = 2}, {1, 0}, system);
  run.scenario.device.gpu->launch.value = Seconds(0);
  const Times t = pass_times(run, 1, 1, 128);
  const double load = (t.expert + t.attention) / 1.5;  // an expert
  run.scenario.device.ssd.read.value = Curve::affine(0, expert_bytes(run.scenario.model).value() / load);
  REQUIRE(t.expert < load);
  const RunResult r = run.run();
  // Layer 0 ends with its second load and an execution. Until the gate of layer 1 one and a half experts of
  // it are read: the first executes at once; the second is there half a load later, while that goes on, and
  // executes after it.
  const double gate_1 = t.attention + 2 * load + t.expert + t.attention;
  REQUIRE(load / 2 < t.expert);
  CHECK(r.metrics.wall_s == Approx(gate_1 + 2 * t.expert + t.head).epsilon(1e-12));
  CHECK(r.metrics.prefetch.used == 1);
  CHECK(r.metrics.prefetch.late == 1);
  const auto stall = [&](Cause cause) { return r.metrics.stall_s[static_cast<std::size_t>(cause)]; };
  CHECK(stall(Cause::prefetch) == Approx(load / 2).epsilon(1e-9));
  CHECK(stall(Cause::expert_compute) == Approx(t.expert + 2 * t.expert - load / 2).epsilon(1e-9));
  CHECK(stall(Cause::ssd_read) == Approx(2 * load).epsilon(1e-9));
}

TEST_CASE("serving: a fetch for the other stack is for the next pass") {
  SystemConfig system = plain_system();
  system.prefetch = {"layer-window", {{"depth", 1}}};
  system.prefetch_buffer = 4;
  SmallRun run;
  run.scenario.name = "stacks";
  run.scenario.model = small_model({.moe_layers = 1, .experts = 4, .top_k = 4, .encoder_layers = 1});
  run.scenario.device = small_device();
  run.scenario.device.gpu->launch.value = Seconds(1);  // all the time there is for fetches
  run.scenario.systems = {system};
  Random random(1);
  run.trace = random_trace(random, run.scenario.model, {{2, 3}});
  give_room(run, 1);
  // The encoder's layer wishes the decoder's, which runs in the first of three decode passes.
  const Metrics m = run.run().metrics;
  CHECK(m.prefetch.used == 4);
  CHECK(m.prefetch.unused == 0);
  CHECK(m.decode_hits[index(State::F)] == 4);
  CHECK(m.decode_hits[index(State::M)] == 8);
}

TEST_CASE("serving: what was fetched in full is used in full, in whatever state the cache keeps it") {
  for (const State kept_as : {State::F, State::C, State::S, State::E}) {
    SystemConfig system = plain_system();
    system.compressed = true;
    system.codec = "lz";
    system.shards = 2;
    system.cache.name = "lru";
    system.kept_as = kept_as;
    system.prefetch = {"layer-window", {{"depth", 1}}};
    system.prefetch_buffer = 4;
    SmallRun run = steady_run({.moe_layers = 2, .experts = 4, .top_k = 4}, {1, 1}, system);
    run.scenario.device.gpu->launch.value = Seconds(1);
    const Metrics m = run.run().metrics;
    // Layer 0 finds what the cache kept of the pass before; layer 1 is there in both.
    CHECK(m.hits[index(State::M)] == 4);
    CHECK(m.hits[index(kept_as)] == (kept_as == State::F ? 12 : 4));
    CHECK(m.hits[index(State::F)] == (kept_as == State::F ? 12 : 8));
    CHECK(m.prefetch.used == (kept_as == State::F ? 4 : 8));  // a second time for what the cache lacks
  }
}

TEST_CASE("serving: nothing comes from the page cache that did not come from the SSD before") {
  std::uint64_t cancelled = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u); ++seed) {
    Random random(seed);
    SystemConfig system = plain_system();
    system.page_cache = true;
    system.prefetch = {"layer-window", {{"depth", 1}}};
    system.prefetch_buffer = 12;
    SmallRun run;
    run.scenario.name = "announced";
    // With two layers, every fetch is for the second one.
    run.scenario.model = small_model({.moe_layers = 2, .experts = 6, .top_k = 2});
    run.scenario.device = small_device();
    run.scenario.systems = {system};
    run.trace = random_trace(random, run.scenario.model, {{1, 10}, {2, 5}});
    give_room(run, 1);
    Recorder record;
    const RunResult r = run.run(&record);
    cancelled += r.metrics.prefetch.cancelled;
    std::map<std::array<std::uint32_t, 3>, double> first_ssd;  // layer, expert, tensor
    const auto key = [](const DoneGraph& graph, const DoneOp& op) {
      return std::array<std::uint32_t, 3>{graph.layer == 0 ? 0u : 1u, op.label.expert, op.label.tensor};
    };
    for (const DoneGraph& graph : record.graphs)
      for (const DoneOp& op : graph.ops)
        if (op.label.tier == Tier::ssd) {
          CHECK_FALSE(first_ssd.contains(key(graph, op)));  // the page cache holds all there is
          first_ssd[key(graph, op)] = op.end;
        }
    bool held = true;
    for (const DoneGraph& graph : record.graphs)
      for (const DoneOp& op : graph.ops)
        if (op.label.tier == Tier::page_cache)
          held &= first_ssd.contains(key(graph, op)) && first_ssd[key(graph, op)] <= op.start;
    CHECK(held);
  }
  CHECK(cancelled > moelab::test::random_runs(100u));
}

TEST_CASE("serving: Belady's cache is the ceiling of the single pools") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u); ++seed) {
    Random random(seed);
    SmallRun run;
    run.scenario.name = "ceiling";
    run.scenario.model = small_model({.moe_layers = 2, .experts = 10, .top_k = 3});
    run.scenario.device = small_device();
    run.scenario.systems = {plain_system()};
    run.trace = random_trace(random, run.scenario.model, {{1, 60}, {1, 60}});
    give_room(run, from(random, 3, 9) + 0.5);
    const auto hits = [&](const char* cache) {
      run.scenario.systems[0].cache.name = cache;
      return run.run().metrics.hits[index(State::F)];
    };
    const std::uint64_t ceiling = hits("belady");
    for (const char* cache : {"lru", "fifo", "lfu", "marking", "none"}) {
      INFO(cache);
      CHECK(ceiling >= hits(cache));
    }
    CHECK(ceiling > hits("lru"));  // and random traces leave room below it
  }
}

TEST_CASE("serving: the memory plan spends the budget exactly") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun run = random_run(seed);
    INFO("seed " << seed);
    Scenario& s = run.scenario;
    const double needed = bytes_before_cache(s, run.system(), run.trace);
    const MemoryPlan m = plan_memory(s, run.system(), run.costs(), run.trace);
    CHECK((m.non_expert + m.kv_cache + m.activations + m.staging + m.prefetch).value() ==
          Approx(needed).epsilon(1e-12));
    CHECK((m.non_expert + m.kv_cache + m.activations + m.staging + m.prefetch + m.expert_cache).value() ==
          Approx(s.budget.value()).epsilon(1e-12));
    const double outside =
        (s.device.memory.total.value - s.device.memory.system_reserve.value - s.budget).value();
    CHECK(m.page_cache.value() == (run.system().page_cache ? outside : 0));

    s.budget = Bytes(needed);
    CHECK(plan_memory(s, run.system(), run.costs(), run.trace).expert_cache.value() == 0);
    s.budget = Bytes(needed - 1);
    const MemoryPlan small = plan_memory(s, run.system(), run.costs(), run.trace);
    CHECK(small.shortfall.value() == Approx(1).margin(1e-6));
    CHECK_THAT(shortfall_text("random", small),
               Catch::Contains("is too small for system 'random': it needs") &&
                   Catch::Contains("non-expert weights") && Catch::Contains("KV cache") &&
                   Catch::Contains("experts in use") && Catch::Contains("prefetch"));
    const RunResult not_run = run.run();
    CHECK(not_run.memory.shortfall == small.shortfall);
    CHECK(not_run.metrics.tokens == 0);
    CHECK_THROWS_WITH(check_fits(not_run), Catch::Contains("is too small for system 'random'"));
    const Bytes usable = s.device.memory.total.value - s.device.memory.system_reserve.value;
    s.budget = usable;
    CHECK_NOTHROW(plan_memory(s, run.system(), run.costs(), run.trace));
    s.budget = usable + Bytes(1);
    CHECK_THROWS_WITH(plan_memory(s, run.system(), run.costs(), run.trace),
                      Catch::Contains("is more than device 'small-device' has to give"));
  }
}

TEST_CASE("serving: batches, uses and future uses agree with naive code") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    const SmallRun run = random_run(seed);
    INFO("seed " << seed);
    const bool encoder = run.scenario.model.has_encoder();
    const std::uint32_t batch = run.scenario.workload.batch, layers = run.trace.layers();
    const auto passes = naive_passes(run.trace, batch, encoder);
    FutureUses future(run.trace, batch, {.encoded = encoder});
    RequestsInTurn source(run.trace, batch, {.encoded = encoder});
    const auto batching = make_static_batches(batch);
    RequestStream loop(source, run.trace, *batching);
    LayerUses layer_uses(run.trace.experts(), true);
    Pass pass;
    Metrics metrics;
    std::size_t p = 0;
    std::vector<std::uint64_t> step(layers, 0);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> told, steps_of;
    for (; loop.next(0, pass); loop.complete(0, metrics)) {
      REQUIRE(p < passes.size());
      const NaivePass& naive = passes[p++];
      std::vector<std::uint64_t> rows;
      for (const auto& [begin, end] : pass.rows)
        for (std::uint64_t row = begin; row < end; ++row) rows.push_back(row);
      CHECK(rows == naive.rows);
      CHECK(pass.prompt == naive.prompt);
      CHECK(pass.tokens == rows.size());
      CHECK(pass.produces == naive.gets_token.size());
      CHECK((pass.stack == Stack::encoder) == (encoder && naive.prompt));
      std::vector<std::size_t> gets;
      for (const StepShare& share : loop.step().shares)
        if (share.produces) gets.push_back(share.request);
      CHECK(gets == naive.gets_token);
      CHECK(pass.prompt_tokens == (naive.prompt ? rows.size() : 0));
      check_runs(pass.runs, naive_attention(run, naive));
      for (std::uint32_t l = 0; l < layers; ++l) {
        const auto uses = layer_uses.collect(run.trace, pass, l);
        std::map<std::uint32_t, std::uint32_t> counted;
        for (const ExpertUse& use : uses) counted[use.object] = use.tokens;
        CHECK(counted == naive_uses(run.trace, naive, l));
        CHECK(counted.size() == uses.size());
        CHECK(std::is_sorted(uses.begin(), uses.end(),
                             [](const auto& a, const auto& b) { return a.object < b.object; }));
        for (const ExpertUse& use : uses) {
          told[{l, use.object}].push_back(future.next_use(l, use.object, step[l]));
          steps_of[{l, use.object}].push_back(step[l]);
        }
        step[l] += uses.empty() ? 0 : 1;
      }
    }
    CHECK(p == passes.size());
    for (auto& [key, steps] : steps_of) {
      steps.erase(steps.begin());
      steps.push_back(kNeverUsedAgain);
    }
    CHECK(told == steps_of);
  }
}

TEST_CASE("serving: rank inclusion is what counting gives") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    const SmallRun run = random_run(seed);
    INFO("seed " << seed);
    const bool encoder = run.scenario.model.has_encoder();
    const RankInclusion got = rank_inclusion(run.trace, run.scenario.workload.batch, encoder);
    const std::uint32_t layers = run.trace.layers(), experts = run.trace.experts();
    using Ranks = std::vector<double>;
    Ranks mean(experts, 0), by_batch = mean, by_token = mean, by_token_and_batch = mean;
    double counted_layers = 0;
    const auto add_sorted = [&](Ranks counts, double per, Ranks& to) {
      std::sort(counts.rbegin(), counts.rend());
      for (std::uint32_t r = 0; r < experts; ++r) to[r] += counts[r] / per;
    };
    for (std::uint32_t l = 0; l < layers; ++l) {
      Ranks count(experts, 0), count_tokens = count;
      std::vector<Ranks> batches, token_batches;
      double steps = 0, tokens = 0;
      for (const NaivePass& pass : naive_passes(run.trace, run.scenario.workload.batch, encoder)) {
        if (pass.begins_batch) batches.emplace_back(experts, 0), token_batches.emplace_back(experts, 0);
        const auto uses = naive_uses(run.trace, pass, l);
        if (pass.prompt || uses.empty()) continue;
        ++steps;
        for (const auto& [e, n] : uses) {
          ++count[e], ++batches.back()[e];
          count_tokens[e] += n, token_batches.back()[e] += n, tokens += n;
        }
      }
      if (steps == 0) continue;
      ++counted_layers;
      tokens /= run.trace.top_k();
      add_sorted(count, steps, mean);
      add_sorted(count_tokens, tokens, by_token);
      for (const Ranks& batch : batches) add_sorted(batch, steps, by_batch);
      for (const Ranks& batch : token_batches) add_sorted(batch, tokens, by_token_and_batch);
    }
    if (counted_layers == 0) {
      CHECK(got.k == 0);
      continue;
    }
    for (double& f : mean) f /= counted_layers;
    CHECK(got.top_k == run.trace.top_k());
    // Scaled by one factor, as long as none reaches 1.
    const auto check_scaled = [&](const Ranks& is, const Ranks& counted, double k) {
      REQUIRE(is.size() == experts);
      CHECK(sum(is) == Approx(k).margin(1e-7));
      if (is[0] < 1 - 1e-6)
        for (std::uint32_t r = 0; r < experts; ++r)
          CHECK(is[r] == Approx(counted[r] * k / sum(counted)).margin(1e-9));
    };
    check_scaled(got.by_batch, by_batch, got.k);
    check_scaled(got.token_inclusion, by_token, got.top_k);
    check_scaled(got.token_by_batch, by_token_and_batch, got.top_k);
    CHECK(got.k == static_cast<std::uint32_t>(std::lround(sum(mean))));
    CHECK(sum(got.inclusion) == Approx(got.k).margin(1e-7));
    REQUIRE(got.inclusion.size() == experts);
    CHECK(std::is_sorted(got.inclusion.rbegin(), got.inclusion.rend()));
    // A sum that is whole already is left alone, but for certainty, which planning cannot divide by.
    if (std::abs(sum(mean) - got.k) < 1e-12 && mean[0] < 1 - 1e-9)
      for (std::uint32_t r = 0; r < experts; ++r) CHECK(got.inclusion[r] == Approx(mean[r]).margin(1e-12));
    // Otherwise all are scaled by one factor, as long as none reaches 1.
    if (got.inclusion[0] < 1 - 1e-6)
      for (std::uint32_t r = 0; r < experts; ++r)
        CHECK(got.inclusion[r] == Approx(mean[r] * got.k / sum(mean)).margin(1e-9));
  }
}

TEST_CASE("serving: the page cache is least recently used, by bytes") {
  Random random(11);
  for (int round = 0; round < moelab::test::random_runs(400); ++round) {
    // Thirds make sums that rounding leaves a little off; whole numbers are compared exactly.
    const double unit = round % 2 == 0 ? 1 : 1.0 / 3;
    const std::uint32_t objects = from(random, 1, 12);
    const double capacity = from(random, 0, 60) * unit;
    PageCache cache(objects, capacity);
    NaivePageCache naive(capacity);
    std::vector<double> bytes(objects);
    for (double& b : bytes) b = from(random, 1, 30) * unit;
    bool same = true, within = true;
    for (int i = 0; i < 100; ++i) {
      const auto object = static_cast<std::uint32_t>(random.below(objects));
      if (random.below(10) == 0) {
        cache.forget(object);
        naive.forget(object);
      } else {
        same &= cache.read(object, bytes[object]) == naive.read(object, bytes[object]);
      }
      same &= cache.bytes_held() == naive.held();
      within &= cache.bytes_held() <= capacity;
    }
    CHECK((same || unit < 1));
    CHECK(within);
  }
}

}  // namespace moelab::serving_test
