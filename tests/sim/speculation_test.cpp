// Speculative decoding by a stated acceptance: how many tokens a step gives, against the closed form; what
// drafting costs, by hand; laws between runs with and without it; what cannot be, is refused.
#include "sim/scenario/speculation_config.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "models/input_error.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/drafts.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::speculation_test {

using namespace moelab::test;

namespace {

/// (1 - a^(k+1)) / (1 - a): Leviathan and others, ICML 2023, equation 1.
double tokens_of_step(double a, int k) {
  return a == 1 ? k + 1 : (1 - std::pow(a, k + 1)) / (1 - a);
}

/// One request of `output` tokens with a prompt of 3, each row routed to the same two experts, which stay.
SmallRun steady_run(std::uint32_t output) {
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "steady";
  s.model = small_model({});
  s.device = small_discrete_device();
  s.workload.trace_file = "made up";
  s.systems.push_back(plain_system());
  s.systems.back().cache.name = "lru";
  run.trace = steady_trace(s.model, {3, output - 1});
  return run;
}

RunResult run_with(SmallRun run, std::uint32_t tokens, double acceptance) {
  run.scenario.speculation.tokens = tokens;
  run.scenario.speculation.acceptance = acceptance;
  give_room(run, run.scenario.model.moe().experts);
  return run.run();
}

std::string refusal(const std::string& speculation, const std::string& more = "") {
  try {
    const Scenario s = scenario_of_document(
        "speculates",
        "name: speculates\nmodel: qwen3-30b-a3b\nmachine: {gpu: rtx-4090-24gb, ram: 96 GiB}\n"
        "runtime: vllm-v1\nworkload: {requests: 1, prompt_tokens: 9, output_tokens: 9}\n"
        "speculation: " +
            speculation + "\nsystems: [moe-infinity]\n" + more);
    check_scenario(s, scenario_trace(s));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("speculation: accepted drafts are as likely as their closed form says") {
  constexpr int kSteps = 40'000;
  for (const double a : {0.0, 0.3, 0.7, 0.95, 1.0})
    for (const int k : {1, 3, 7}) {
      CAPTURE(a, k);
      const Drafts drafts{static_cast<std::uint32_t>(k), a, 11};
      std::vector<int> seen(static_cast<std::size_t>(k) + 1, 0);
      double tokens = 0;
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        // Steps of many requests, each at a place of its own.
        const std::uint32_t accepted = drafts.accepted(i, 64 * (i % 100), static_cast<std::uint32_t>(k));
        ++seen[accepted];
        tokens += 1 + accepted;
      }
      for (int n = 0; n <= k; ++n) {  // n accepted and one refused, or all of them
        const double p = std::pow(a, n) * (n < k ? 1 - a : 1);
        CHECK(std::abs(seen[static_cast<std::size_t>(n)] - kSteps * p) <=
              5 * std::sqrt(kSteps * p * (1 - p)) + 1e-9);
      }
      // The variance of what a step gives is below (k + 1)^2.
      CHECK(std::abs(tokens / kSteps - tokens_of_step(a, k)) <= 5 * (k + 1) / std::sqrt(kSteps));
    }
}

TEST_CASE("speculation: the draw at a place is one, whatever is drafted before it") {
  const Drafts drafts{8, 0.6, 3};
  for (std::uint32_t request = 0; request < 50; ++request)
    for (std::uint32_t context = 0; context < 50; ++context) {
      const std::uint32_t all = drafts.accepted(request, context, 8);
      for (std::uint32_t k = 0; k <= 8; ++k)
        REQUIRE(drafts.accepted(request, context, k) == std::min(k, all));
      if (all > 0) REQUIRE(drafts.accepted(request, context + 1, 7) == all - 1);
    }
  CHECK(Drafts{8, 0.6, 3}.accepted(1, 2, 8) == Drafts{2, 0.6, 3}.accepted(1, 2, 8));
}

TEST_CASE("speculation: nothing accepted, the same steps as without, and none shorter") {
  const RunResult without = run_with(steady_run(40), 0, 0);
  for (const std::uint32_t k : {1U, 4U}) {
    const RunResult with = run_with(steady_run(40), k, 0);
    CHECK(with.metrics.tokens == without.metrics.tokens);
    REQUIRE(with.metrics.token_gaps_s.size() == without.metrics.token_gaps_s.size());
    for (std::size_t i = 0; i < 39; ++i)
      CHECK(with.metrics.token_gaps_s[i] >= without.metrics.token_gaps_s[i]);
    CHECK(with.metrics.speculation.accepted == 0);
    CHECK(with.metrics.speculation.steps == 39);
    // k at each step, but no more than are left beside the step's own token.
    CHECK(with.metrics.speculation.drafted == 39 * k - k * (k + 1) / 2);
  }
}

TEST_CASE("speculation: all accepted, ceil((n - 1) / (k + 1)) steps for n tokens") {
  for (std::uint32_t n = 2; n <= 40; ++n)
    for (const std::uint32_t k : {1U, 2U, 5U}) {
      CAPTURE(n, k);
      const RunResult r = run_with(steady_run(n), k, 1);
      const std::uint64_t steps = (n - 1 + k) / (k + 1);
      CHECK(r.metrics.tokens == n);
      CHECK(r.metrics.speculation.steps == steps);
      CHECK(r.metrics.token_gaps_s.size() == steps);  // tokens of one step come behind one gap
      CHECK(r.metrics.speculation.accepted == n - 1 - steps);
    }
}

TEST_CASE("speculation: a request's TPOT is of its tokens, its ITL of its steps") {
  const RunResult r = run_with(steady_run(31), 2, 1);  // 10 steps of 3 tokens
  REQUIRE(r.metrics.requests.size() == 1);
  const RequestTimes& q = r.metrics.requests.front();
  double sum = 0;
  for (const double gap : r.metrics.token_gaps_s) sum += gap;
  CHECK(sum == Approx(q.end_s - q.first_token_s));
  CHECK(latency_of(q, Latency::tpot) == Approx(sum / 30));
  CHECK(latency_of(q, Latency::itl) ==
        *std::max_element(r.metrics.token_gaps_s.begin(), r.metrics.token_gaps_s.end()));
}

TEST_CASE("speculation: more drafts never take more steps") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint64_t before = 1000;
    for (std::uint32_t k = 0; k <= 6; ++k) {
      SmallRun run = steady_run(60);
      run.scenario.seed = seed;
      const RunResult r = run_with(run, k, 0.6);
      CHECK(r.metrics.tokens == 60);
      const std::uint64_t steps = r.metrics.token_gaps_s.size();
      CHECK(steps <= before);
      before = steps;
    }
  }
}

