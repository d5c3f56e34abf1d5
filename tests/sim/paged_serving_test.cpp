// Serving from paged experts and a paged KV cache: times against closed forms and against a second, naive
// implementation; laws that every run keeps.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "sim/serving/kv_swap.hpp"
#include "sim/serving/paged_resources.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_reference.hpp"
#include "tests/sim/serving_checks.hpp"

namespace moelab::paged_serving_test {

using namespace moelab::test;

namespace {

ServingCounts check_against_reference(const SmallRun& run) {
  const RunResult r = run.run();
  const NaiveResult n = NaiveServing(run).serve();
  const Metrics& m = r.metrics;
  check_equal(m, n);
  return m.serving;
}

engine::Process run_alone(engine::Engine& engine, engine::Graph& graph) {
  engine.submit(graph, engine::kDemand);
  co_await engine.finished(graph);
}

/// One request of which the prompt is there.
void serve_one(WorkloadConfig& w, std::uint32_t prompt, std::uint32_t output) {
  w.batch = w.requests = 1;
  w.prompt_tokens = prompt;
  w.output_tokens = output;
  w.prefilled = true;
}

}  // namespace

TEST_CASE("paged: every run takes as long as a naive recurrence says") {
  const bool codecs = GENERATE(false, true);
  const bool drafts = GENERATE(false, true);
  int ran = 0, swapped = 0, dropped = 0, mixed = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(400u, 80u); ++seed) {
    SmallRun run = random_paged_run(seed, codecs);
    if (drafts) add_drafts(run, seed);
    if (!can_run(run)) continue;
    INFO("seed " << seed << (codecs ? " with codecs" : "") << (drafts ? " with drafts" : ""));
    ++ran;
    const ServingCounts c = check_against_reference(run);
    swapped += c.swapped_out > 0 ? 1 : 0;
    dropped += c.dropped > 0 ? 1 : 0;
    mixed += run.system().batching->policy.parameters.size() > 1 && !run.scenario.workload.prefilled ? 1 : 0;
  }
  INFO(ran << " ran, " << swapped << " swapped, " << dropped << " dropped, " << mixed << " mixed");
  CHECK(ran > moelab::test::random_runs(200));                 // what is compared is not empty
  if (!drafts) CHECK(swapped > moelab::test::random_runs(5));  // with drafts fewer requests run at once
  CHECK(dropped > moelab::test::random_runs(20));
  CHECK(mixed > moelab::test::random_runs(10));
}

TEST_CASE("paged: with resident weights a step is the sum of its layers") {
  const std::uint32_t ranks = GENERATE(1, 2, 4);
  ModelShape shape;
  shape.moe_layers = 3;
  shape.dense_layers = 1;
  shape.shared_width = 48;
  SmallRun run = paged_run(small_model(shape), {"resident"}, {ranks});
  Scenario& s = run.scenario;
  serve_one(s.workload, 9, 14);
  SystemConfig& system = s.systems.front();
  system.host_per_layer = Seconds(3e-6);
  system.host_per_pass = Seconds(5e-6);
  s.device.cpu.dispatch.value = Seconds(1e-6);
  run.trace = steady_trace(s.model, {9, 15});  // always the same two experts

  const TimingModel timing(s.device);
  const Architecture& model = s.model;
  const auto dispatched = [&](const Work& work) { return (timing.kernel(work) + Seconds(1e-6)).value(); };
  const double bytes = 2.0 * model.hidden;  // of a row's hidden state
  const double reduce = timing.all_reduce(static_cast<int>(ranks), Bytes(bytes)).value();
  CHECK((reduce > 0) == (ranks > 1));
  double wall = 0;
  for (int step = 0; step < 14; ++step) {
    const double context = 9 + step + 1;  // the prompt, the tokens that ran before, and itself
    for (const Layer& layer : model.layers) {
      const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
      Work dense = attention_work(model, layer, 1, context);
      if (!moe) {
        const Work ff = dense_work(model, layer, 1);
        dense.flops += ff.flops;
        dense.weight_bytes += ff.weight_bytes;
        dense.kernels += ff.kernels;
      }
      wall += 3e-6 + dispatched(dense) + 2 * reduce;
      if (moe)
        wall += timing.grouped_experts(model, 2, 2).value() + 1e-6 + dispatched(dense_work(model, layer, 1));
    }
    wall += dispatched(head_work(model, 1)) + 5e-6;
  }
  const Metrics m = run.run().metrics;
  CHECK(m.tokens == 14);
  CHECK(m.serving.steps == 14);
  CHECK(m.wall_s == Approx(wall).epsilon(1e-12));
  CHECK(static_cast<double>(m.tokens) / m.wall_s == Approx(14 / wall).epsilon(1e-12));
  CHECK(m.serving.loaded_bytes + m.serving.decoded_bytes == 0);
}

