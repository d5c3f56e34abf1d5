// How much expert residency to give up: against closed forms of a link that hides or does not, and against
// naive searches.
#include "sim/tuning/residency_tuning.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::residency_tuning_test {

using namespace moelab::test;

namespace {

std::uint32_t below(Random& random, std::uint32_t end) {
  return static_cast<std::uint32_t>(random.below(end));
}

constexpr double kHostPerLayer = 1e-3;  // s: nearly all of a layer's time

/// A decode workload of equal requests on a device whose link's rate a test sets, and a system of two
/// backends. One GPU, no latencies worth mentioning, no codec that would slow kernels down.
struct Case {
  Scenario scenario;
  SystemConfig system;
  RoutingTrace trace;
};

Case make_case(std::uint64_t seed, int experts, int layers, double link_rate) {
  Random random(seed);
  Case c;
  Scenario& s = c.scenario;
  s.name = "residency";
  s.model = small_model({.moe_layers = layers, .experts = experts});
  s.device = small_discrete_device();
  s.device.gpu->own->link.to_device.value = Curve::affine(1e-12, link_rate);
  s.budget = Bytes(100e6);
  s.workload.batch = 4;
  s.workload.requests = 4;
  s.workload.prompt_tokens = 8;
  s.workload.output_tokens = 300;
  s.workload.prefilled = true;
  c.system.name = "paged";
  c.system.host_per_layer = Seconds(kHostPerLayer);
  PagingConfig& paging = c.system.paging.emplace();
  paging.backends = {"resident", "host"};
  c.system.batching.emplace().policy.parameters["swap"] = 1;
  c.system.batching->max_tokens = 512;
  c.system.kv.swap_space = Bytes(1e6);
  c.system.kv.pressure.name = "requests-yield";
  c.trace = random_trace(random, s.model, {{8, 8}, {8, 8}});
  return c;
}

double expert_size(const Scenario& s) {
  return expert_bytes(s.model).value();
}

std::vector<ResidencyLevel> all_levels(const Case& c) {
  ResidencyTuning tuning(c.scenario, c.system, c.trace);
  std::vector<ResidencyLevel> levels;
  for (const std::uint32_t offloaded : residency_grid(tuning.experts(), tuning.experts(), 1))
    levels.push_back(tuning.level(offloaded));
  return levels;
}

ResidencyLevel made_up(std::uint32_t offloaded, double speed, double slowdown, bool fits = true) {
  ResidencyLevel level;
  level.offloaded = offloaded;
  level.tokens_per_s = speed;
  level.step_s = slowdown;
  level.resident_step_s = 1;
  if (!fits) level.memory.shortfall = Bytes(1);
  return level;
}

void check_refused(const Case& c, const std::string& reason) {
  CHECK_THROWS_WITH(ResidencyTuning(c.scenario, c.system, c.trace),
                    Catch::Contains("system 'paged'") && Catch::Contains(reason));
}

}  // namespace

TEST_CASE("residency tuning: the grid is even, in whole experts, each level once") {
  CHECK(residency_grid(512, 16, 1).size() == 17);
  CHECK(residency_grid(8, 4, 1) == std::vector<std::uint32_t>{0, 2, 4, 6, 8});
  CHECK(residency_grid(8, 16, 1) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(residency_grid(512, 4, 0.125) == std::vector<std::uint32_t>{0, 16, 32, 48, 64});
  CHECK(residency_grid(4, 3, 0.1) == std::vector<std::uint32_t>{0});  // less than half an expert
  Random random(1);
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    const std::uint32_t experts = 1 + below(random, 600), steps = 1 + below(random, 40);
    const double most = 0.01 + 0.99 * random.uniform();
    const std::vector<std::uint32_t> grid = residency_grid(experts, steps, most);
    REQUIRE(grid.front() == 0);
    REQUIRE(std::abs(grid.back() - most * experts) <= 0.5 + 1e-9);
    for (std::size_t i = 1; i < grid.size(); ++i) REQUIRE(grid[i] > grid[i - 1]);
    // Every point of the even grid has a level within half an expert, and there is no other level.
    REQUIRE(grid.size() <= steps + 1);
    for (std::uint32_t i = 0; i <= steps; ++i)
      REQUIRE(std::any_of(grid.begin(), grid.end(), [&](std::uint32_t n) {
        return std::abs(n - most * experts * i / steps) <= 0.5 + 1e-9;
      }));
  }
}