TEST_CASE("speculation: who knows the future knows of drafts too") {
  int better = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(60u); ++seed) {
    SmallRun run = random_discrete_run(seed);
    Scenario& s = run.scenario;
    Random random(seed);
    s.speculation = random_speculation(random);
    SystemConfig& system = s.systems.front();
    system.routing = {"model", {}};
    system.prefetch = {"none", {}};
    system.execution = {"gpu-only", {}};
    system.fetch_whole_layer = false;
    give_room(run, 1 + random.uniform() * s.model.moe().experts);
    const auto misses = [&](const char* cache) {
      system.cache = {cache, {}};
      return run.run().metrics.hits[index(State::M)];
    };
    const std::uint64_t oracle = misses("belady"), lru = misses("lru"), fifo = misses("fifo");
    CHECK(oracle <= lru);
    CHECK(oracle <= fifo);
    better += oracle < lru ? 1 : 0;
  }
  CHECK(better > 0);
}

// One expert, which is always there: every weight is read once a step, whatever rows are verified, and the
// rows of the request read its keys and values together. By the roofline, product by product.
TEST_CASE("speculation: where nothing is missing a step takes its closed form") {
  for (const std::uint32_t k : {0U, 1U, 4U}) {
    SmallRun run = steady_run(1 + 5 * (k + 1));  // five steps behind the prompt's token
    Scenario& s = run.scenario;
    s.model = small_model({.experts = 1, .top_k = 1});
    run.trace = steady_trace(s.model, {3, 5 * (k + 1)});
    if (k == 4) s.speculation.time = Seconds(3e-5);
    const RunResult r = run_with(run, k, 1);
    const TimingModel timing(s.device);
    const double rows = 1.0 + k;
    const auto seconds = [&](const Work& work) { return (timing.kernel(work) + timing.dispatch()).value(); };
    REQUIRE(r.metrics.token_gaps_s.size() == 5);
    for (std::size_t step = 0; step < 5; ++step) {
      const double first = 4 + rows * static_cast<double>(step);  // tokens that its first row attends to
      const double mean_context = first + (rows - 1) / 2;
      double expected = seconds(head_work(s.model, rows)) + k * (k == 4 ? 3e-5 : 0);
      for (const Layer& layer : s.model.layers) {
        expected += seconds(attention_work(s.model, layer, rows, mean_context, rows));
        expected += (timing.expert(s.model, layer.feed_forward, rows) + timing.dispatch()).value();
      }
      CHECK(r.metrics.token_gaps_s[step] == Approx(expected).epsilon(1e-9));
    }
    CHECK(r.metrics.hits[index(State::M)] == s.model.layers.size());  // in the prompt
  }
}