TEST_CASE("paged: in the long run a layer takes the longer of its compute and the next one's load") {
  // One backend, so that nothing is shared; every step the same: attention to windows of one token.
  const bool loads_longer = GENERATE(false, true);
  ModelShape shape;
  shape.moe_layers = 4;
  Architecture model = small_model(shape);
  for (Layer& layer : model.layers) layer.attention.window = 1;
  SmallRun run = paged_run(model, {"host"});
  Scenario& s = run.scenario;
  constexpr std::uint32_t kSteps = 100;
  serve_one(s.workload, 1, kSteps);
  s.device.gpu->own->bandwidth.value = BytesPerSecond(loads_longer ? 1e10 : 5e7);
  s.device.gpu->launch.value = Seconds(2e-7);
  run.trace = steady_trace(s.model, {0, 7});

  const TimingModel timing(s.device);
  const double bytes = 4 * expert_bytes(model).value();
  const double mapped = timing.remap(Bytes(bytes * 2 / 3)).value();  // of gate and up, before they are loaded
  const double load = (timing.load(Bytes(bytes * 2 / 3)) + timing.load(Bytes(bytes / 3))).value();
  const double dense = timing.kernel(attention_work(model, model.layers.front(), 1, 1)).value();
  const double experts = timing.grouped_experts(model, 2, 2).value();
  const double head = timing.kernel(head_work(model, 1)).value();
  // What hides is short enough to.
  REQUIRE((loads_longer ? dense + experts + head + mapped < load : mapped + load < dense + experts));
  // Loads one behind the other, and what follows the last; or the first load, and computing ever after.
  const double wall =
      loads_longer ? mapped + 4 * kSteps * load + experts + head
                   : std::max(mapped + load - dense, 0.0) + 4 * kSteps * (dense + experts) + kSteps * head;
  CHECK(run.run().metrics.wall_s == Approx(wall).epsilon(1e-9));
}

TEST_CASE("paged: from an SSD pieces are read and cross the link one behind the other") {
  const std::uint32_t ranks = GENERATE(1U, 2U, 4U);
  const bool link_longer = GENERATE(false, true);
  ModelShape shape;
  shape.moe_layers = 4;
  Architecture model = small_model(shape);
  for (Layer& layer : model.layers) layer.attention.window = 1;
  SmallRun run = paged_run(model, {"ssd"}, {ranks});
  Scenario& s = run.scenario;
  constexpr std::uint32_t kSteps = 50;
  serve_one(s.workload, 1, kSteps);
  s.device.gpu->own->bandwidth.value = BytesPerSecond(1e10);  // computing is next to nothing
  s.device.gpu->remap.reset();
  for (AllReduceProfile& reduce : s.device.gpu->node->all_reduce) reduce.seconds.value = Curve({{0, 1e-9}});
  s.device.ssd.read.value = Curve::affine(1e-6, link_longer ? 1e12 : 1e8);
  run.trace = steady_trace(s.model, {0, 7});

  const TimingModel timing(s.device);
  const Bytes bytes = 4 * expert_bytes(s.model);
  double read = 0, cross = 0;  // of a layer, its eight pieces of each tensor type
  for (const double part : {2.0 / 3 / 8, 1.0 / 3 / 8}) {
    read += 8 * timing.ssd_read(bytes * part * ranks).value();
    cross += 8 * timing.load(bytes * part).value();
  }
  REQUIRE((read < cross) == link_longer);
  // Whichever takes longer never waits; at the ends of the run a piece of the other, and a layer's compute.
  const double busy = 4 * kSteps * std::max(read, cross);
  const RunResult r = run.run();
  CHECK(r.metrics.wall_s > busy);
  CHECK(r.metrics.wall_s < busy + read + cross);
  CHECK(r.metrics.serving.ssd_bytes == Approx((4 * kSteps + 2) * bytes.value()).margin(2.5 * bytes.value()));
  CHECK(r.metrics.serving.ssd_bytes == r.metrics.serving.loaded_bytes);
  CHECK(r.memory.host_experts == Bytes(0));
}