// Against the definitions in the header, each searched for over all levels with nothing carried along.
TEST_CASE("residency tuning: what is chosen is what the definitions say") {
  Random random(2);
  int without_knee = 0, without_any = 0;
  for (int instance = 0; instance < moelab::test::random_runs(5000); ++instance) {
    const double tolerance = below(random, 4) == 0 ? 0 : 0.1 * random.uniform();
    std::vector<ResidencyLevel> levels;
    const std::uint32_t count = 1 + below(random, 12);
    for (std::uint32_t i = 0; i < count; ++i)
      levels.push_back(made_up(i, 100 + below(random, 20), 1 + 0.15 * random.uniform() * below(random, 3),
                               below(random, 4) > 0));
    const ResidencyChoice choice = choose_residency(levels, tolerance);

    const auto hidden = [&](std::size_t i) {
      return levels[i].step_s <= (1 + tolerance) * levels[i].resident_step_s;
    };
    std::optional<std::size_t> highest, best, leanest, knee, past;
    for (std::size_t i = 0; i < count; ++i) {
      if (!levels[i].fits()) continue;
      bool first = true, fastest = true, within = true, all_hidden = true, others_hidden = true;
      for (std::size_t j = 0; j < count; ++j) {
        if (!levels[j].fits()) continue;
        first = first && j >= i;
        fastest = fastest && (j < i ? levels[j].tokens_per_s < levels[i].tokens_per_s
                                    : levels[j].tokens_per_s <= levels[i].tokens_per_s);
        within = within && levels[i].tokens_per_s >= (1 - tolerance) * levels[j].tokens_per_s;
        all_hidden = all_hidden && (j > i || hidden(j));
        others_hidden = others_hidden && (j >= i || hidden(j));
      }
      if (first) highest = i;
      if (fastest) best = i;
      if (within) leanest = i;
      if (all_hidden) knee = i;
      if (others_hidden && !hidden(i)) past = i;
    }
    REQUIRE(choice.highest == highest);
    REQUIRE(choice.best == best);
    REQUIRE(choice.leanest == leanest);
    REQUIRE(choice.knee == knee);
    REQUIRE(choice.past_knee == past);
    without_knee += highest && !knee;
    without_any += !highest;
  }
  CHECK(without_knee > moelab::test::random_runs(100, 10));
  CHECK(without_any > moelab::test::random_runs(100, 10));
}

// Steps hide up to a threshold; the search between levels ends at the last one that does.
TEST_CASE("residency tuning: levels between find the knee to an expert") {
  Random random(3);
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    const std::uint32_t experts = 2 + below(random, 600), most_hidden = below(random, experts);
    const auto level = [&](std::uint32_t n) { return made_up(n, 1, n <= most_hidden ? 1 : 2); };
    std::vector<ResidencyLevel> levels;
    for (const std::uint32_t n : residency_grid(experts, 1 + below(random, 20), 1))
      levels.push_back(level(n));
    ResidencyChoice choice = choose_residency(levels, 0.02);
    int runs = 0;
    while (const auto n = nearer_to_knee(levels, choice)) {
      levels.insert(levels.begin() + static_cast<std::ptrdiff_t>(*choice.past_knee), level(*n));
      REQUIRE(levels[*choice.past_knee].offloaded == *n);
      REQUIRE(levels[*choice.past_knee - 1].offloaded < *n);
      REQUIRE(levels[*choice.past_knee + 1].offloaded > *n);
      choice = choose_residency(levels, 0.02);
      REQUIRE(++runs <= 10);  // halves 600 experts
    }
    REQUIRE(levels[*choice.knee].offloaded == most_hidden);
  }
  const std::vector<ResidencyLevel> hidden{made_up(0, 1, 1), made_up(4, 1, 1)};
  CHECK_FALSE(nearer_to_knee(hidden, choose_residency(hidden, 0.02)));
  const std::vector<ResidencyLevel> waiting{made_up(0, 1, 2), made_up(4, 1, 2)};
  CHECK_FALSE(nearer_to_knee(waiting, choose_residency(waiting, 0.02)));
}

