// Windows with experts pinned beside them, with substitution, and fed from an SSD: times against a second,
// naive simulation; what must be equal; what every run conserves.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/json.hpp"
#include "sim/results/result_json.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/window_cases.hpp"
#include "tests/sim/window_reference.hpp"

namespace moelab::naive_window_test {

using namespace moelab::test;
using Fetch = PagingConfig::Fetch;

namespace {

double bytes_of_use(const Metrics& m) {
  return m.serving.loaded_bytes + m.serving.decoded_bytes - m.prefetch.wasted_bytes;
}

void check_counts(const SmallRun& run, const RunResult& r, const NaiveWindowCounts& n) {
  const Metrics& m = r.metrics;
  CHECK(m.serving.ssd_bytes == Approx(n.ssd).epsilon(1e-12));
  CHECK(m.serving.page_cache_bytes == Approx(n.cached).epsilon(1e-12));
  CHECK(m.bytes[static_cast<std::size_t>(Tier::host)] ==
        Approx(m.serving.loaded_bytes - n.ssd).epsilon(1e-9).margin(1e-6));
  CHECK(m.routing.substituted == n.substituted);
  if (r.counted.lookups) {
    CHECK(m.hits[index(State::F)] == n.kept);
    CHECK(m.hits[index(State::M)] == n.through_window);
  }
  if (run.system().paging->fetch != Fetch::ahead) return;
  CHECK(m.prefetch.fetched == n.prefetch.fetched);
  CHECK(m.prefetch.used == n.prefetch.used);
  CHECK(m.prefetch.late == n.prefetch.late);
  CHECK(m.prefetch.unused == n.prefetch.unused);
  CHECK(m.prefetch.cancelled == n.prefetch.cancelled);
}

}  // namespace

TEST_CASE("window: every run takes as long as a second simulation says") {
  int ran = 0, pinned = 0, substituted = 0, found = 0, read = 0, cancelled = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(3000u); ++seed) {
    const std::optional<SmallRun> run = window_that_runs(seed);
    if (!run) continue;
    INFO("seed " << seed);
    ++ran;
    NaiveWindow naive(*run);
    const NaiveResult n = naive.serve_all();
    const RunResult r = run->run();
    check_equal(r.metrics, n);
    check_counts(*run, r, naive.counts);
    pinned += run->system().paging->pinned > 0 ? 1 : 0;
    substituted += naive.counts.substituted > 0 ? 1 : 0;
    found += naive.counts.cached > 0 ? 1 : 0;
    read += naive.counts.ssd > 0 ? 1 : 0;
    cancelled += naive.counts.prefetch.cancelled > 0 ? 1 : 0;
  }
  INFO(ran << " ran, " << pinned << " pinned, " << substituted << " substituted, " << read << " read, "
           << found << " found in the page cache, " << cancelled << " cancelled");
  CHECK(ran > moelab::test::random_runs(1000));
  CHECK(pinned > moelab::test::random_runs(500));
  CHECK(substituted > moelab::test::random_runs(100));
  CHECK(read > moelab::test::random_runs(200));
  CHECK(found > moelab::test::random_runs(50));
  CHECK(cancelled > moelab::test::random_runs(100));
}