TEST_CASE("paged: blocks come in once those that leave are gone") {
  // No batching policy of ours has both in a step; the server promises it to any.
  const double out_bytes = GENERATE(0.0, 3e6), in_bytes = GENERATE(0.0, 5e6);
  const SmallRun run = paged_run(small_model({}), {"resident"});
  const TimingModel timing(run.scenario.device);
  const PagedPlan plan = plan_of(run);
  const std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  const PagedResources all = add_paged_resources(*engine, timing, plan);
  const PagedGpu& resources = all.gpus.front();
  LabelledGraph swaps;
  add_swaps(swaps, Bytes(out_bytes), Bytes(in_bytes), {resources.link_in, resources.link_out, resources.link},
            timing);
  REQUIRE(swaps.labels.size() == (out_bytes > 0 ? 1U : 0U) + (in_bytes > 0 ? 1U : 0U));
  if (swaps.labels.empty()) return;
  engine::Process process = run_alone(*engine, swaps.graph);
  engine->spawn(process);
  engine->run();
  const LinkProfile& link = run.scenario.device.gpu->own->link;
  const double out = out_bytes > 0 ? link.to_host.value(out_bytes) : 0;
  const double in = in_bytes > 0 ? link.to_device.value(in_bytes) : 0;
  CHECK(engine->now() == Approx(out + in).epsilon(1e-12));
  if (out > 0) CHECK(swaps.labels.front().kind == OpKind::swap_out);
  if (in > 0) CHECK(swaps.labels.back().kind == OpKind::swap_in);
  const auto last = static_cast<engine::OpIndex>(swaps.labels.size() - 1);
  if (in > 0) CHECK(swaps.graph.start(last) == Approx(out).margin(1e-15));
}

TEST_CASE("paged: metrics add up") {
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(400u, 80u); ++seed) {
    const SmallRun run = random_paged_run(seed, seed % 2 == 0);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    Recorder record;
    const RunResult r = run.run(&record);
    const Metrics& m = r.metrics;
    const std::vector<ServedRequest> requests = served_requests(run.scenario, run.trace);
    double outputs = 0, idle = 0;
    for (const ServedRequest& q : requests) outputs += q.output_tokens;
    // Time in which no request was there, by the record: between the end of a step and what comes next.
    double now = 0;
    for (const DoneGraph& graph : record.graphs) {
      if (graph.holds(OpKind::load) || graph.holds(OpKind::decode)) continue;  // beside the layers
      idle += std::max(0.0, graph.submitted - now);
      now = std::max(now, end_of(graph));
    }
    CHECK(now == m.wall_s);
    CHECK(sum(m.stall_s) + idle == Approx(m.wall_s).epsilon(1e-9));
    for (const double s : m.stall_s) CHECK(s >= 0);
    // Where no prompt runs, nor runs again, a layer's time is that of its graphs.
    if (run.scenario.workload.prefilled && m.serving.recomputed == 0) {
      std::map<std::int32_t, double> seconds;
      for (const DoneGraph& graph : record.graphs)
        if (graph.layer >= 0 && !graph.holds(OpKind::load) && !graph.holds(OpKind::decode))
          seconds[graph.layer] += end_of(graph) - graph.submitted;
      std::size_t number = 0;
      for (std::size_t layer = 0; layer < run.scenario.model.layers.size(); ++layer)
        if (run.scenario.model.layers[layer].feed_forward.kind == FeedForward::Kind::moe)
          CHECK(m.layers.stall_s.at(number++) ==
                Approx(seconds[static_cast<std::int32_t>(layer)]).epsilon(1e-9));
      CHECK(m.layers.stall_s.size() == number);
    }
    CHECK(static_cast<double>(m.tokens) == outputs);
    CHECK(m.ttft_s.size() == requests.size());
    CHECK(m.end_to_end_s.size() == requests.size());
    CHECK(m.ttft_s.size() + m.token_gaps_s.size() == m.tokens);
    const ServingCounts& c = m.serving;
    CHECK(c.swap_in_bytes == Approx(c.swap_out_bytes).epsilon(1e-12));
    double rows = 0;
    for (const ServedRequest& q : requests)
      rows += q.output_tokens + (run.scenario.workload.prefilled ? 0 : q.prompt_tokens - 1);
    CHECK(static_cast<double>(c.rows - c.recomputed) == rows);
    CHECK(c.most_blocks <= r.memory.kv_blocks);
    REQUIRE(c.steps < ServingSeries::kMost);
    CHECK(m.series.samples().size() == c.steps);
    std::uint64_t tokens = 0;
    double in = 0, out = 0, use = 0;
    for (const ServingSample& sample : m.series.samples()) {
      CHECK(sample.all_blocks == r.memory.kv_blocks);
      CHECK(sample.blocks <= sample.all_blocks);
      tokens += sample.tokens;
      in += sample.swap_in_bytes;
      out += sample.swap_out_bytes;
      use = std::max(use, sample.kv_use());
    }
    CHECK(m.series.samples().back().time_s == m.wall_s);
    CHECK(tokens == m.tokens);
    CHECK(in == Approx(c.swap_in_bytes).epsilon(1e-12));
    CHECK(out == Approx(c.swap_out_bytes).epsilon(1e-12));
    CHECK(c.most_kv_use == use);
  }
  CHECK(ran > moelab::test::random_runs(200));
}

}  // namespace moelab::paged_serving_test