// A layer's load of n experts of P bytes at B bytes/s hides behind the layers' computing c while n P / B <=
// c, and else is all there is to a step's time: L * max(c, n P / B). B is set so that n P / B = c for an n
// halfway between two numbers of experts.
TEST_CASE("residency tuning: the knee is where the link keeps up no longer") {
  Random random(4);
  for (int instance = 0; instance < moelab::test::random_runs(12, 3); ++instance) {
    const int experts = 6 + static_cast<int>(random.below(10)),
              layers = 3 + static_cast<int>(random.below(3));
    const std::uint64_t seed = random.below(1000);
    Case c = make_case(seed, experts, layers, 1e12);
    const double step_s = ResidencyTuning(c.scenario, c.system, c.trace).level(0).step_s;
    REQUIRE(step_s > layers * kHostPerLayer);
    const std::uint32_t most_hidden = below(random, static_cast<std::uint32_t>(experts));
    const double size = expert_size(c.scenario);
    const double rate = (most_hidden + 0.5) * size * layers / step_s;
    c = make_case(seed, experts, layers, rate);

    const std::vector<ResidencyLevel> levels = all_levels(c);
    REQUIRE(levels.size() == static_cast<std::size_t>(experts) + 1);
    const ResidencyChoice choice = choose_residency(levels, 0.02);
    CAPTURE(experts, layers, most_hidden, step_s);
    REQUIRE(choice.knee == most_hidden);
    REQUIRE(choice.past_knee == most_hidden + 1);
    // Memory is plenty, so all levels run the same steps.
    for (const ResidencyLevel& level : levels) {
      CAPTURE(level.offloaded);
      const double expected = std::max(step_s, layers * level.offloaded * size / rate);
      REQUIRE(level.step_s == Approx(expected).epsilon(0.01));
      REQUIRE(level.resident_step_s == Approx(step_s).epsilon(1e-9));
      // Past the knee the critical path is the link, but for the kernels that wait for it.
      const double kernels = step_s - layers * kHostPerLayer;
      if (level.offloaded <= most_hidden)
        REQUIRE(level.load_share < 0.01);
      else
        REQUIRE(level.load_share > 1 - kernels / expected - 0.01);
      REQUIRE(level.step_load_s == Approx(level.load_share * level.step_s));
      REQUIRE(level.tokens_per_s == Approx(4 / expected).epsilon(0.01));
      REQUIRE(level.requests_a_step == Approx(4));
      REQUIRE(level.residency == Approx(1 - 1.0 * level.offloaded / experts));
    }
  }
}