TEST_CASE("window: what is pinned is planned for, and what comes is what was missing") {
  int ran = 0, through = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1000u); ++seed) {
    const std::optional<SmallRun> run = window_that_runs(seed);
    if (!run) continue;
    INFO("seed " << seed);
    ++ran;
    const RunResult r = run->run();
    const Metrics& m = r.metrics;
    const PagedPlan plan = plan_of(*run);
    const double expert = plan.split.shape().expert_bytes;
    CHECK(plan.memory.pinned.value() == run->system().paging->pinned * expert *
                                            static_cast<double>(run->scenario.model.moe_layers().size()));
    const MemoryPlan& memory = r.memory;
    CHECK((memory.non_expert + memory.activations + memory.pinned + memory.staging + memory.expert_cache +
           memory.kv_cache)
              .value() <= run->scenario.budget.value() * (1 + 1e-12));
    CHECK(sum(m.stall_s) <= m.wall_s * (1 + 1e-9));
    CHECK(m.end_to_end_s.size() == served_requests(run->scenario, run->trace).size());
    const double came = m.serving.loaded_bytes + m.serving.decoded_bytes;
    const auto missing = static_cast<double>(m.hits[index(State::M)]);
    if (run->system().paging->fetch == Fetch::used) {
      CHECK(came == Approx(missing * expert).epsilon(1e-9));
      ++through;
    }
    if (run->system().paging->fetch == Fetch::ahead) {
      CHECK(m.prefetch.used + m.prefetch.late == m.hits[index(State::M)]);
      CHECK(m.prefetch.fetched == m.prefetch.used + m.prefetch.late + m.prefetch.unused);
      CHECK(came <= static_cast<double>(m.prefetch.fetched) * expert * (1 + 1e-9));
      CHECK(came - m.prefetch.wasted_bytes == Approx(missing * expert).epsilon(1e-9));
    }
  }
  CHECK(ran > moelab::test::random_runs(300));
  CHECK(through > moelab::test::random_runs(50));
}

TEST_CASE("window: GPUs that divide the experts bring what each of them misses") {
  int ran = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    Random random(seed);
    const bool data = coin(random);
    const Division division{data ? 1U : 2U, data ? 2U : 1U, true};
    SmallRun run = random_paged_run(seed, false, division);
    if (run.scenario.model.moe().experts % 2 != 0) continue;
    paging_of(run).backends = {"host"};
    paging_of(run).fetch = coin(random) ? Fetch::used : Fetch::ahead;
    pin(run, coin(random) ? "lru" : "fixed-popular", 1);
    give_blocks(run, 40);
    run.scenario.budget += plan_of(run).memory.pinned;
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics m = run.run().metrics;
    const double expert = expert_bytes(run.scenario.model).value();
    CHECK(2 * bytes_of_use(m) == Approx(static_cast<double>(m.hits[index(State::M)]) * expert).epsilon(1e-9));
    kept += m.hits[index(State::F)] > 0 ? 1 : 0;
  }
  CHECK(ran > moelab::test::random_runs(50));
  CHECK(kept > moelab::test::random_runs(40));
}

TEST_CASE("window: with everything pinned it is everything resident") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun resident = random_paged_run(seed, false);
    paging_of(resident).backends = {"resident"};
    give_blocks(resident, 40);
    if (!can_run(resident)) continue;
    INFO("seed " << seed);
    SmallRun pinned = resident;
    paging_of(pinned).backends = {"host"};
    pin(pinned, seed % 4 < 2 ? "fixed-popular" : "fixed-experts",
        static_cast<std::uint32_t>(pinned.scenario.model.moe().experts));
    paging_of(pinned).fetch = seed % 2 == 0 ? Fetch::layer : Fetch::ahead;
    const RunResult a = resident.run(), b = pinned.run();
    CHECK(b.memory.pinned == a.memory.expert_cache);
    CHECK(b.memory.kv_blocks == a.memory.kv_blocks);
    CHECK(b.memory.host_experts == Bytes(0));
    CHECK(b.metrics.token_gaps_s.size() == a.metrics.token_gaps_s.size());
    for (std::size_t i = 0; i < a.metrics.token_gaps_s.size(); ++i)
      CHECK(b.metrics.token_gaps_s[i] == Approx(a.metrics.token_gaps_s[i]).epsilon(1e-9).margin(1e-12));
    CHECK(b.metrics.wall_s == Approx(a.metrics.wall_s).epsilon(1e-12));
    CHECK(b.metrics.hits[index(State::M)] == 0);
    CHECK(b.metrics.serving.loaded_bytes == 0);
    CHECK(b.metrics.series.samples().back().residency == 1);
  }
}