// Llama-3.1-70B on an H200 (4800 GB/s, 141 GB), and Llama-3.1-8B beside it.
TEST_CASE("speculation: what drafting takes, by the data sheet") {
  constexpr double kBandwidth = 4800e9;
  const RuntimeCosts r = load_runtime("vllm-v1").on(find_gpu("h200-141gb"), {});
  const auto run_of = [](const std::string& speculation) {
    const Scenario s = scenario_of_document(
        "dense",
        "name: dense\nmodel: llama-3.1-70b\nweights: fp8\nmachine: {gpu: h200-141gb}\nruntime: vllm-v1\n"
        "workload: {requests: 1, batch: 1, prompt_tokens: 100, output_tokens: 21}\nspeculation: " +
            speculation +
            "\nsystems:\n  - {name: v1, weights: paged, paging: {backends: [resident]}, batching: {policy: "
            "vllm-v1}}\n");
    const RoutingTrace trace = scenario_trace(s);
    check_scenario(s, trace);
    return run_system(s, s.systems.front(), trace, {});
  };
  const RunResult none = run_of("{tokens: 0, acceptance: 1}");
  const RunResult ngram = run_of("{tokens: 4, acceptance: 1}");
  const RunResult timed = run_of("{tokens: 4, acceptance: 1, draft: {time: 2 ms, source: made up}}");
  const RunResult model = run_of("{tokens: 4, acceptance: 1, draft: {model: llama-3.1-8b}}");
  REQUIRE(none.metrics.token_gaps_s.size() == 20);
  REQUIRE(ngram.metrics.token_gaps_s.size() == 4);
  for (std::size_t step = 0; step < 4; ++step) {
    const double context = 101.0 + 5 * static_cast<double>(step);
    const double one = none.metrics.token_gaps_s[5 * step];  // the same first row
    const double verified = ngram.metrics.token_gaps_s[step];
    CHECK(verified > one);
    CHECK(verified < 1.05 * one);  // all that it reads it reads anyway
    CHECK(timed.metrics.token_gaps_s[step] == Approx(verified + 4 * 2e-3).epsilon(1e-9));
    // By the data sheet as dense_model_test.cpp has it: Llama-3.1-8B in BF16, one token after the other.
    double draft = 0;
    for (int i = 0; i < 4; ++i) {
      const double weights = 2 / (kBandwidth * r.dense_bandwidth);
      const double projections = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 2 * 4096, ff = 3.0 * 4096 * 14336;
      const double layer = (projections + ff) * weights +
                           2.0 * 8 * 128 * 2 * (context + i) / (kBandwidth * r.attention_bandwidth) +
                           10 * r.launch;
      draft += 32 * layer + (128256.0 * 4096 + 4096) * weights + 3 * r.launch + r.step + r.request;
    }
    CHECK(model.metrics.token_gaps_s[step] == Approx(verified + draft).epsilon(1e-9));
  }
  CHECK(timed.metrics.stall_s[static_cast<std::size_t>(Cause::drafting)] == Approx(4 * 4 * 2e-3));
  CHECK(ngram.metrics.stall_s[static_cast<std::size_t>(Cause::drafting)] == 0);
  // Its weights, and of a token of the cache what it keeps of one: 32 layers beside 80.
  const double weights = 2 * (32 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 2 * 4096 + 3.0 * 4096 * 14336) +
                              2 * 128256.0 * 4096 + 4096);
  CHECK(model.memory.draft == Bytes(weights));
  CHECK(model.memory.kv_block.value() == Approx(ngram.memory.kv_block.value() * 112 / 80));
}

TEST_CASE("speculation: what cannot be is refused with the reason") {
  const auto has = [](const std::string& speculation, const std::string& reason,
                      const std::string& more = "") {
    CAPTURE(speculation, reason);
    CHECK_THAT(refusal(speculation, more), Catch::Contains(reason));
  };
  CHECK(refusal("{tokens: 4, acceptance: 0.7}") == "accepted");
  CHECK(refusal("{tokens: 4, acceptance: 0.7, draft: {bytes: 420 MB, source: made up}}") == "accepted");
  has("{tokens: 4, acceptance: 1.2}", "acceptance");
  has("{tokens: 400, acceptance: 1}", "tokens");
  has("{tokens: 4}", "acceptance");
  has("{tokens: 4, acceptance: 1, draft: ngrams}", "ngram");
  has("{tokens: 4, acceptance: 1, draft: {}}", "says nothing of what drafts");
  has("{tokens: 4, acceptance: 1, draft: {model: qwen3-7b}}", "qwen3-8b");
  has("{tokens: 4, acceptance: 1, draft: {model: qwen3-30b-a3b}}", "has experts");
  has("{tokens: 4, acceptance: 1, draft: {model: llama-3.1-8b}}", "has a vocabulary of 128256 tokens");
  has("{tokens: 4, acceptance: 1, draft: {bytes: 1 GB}}", "source");
}

TEST_CASE("speculation: the same again, watched or not") {
  for (std::uint64_t seed = 1; seed <= random_runs(40u); ++seed) {
    SmallRun run = random_discrete_run(seed);
    Random random(seed);
    run.scenario.speculation = random_speculation(random);
    give_room(run, random.uniform() * run.scenario.model.moe().experts);
    const RunResult once = run.run(), again = run.run();
    CHECK(once.metrics.wall_s == again.metrics.wall_s);
    Recorder seen;  // an observer sees each operation: none is skipped then
    CHECK(run.run(&seen).metrics.wall_s == Approx(once.metrics.wall_s).epsilon(1e-9));
  }
}

}  // namespace moelab::speculation_test