// A GPU's memory: fixed + L (E - n) P stored, 2 n P of window, and the KV cache in whole blocks.
TEST_CASE(
    "residency tuning: what experts leave, the KV cache takes, and what does not fit says by how much") {
  Case c = make_case(5, 8, 4, 1e9);
  const double size = expert_size(c.scenario);
  c.scenario.workload.output_tokens = 30;
  const MemoryPlan m = ResidencyTuning(c.scenario, c.system, c.trace).level(0).memory;
  const double fixed = (m.non_expert + m.activations).value();
  const double block = m.kv_block.value();
  // A request has 8 + 1 + 30 tokens in the end: 3 blocks of 16, as many as there are with 3 experts off. An
  // expert more a layer frees 2 P, since the window takes 2 P of the 4.
  c.scenario.budget = Bytes(fixed + 4 * 5 * size + 2 * 3 * size + 3.5 * block);
  const std::vector<ResidencyLevel> levels = all_levels(c);
  for (const ResidencyLevel& level : levels) {
    const double n = level.offloaded;
    CAPTURE(n, level.refusal);
    const double left = c.scenario.budget.value() - fixed - 4 * (8 - n) * size - 2 * n * size;
    REQUIRE(level.fits() == (n >= 3));
    if (n < 3) {
      REQUIRE(left < block);
      REQUIRE(level.memory.shortfall.value() == Approx(block - left));
      REQUIRE(level.tokens_per_s == 0);
      continue;
    }
    REQUIRE(level.memory.kv_blocks == static_cast<std::uint64_t>(left / block));
    REQUIRE(level.memory.expert_cache.value() == Approx(4 * (8 - n) * size));
    REQUIRE(level.tokens_per_s > 0);
  }
  // More blocks run more requests at once, up to all four.
  CHECK(levels[3].requests_a_step < 1.5);
  CHECK(levels[8].requests_a_step == Approx(4));
  for (std::size_t n = 4; n <= 8; ++n) CHECK(levels[n].requests_a_step >= levels[n - 1].requests_a_step);
  CHECK(choose_residency(levels, 0.02).highest == 3);
}

TEST_CASE("residency tuning: no request fits, or the host is full: a level says so, and others run") {
  Case c = make_case(6, 8, 4, 1e9);
  const double size = expert_size(c.scenario);
  const ResidencyLevel roomy = ResidencyTuning(c.scenario, c.system, c.trace).level(0);
  const auto spare = static_cast<double>(roomy.memory.kv_blocks) - 16;  // 20 are needed
  c.scenario.budget = c.scenario.budget - spare * roomy.memory.kv_block;
  // The host holds the experts of five a layer, beside the space to swap.
  const Bytes swap = c.system.kv.swap_space;
  c.scenario.device.memory.total.value =
      c.scenario.device.memory.system_reserve.value + swap + Bytes(5.5 * 4 * size);
  const std::vector<ResidencyLevel> levels = all_levels(c);
  CHECK_FALSE(levels[0].fits());
  CHECK_THAT(levels[0].refusal, Catch::Contains("can never serve request 1") &&
                                    Catch::Contains("needs 20 blocks of 16 tokens, there are 16"));
  for (std::size_t n = 1; n <= 5; ++n) CHECK(levels[n].fits());
  for (std::size_t n = 6; n <= 8; ++n) {
    CHECK_FALSE(levels[n].fits());
    CHECK_FALSE(levels[n].refusal.empty());
  }
}

// The comparison with all experts on the GPU is made with all requests there: when they came does not matter.
TEST_CASE("residency tuning: the knee does not depend on when requests come, throughput does") {
  Case c = make_case(7, 8, 4, 30e6);
  const std::vector<ResidencyLevel> at_once = all_levels(c);
  c.scenario.workload.arrivals_per_s = 0.5;
  const std::vector<ResidencyLevel> spread = all_levels(c);
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    CHECK(spread[i].step_s == at_once[i].step_s);
    CHECK(spread[i].step_load_s == at_once[i].step_load_s);
    CHECK(spread[i].resident_step_s == at_once[i].resident_step_s);
    CHECK(spread[i].tokens_per_s < at_once[i].tokens_per_s);
    CHECK(spread[i].requests_a_step < 3.9);
  }
  // The same from a log, which replaces the workload's lengths.
  c.scenario.workload.arrivals_per_s = 0;
  c.scenario.workload.log = {{0, 8, 300}, {1, 8, 300}, {1, 8, 300}, {3, 8, 300}};
  const std::vector<ResidencyLevel> logged = all_levels(c);
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    CHECK(logged[i].step_s == at_once[i].step_s);
    CHECK(logged[i].resident_step_s == at_once[i].resident_step_s);
    CHECK(logged[i].tokens_per_s < at_once[i].tokens_per_s);
  }
}