TEST_CASE("window: a policy that learned nothing yet pins nothing") {
  // Pages that no step has used are all that a learning policy may not have: until a layer has run it streams
  // whole; and a pool that no budget is left for is a shortfall, not less than was asked for.
  SmallRun run = paged_run(small_model({.moe_layers = 3}), {"host"});
  pin(run, "lru", 2);
  const double layer = 4 * expert_bytes(run.scenario.model).value();
  const PagedPlan plan = plan_of(run);
  CHECK(plan.memory.staging.value() == 2 * layer);
  CHECK(plan.memory.pinned.value() == 3 * layer / 2);
  pin(run, "fixed-experts", 2);
  CHECK(plan_of(run).memory.staging.value() == layer);
  CHECK(plan_of(run).memory.host_experts.value() == 3 * layer / 2);
  run.scenario.budget = plan_of(run).memory.non_expert;
  CHECK(plan_of(run).memory.shortfall > plan_of(run).memory.pinned);
}

TEST_CASE("window: an SSD that takes no time is host memory") {
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(600u); ++seed) {
    SmallRun host = random_paged_run(seed, seed % 2 == 0);
    Random random(seed);
    // So that pieces cross the link as one does.
    host.scenario.device.gpu->own->link.to_device.value = Curve::affine(0, 4e8);
    paging_of(host).storage = {"fixed", {{"offloaded", random.uniform()}}};
    paging_of(host).backends.assign({seed % 2 == 0 ? "huff" : "resident", "host"});
    paging_of(host).fetch = static_cast<Fetch>(random.below(3));
    if (coin(random)) pin(host, coin(random) ? "lru" : "fixed-popular", 1);
    give_blocks(host, 40);
    SmallRun ssd = host;
    paging_of(ssd).backends.back() = "ssd";
    ssd.scenario.device.ssd.read.value = Curve::affine(0, 1e24);
    if (!can_run(host) || !can_run(ssd)) continue;
    INFO("seed " << seed);
    ++ran;
    const RunResult a = host.run(), b = ssd.run();
    CHECK(b.metrics.wall_s == Approx(a.metrics.wall_s).epsilon(1e-9));
    // What was cancelled had been read before it would have crossed the link.
    CHECK(bytes_of_use(b.metrics) == Approx(bytes_of_use(a.metrics)).epsilon(1e-9));
    CHECK(b.metrics.hits == a.metrics.hits);
    CHECK(b.memory.kv_blocks == a.memory.kv_blocks);
  }
  CHECK(ran > moelab::test::random_runs(200));
}

TEST_CASE("window: a page cache of all experts is read from the SSD once, one of all but one never hits") {
  // Layers stream in turn: each page is the next to be read again when it leaves.
  ModelShape shape;
  shape.moe_layers = 4;
  const bool all_fit = GENERATE(true, false);
  SmallRun run = paged_run(small_model(shape), {"ssd"});
  window_system(run).page_cache = true;
  const double expert = expert_bytes(run.scenario.model).value();
  give_host(run, all_fit ? 16 : 15);
  const Metrics m = run.run().metrics;
  REQUIRE(m.serving.steps > 3);
  CHECK(m.serving.loaded_bytes > 16 * 3 * expert);
  CHECK(m.serving.ssd_bytes == Approx(all_fit ? 16 * expert : m.serving.loaded_bytes).epsilon(1e-9));
  CHECK(m.serving.page_cache_bytes == Approx(m.serving.loaded_bytes - m.serving.ssd_bytes).margin(1e-6));
}