// With less KV cache fewer requests run, whose steps are shorter: the level is held against its own.
TEST_CASE("residency tuning: a level is held against steps of as many requests") {
  Case c = make_case(8, 8, 4, 1e12);
  c.system.host_per_layer = Seconds(0);
  const ResidencyLevel roomy = ResidencyTuning(c.scenario, c.system, c.trace).level(0);
  const auto spare = static_cast<double>(roomy.memory.kv_blocks) - 21;
  c.scenario.budget = c.scenario.budget - spare * roomy.memory.kv_block;
  const std::vector<ResidencyLevel> levels = all_levels(c);
  CHECK(levels[0].requests_a_step < 2);
  CHECK(levels[8].requests_a_step > 2.5);
  CHECK(levels[8].step_s > 1.1 * levels[0].step_s);
  for (const ResidencyLevel& level : levels) CHECK(level.slowdown() == Approx(1).epsilon(0.01));
}

TEST_CASE("residency tuning: a system's own storage and residency give way to the level") {
  Case c = make_case(9, 8, 4, 15e6);  // so slow that a budget-aware residency would bring experts back
  const ResidencyLevel plain = ResidencyTuning(c.scenario, c.system, c.trace).level(4);
  c.system.paging->storage = {"whole-layer", {{"offloaded", 0.5}}};
  c.system.paging->residency = {"budget-aware", {{"interval", 1}}};
  const ResidencyLevel level = ResidencyTuning(c.scenario, c.system, c.trace).level(4);
  CHECK(level.memory.expert_cache.value() == Approx(4 * 4 * expert_size(c.scenario)));
  CHECK(level.memory.host_experts.value() == Approx(4 * 4 * expert_size(c.scenario)));
  CHECK(level.slowdown() > 1.5);
  CHECK(level.tokens_per_s == plain.tokens_per_s);
  CHECK(level.step_s == plain.step_s);
  CHECK(level.resident_step_s == plain.resident_step_s);
}

TEST_CASE("residency tuning: what is pinned is as good as resident, and is not moved") {
  Case c = make_case(11, 8, 3, 15e6);
  const ResidencyLevel plain = ResidencyTuning(c.scenario, c.system, c.trace).level(4);
  c.system.cache.name = "fixed-experts";
  c.system.paging->pinned = 3;
  ResidencyTuning tuning(c.scenario, c.system, c.trace);
  CHECK(tuning.experts() == 5);
  const ResidencyLevel level = tuning.level(4);
  CHECK(level.memory.kv_blocks == plain.memory.kv_blocks);
  CHECK((level.memory.expert_cache + level.memory.pinned).value() ==
        Approx(plain.memory.expert_cache.value()).epsilon(1e-12));
  CHECK(level.tokens_per_s == Approx(plain.tokens_per_s).epsilon(1e-12));
  CHECK(level.resident_step_s == Approx(plain.resident_step_s).epsilon(1e-12));
  c.system.paging->pinned = 8;
  check_refused(c, "pins all experts of every layer (cache.experts)");
  c.system.cache.name = "none";
  c.system.paging->pinned = 0;
  c.system.paging->backends = {"resident", "ssd"};
  const ResidencyLevel from_ssd = ResidencyTuning(c.scenario, c.system, c.trace).level(4);
  CHECK(from_ssd.fits());
  CHECK(from_ssd.memory.kv_blocks == plain.memory.kv_blocks);
}

TEST_CASE("residency tuning: systems without a level to tune are named") {
  Case c = make_case(10, 4, 2, 1e9);
  c.system.paging->backends = {"resident"};
  check_refused(c, "has one storage backend, 'resident'");
  check_refused(c, "'backends: [resident, host]'");
  c.system.paging->backends = {"host"};
  check_refused(c, "'backends: [resident, host]'");
  c.system.paging->backends = {"host", "resident"};
  check_refused(c, "has 'resident' as its last storage backend, which takes GPU memory");
  c.system.paging.reset();
  check_refused(c, "does not page its experts");
}

}  // namespace moelab::residency_tuning_test