TEST_CASE("window: where nothing is ever missing nothing is substituted") {
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    std::optional<SmallRun> run = window_that_runs(seed);
    if (!run) continue;
    INFO("seed " << seed);
    paging_of(*run).fetch = seed % 2 == 0 ? Fetch::ahead : Fetch::used;
    paging_of(*run).backends = {"resident"};
    window_system(*run).page_cache = false;
    window_system(*run).cache.name = "none";
    paging_of(*run).pinned = 0;
    run->scenario.budget = Bytes(9e8);
    if (!can_run(*run)) continue;
    ++ran;
    window_system(*run).routing = {"smoe", {{"alpha", 0.5}}};
    const Metrics with = run->run().metrics;
    window_system(*run).routing = {"model", {}};
    const Metrics without = run->run().metrics;
    CHECK(with.routing.substituted == 0);
    CHECK(with.wall_s == without.wall_s);
    CHECK(with.token_gaps_s == without.token_gaps_s);
    paging_of(*run).fetch = Fetch::layer;  // one graph a layer
    CHECK(run->run().metrics.wall_s == Approx(with.wall_s).epsilon(1e-12));
  }
  CHECK(ran > moelab::test::random_runs(100));
}

TEST_CASE("window: substitution saves what would have come") {
  // Of 8 experts 4 are pinned; a token's second choice is always of the others, and nearly tied with one of
  // the pinned ones: with the model's choice one expert a layer and step comes, with substitution none.
  ModelShape shape;
  shape.experts = 8;
  SmallRun run = paged_run(small_model(shape), {"host"});
  Scenario& s = run.scenario;
  s.workload.batch = s.workload.requests = 1;
  s.workload.prefilled = true;
  TraceDescription description;
  description.model = s.model.name;
  description.provenance = "made up by a test";
  description.layers = 2;
  description.experts = 8;
  description.top_k = 2;
  description.gate_scores = true;
  description.router_scores = RouterScores::sigmoid;
  RoutingTraceBuilder builder(description);
  builder.begin_request();
  for (int row = 0; row < 9; ++row) {
    const std::vector<std::uint16_t> ids{0, 7, 0, 7};
    std::vector<float> router(16, 0.01F);
    for (const std::size_t layer : {0U, 8U}) {
      router[layer] = 0.9F;
      router[layer + 7] = 0.5F;
      router[layer + 2] = 0.45F;
    }
    builder.add_token({Phase::decode, ids, std::vector<float>{0.9F, 0.5F, 0.9F, 0.5F}, router, {}, {}});
  }
  run.trace = builder.finish();
  pin(run, "fixed-experts", 4);
  paging_of(run).fetch = Fetch::used;
  const double expert = expert_bytes(s.model).value();
  const Metrics model = run.run().metrics;
  const double layers_run = 2.0 * static_cast<double>(model.serving.steps);
  CHECK(model.serving.loaded_bytes == Approx(layers_run * expert));
  window_system(run).routing = {"smoe", {{"alpha", 0.3}}};
  const Metrics smoe = run.run().metrics;
  CHECK(smoe.serving.loaded_bytes == 0);
  CHECK(static_cast<double>(smoe.routing.substituted) == layers_run);
  CHECK(smoe.routing.mass_moved == Approx(layers_run * 0.05).epsilon(1e-5));
  CHECK(smoe.routing.low_score_misses == 0);
  const TimingModel timing(s.device);
  const double saved = layers_run * (timing.load(Bytes(expert)) + timing.remap(Bytes(expert))).value();
  CHECK(model.wall_s - smoe.wall_s == Approx(saved).epsilon(1e-6));
}

TEST_CASE("window: results hold what windows count") {
  SmallRun run = paged_run(small_model({}), {"host", "ssd"});
  window_system(run).page_cache = true;
  pin(run, "lru", 1);
  paging_of(run).fetch = Fetch::ahead;
  const nlohmann::json j = nlohmann::json::parse(results_json({run.run()}));
  CHECK(j.contains("hits"));
  CHECK(j.contains("prefetch"));
  CHECK_FALSE(j.contains("routing"));
  CHECK(j.at("memory_bytes_a_gpu").at("pinned_experts").get<double>() ==
        2 * expert_bytes(run.scenario.model).value());
  CHECK(j.at("memory_bytes_a_gpu").at("page_cache").get<double>() > 0);
}

}  // namespace moelab::naive_window_test
