// Several instances of a system: disaggregated prefill against closed forms, a naive simulation and queueing
// theory.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "sim/results/request_file.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/serving/arrival_times.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/instances_reference.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::instances_test {

using namespace moelab::test;

namespace {

InstancesConfig apart(std::uint32_t prefill, std::uint32_t decode, double bandwidth, double latency) {
  InstancesConfig config;
  config.prefill = prefill;
  config.decode = decode;
  config.link = {BytesPerSecond(bandwidth), Seconds(latency), "made up by a test"};
  return config;
}

SystemConfig& system_of(SmallRun& run) {
  return run.scenario.systems.front();
}

/// Of one GPU and model layer: keys and values of 2 heads of 8 numbers of 2 bytes (small_model()).
constexpr double kTokenBytesALayer = 2.0 * 2 * 8 * 2;

double block_bytes(const SmallRun& run) {
  const auto layers = static_cast<double>(run.scenario.model.layers.size());
  return layers * kTokenBytesALayer * system_of(const_cast<SmallRun&>(run)).kv.block_tokens;
}

double sent_bytes(const SmallRun& run, std::uint32_t prompt) {
  const double block = system_of(const_cast<SmallRun&>(run)).kv.block_tokens;
  return std::ceil(prompt / block) * block_bytes(run);
}

/// Requests so far apart that each is answered before the next comes, with all weights on the GPU and a
/// batching policy that hands requests over.
SmallRun lone_requests(std::uint64_t seed) {
  Random random(seed);
  SmallRun run = paged_run(small_model({.moe_layers = static_cast<int>(from(random, 1, 3)),
                                        .dense_layers = static_cast<int>(from(random, 0, 2))}),
                           {"resident"});
  SystemConfig& system = system_of(run);
  system.kv.block_tokens = from(random, 1, 7);
  if (coin(random))
    system.batching->policy = {"vllm-v1", {}};
  else
    system.batching->policy = {"continuous", {{"chunked", from(random, 0, 1)}}};
  system.batching->max_tokens = from(random, 40, 60);
  system.host_per_layer = Seconds(7e-6 * random.uniform());
  run.scenario.workload.request_log = "made up";
  for (std::uint32_t i = 0; i < 5; ++i)
    run.scenario.workload.log.push_back({100.0 * i, from(random, 1, 20), from(random, 1, 9)});
  run.trace = steady_trace(run.scenario.model, {3, 12});
  return run;
}

std::map<std::uint32_t, RequestTimes> by_number(const RunResult& r) {
  std::map<std::uint32_t, RequestTimes> requests;
  for (const RequestTimes& q : r.metrics.requests) CHECK(requests.emplace(q.number, q).second);
  return requests;
}

}  // namespace

TEST_CASE("instances: a request alone has its first token as before, and its second one a transfer later") {
  for (std::uint64_t seed = 1; seed <= random_runs(2000u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = lone_requests(seed);
    Random random(seed + 99);
    const double bandwidth = 1e6 * (1 + random.uniform()),
                 latency = coin(random) ? 0 : 1e-3 * random.uniform();
    const RunResult plain = run.run();
    system_of(run).instances = apart(from(random, 1, 3), from(random, 1, 3), bandwidth, latency);
    const RunResult r = run.run();
    const auto before = by_number(plain), after = by_number(r);
    REQUIRE(before.size() == 5);
    REQUIRE(after.size() == 5);
    std::vector<double> gaps = plain.metrics.token_gaps_s;
    std::size_t next = 0;  // gap
    double bytes = 0;
    for (std::uint32_t i = 0; i < 5; ++i) {
      const RequestTimes &was = before.at(i), &is = after.at(i);
      CHECK(is.first_token_s == Approx(was.first_token_s).epsilon(1e-12));
      CHECK(is.output_tokens == was.output_tokens);
      const bool goes_on = was.output_tokens > 1;
      const double took = goes_on ? latency + sent_bytes(run, was.prompt_tokens) / bandwidth : 0;
      if (goes_on) bytes += sent_bytes(run, was.prompt_tokens);
      CHECK(is.end_s - is.first_token_s == Approx(was.end_s - was.first_token_s + took).epsilon(1e-8));
      CHECK((is.decoded_by >= 0) == goes_on);
      if (goes_on) gaps[next] += took;
      next += was.output_tokens - 1;
    }
    REQUIRE(r.metrics.token_gaps_s.size() == gaps.size());
    for (std::size_t i = 0; i < gaps.size(); ++i)
      CHECK(r.metrics.token_gaps_s[i] == Approx(gaps[i]).epsilon(1e-6));
    CHECK(r.instances.transfers.bytes == Approx(bytes).epsilon(1e-12));
  }
}

TEST_CASE("instances: one that does both is the system without instances") {
  std::size_t ran = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(1500u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_paged_run(seed, seed % 2 == 0);
    if (!can_run(run)) continue;
    const RunResult plain = run.run();
    system_of(run).instances.emplace().colocated = 1;
    const RunResult r = run.run();
    ++ran;
    REQUIRE(r.metrics.requests.size() == plain.metrics.requests.size());
    CHECK(r.metrics.wall_s == Approx(plain.metrics.wall_s).epsilon(1e-9));
    CHECK(r.metrics.serving.steps == plain.metrics.serving.steps);
    CHECK(r.metrics.serving.rows == plain.metrics.serving.rows);
    const auto before = by_number(plain), after = by_number(r);
    for (const auto& [number, was] : before) {
      const RequestTimes& is = after.at(number);
      CHECK(is.started_s == Approx(was.started_s).epsilon(1e-9));
      CHECK(is.first_token_s == Approx(was.first_token_s).epsilon(1e-9));
      CHECK(is.end_s == Approx(was.end_s).epsilon(1e-9));
      CHECK(is.preempted == was.preempted);
    }
    for (std::size_t c = 0; c < kCauses; ++c)
      CHECK(r.metrics.stall_s[c] == Approx(plain.metrics.stall_s[c]).epsilon(1e-6).margin(1e-12));
  }
  CHECK(ran > random_runs(1500u) / 2);
}

TEST_CASE(
    "instances: each request is answered once, in the order of its parts, and what is sent is its cache") {
  std::size_t ran = 0, gave_way = 0, waited = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(3000u); ++seed) {
    INFO("seed " << seed);
    Random random(seed + 5);
    SmallRun run = random_paged_run(seed, seed % 2 == 0);
    Scenario& s = run.scenario;
    s.workload.prefilled = false;
    const bool v1 = coin(random);
    system_of(run).batching->policy = {v1 ? "vllm-v1" : "continuous", {}};
    if (!v1) system_of(run).batching->policy.parameters = {{"swap", from(random, 0, 1)}, {"chunked", 1}};
    system_of(run).instances = apart(from(random, 1, 3), from(random, 1, 3),
                                     1e5 * (1 + 99 * random.uniform()), 1e-4 * random.uniform());
    if (!can_run(run)) continue;
    ++ran;
    const RunResult r = run.run();
    const auto requests = by_number(r);
    REQUIRE(requests.size() == s.workload.log.size());
    const MemoryPlan memory = plan_of(run).memory;
    double bytes = 0, tokens = 0;
    for (const auto& [number, q] : requests) {
      CHECK(q.output_tokens == s.workload.log[number].output_tokens);
      CHECK(q.arrival_s <= q.started_s);
      CHECK(q.started_s < q.first_token_s);
      tokens += q.output_tokens;
      gave_way += q.preempted;
      if (q.output_tokens == 1) {
        CHECK(q.decoded_by == -1);
        CHECK(q.end_s == q.first_token_s);
        continue;
      }
      CHECK(q.server < system_of(run).instances->prefill);
      CHECK(q.decoded_by >= static_cast<std::int32_t>(system_of(run).instances->prefill));
      CHECK(q.first_token_s <= q.sent_from_s);
      CHECK(q.sent_from_s < q.sent_until_s);
      CHECK(q.sent_until_s < q.end_s);
      waited += q.sent_from_s > q.first_token_s ? 1 : 0;
      const double blocks = std::ceil(q.prompt_tokens / static_cast<double>(system_of(run).kv.block_tokens)) +
                            static_cast<double>(memory.state_blocks);
      bytes += blocks * memory.kv_block.value();
    }
    CHECK(r.instances.transfers.bytes == Approx(bytes).epsilon(1e-12));
    CHECK(static_cast<double>(r.metrics.tokens) == tokens);
    CHECK(r.metrics.ttft_s.size() == requests.size());
    CHECK(r.metrics.end_to_end_s.size() == requests.size());
    CHECK(static_cast<double>(r.metrics.token_gaps_s.size()) ==
          tokens - static_cast<double>(requests.size()));
    CHECK(r.metrics.serving.most_kv_use <= 1);
  }
  CHECK(ran > random_runs(3000u) / 3);
  CHECK(gave_way > 0);
  CHECK(waited > 0);
}

namespace {

/// Steps that take the same time whatever is in them: the framework's, beside kernels that take none.
struct SteadyCase {
  SmallRun run;
  NaiveInstances naive;
  std::vector<NaiveRequest> requests;
};

SteadyCase steady_case(std::uint64_t seed) {
  Random random(seed);
  SteadyCase c{paged_run(small_model({}), {"resident"}), {}, {}};
  Scenario& s = c.run.scenario;
  SystemConfig& system = system_of(c.run);
  NaiveInstances& n = c.naive;
  n.step_s = 1e-3 * (1 + random.uniform());
  n.latency_s = coin(random) ? 0 : 1e-3 * random.uniform();
  n.prefill = from(random, 1, 3);
  n.decode = from(random, 1, 3);
  n.block_tokens = from(random, 2, 6);
  n.most_requests = from(random, 1, 6);
  n.most_tokens = from(random, 6, 40);
  system.host_per_pass = Seconds(n.step_s);
  system.kv.block_tokens = n.block_tokens;
  n.whole_prompts = coin(random);
  if (n.whole_prompts)
    system.batching->policy = {"continuous", {{"swap", 0}, {"chunked", 1}, {"watermark", 0}}};
  else
    system.batching->policy = {"vllm-v1", {{"async", 0}, {"prefix_cache", 0}}};
  system.batching->max_tokens = n.most_tokens;
  s.workload.batch = n.most_requests;
  s.workload.request_log = "made up";
  n.block_bytes = block_bytes(c.run);
  n.rate = n.block_bytes / (n.step_s * (0.1 + 3 * random.uniform()));
  // Prompts of one stream have different numbers of blocks: no two transfers end together by rule.
  std::vector<std::uint32_t> prompts(from(random, 2, 12));
  for (std::uint32_t i = 0; i < prompts.size(); ++i)
    prompts[i] = i * n.block_tokens + from(random, 1, n.block_tokens);
  for (std::size_t i = prompts.size(); i > 1; --i) std::swap(prompts[i - 1], prompts[random.below(i)]);
  double at = 0;
  std::uint64_t longest = 0;
  for (const std::uint32_t prompt : prompts) {
    at += n.step_s * 3 * random.uniform();
    c.requests.push_back({at, prompt, from(random, 1, 8)});
    s.workload.log.push_back({at, prompt, c.requests.back().output});
    longest = std::max(longest, kv_blocks(prompt + c.requests.back().output, n.block_tokens));
  }
  n.blocks = longest + random.below(3 * longest);
  give_blocks(c.run, static_cast<double>(n.blocks));
  system.instances =
      apart(static_cast<std::uint32_t>(n.prefill), static_cast<std::uint32_t>(n.decode), n.rate, n.latency_s);
  c.run.trace = steady_trace(s.model, {3, 12});
  return c;
}

RunResult run_steps_alone(const SmallRun& run) {
  RunOptions options;
  options.free_resources = {"compute", "collective", "link", "link_out", "ssd", "decode", "pager"};
  return run_system(run.scenario, run.system(), run.trace, options);
}

}  // namespace

TEST_CASE("instances: with steady steps they do what a naive simulation does") {
  std::size_t compared = 0, waited = 0, held = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(6000u); ++seed) {
    INFO("seed " << seed);
    SteadyCase c = steady_case(seed);
    REQUIRE(plan_of(c.run).memory.kv_blocks == c.naive.blocks);
    if (!c.naive.run(c.requests)) continue;
    ++compared;
    const auto requests = by_number(run_steps_alone(c.run));
    REQUIRE(requests.size() == c.requests.size());
    const double step = c.naive.step_s;
    for (std::uint32_t i = 0; i < c.requests.size(); ++i) {
      INFO("request " << i);
      const NaiveRequest& q = c.requests[i];
      const RequestTimes& is = requests.at(i);
      REQUIRE(is.started_s == Approx(q.started).epsilon(1e-9));
      REQUIRE(is.first_token_s == Approx(q.first).epsilon(1e-9));
      REQUIRE(is.end_s == Approx(q.end).epsilon(1e-9));
      REQUIRE(is.server == q.prefill);
      if (q.output == 1) continue;
      REQUIRE(is.decoded_by == static_cast<std::int32_t>(c.naive.prefill + q.decode));
      REQUIRE(is.sent_from_s == Approx(q.sent_from).epsilon(1e-9));
      REQUIRE(is.sent_until_s == Approx(q.sent_until).epsilon(1e-9));
      REQUIRE(is.longest_gap_s == Approx(*std::max_element(q.gaps.begin(), q.gaps.end())).epsilon(1e-6));
      waited += q.sent_from > q.first + step ? 1 : 0;
      held += q.started > q.arrival + 3 * step ? 1 : 0;
    }
  }
  CHECK(compared > random_runs(6000u) / 2);
  CHECK(waited > 0);
  CHECK(held > 0);
}

TEST_CASE("instances: prompts of one length wait as in M/D/1, whatever the decoding side does") {
  const double rho = GENERATE(0.4, 0.7);
  const double step = 1e-3;
  const std::size_t runs = random_runs(20u), each = 2000;
  double waits = 0;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    SteadyCase c = steady_case(1);
    Scenario& s = c.run.scenario;
    system_of(c.run).host_per_pass = Seconds(step);
    system_of(c.run).batching->max_tokens = 5;  // a prompt a step
    system_of(c.run).instances = apart(1, 2, 1e9, 0);
    s.workload.batch = 5;
    s.workload.log.clear();
    give_blocks(c.run, 5000);
    ArrivalTimes arrivals({}, rho / step, seed);
    while (s.workload.log.size() < each) s.workload.log.push_back({arrivals.next(), 5, 2});
    const RunResult r = run_steps_alone(c.run);
    REQUIRE(r.metrics.requests.size() == each);
    for (const RequestTimes& q : r.metrics.requests) waits += latency_of(q, Latency::queueing);
  }
  const double n = static_cast<double>(runs) * static_cast<double>(each);
  const double expected = rho * step / (2 * (1 - rho));  // Pollaczek-Khinchine
  const double variance =                                // Daley 1968, of M/M/1 and so above that of M/D/1
      rho * (2 + 5 * rho - 4 * rho * rho + rho * rho * rho) * step * step / std::pow(1 - rho, 4);
  INFO("rho " << rho << ": " << waits / n << " against " << expected);
  CHECK(std::abs(waits / n - expected) < 3 * std::sqrt(variance / n));
}

TEST_CASE("instances: users and conversations go on when the decoding side has answered") {
  SmallRun run = lone_requests(3);
  Scenario& s = run.scenario;
  s.workload.log.clear();
  s.workload.request_log.clear();
  s.workload.requests = 40;
  s.workload.prompt_tokens = 6;
  s.workload.output_tokens = 4;
  s.workload.closed_loop = ClosedLoop{.users = 3, .think_s = 2e-3};
  system_of(run).instances = apart(2, 1, 1e6, 1e-4);
  const RunResult r = run.run();
  REQUIRE(r.metrics.requests.size() == 40);
  // Never more than its users' requests at once; each comes a think time after an answer, or within the
  // first.
  std::multiset<double> answers;
  for (const RequestTimes& q : r.metrics.requests) answers.insert(q.end_s);
  for (const RequestTimes& q : r.metrics.requests) {
    if (q.arrival_s <= 2e-3) continue;
    const auto answer = answers.lower_bound(q.arrival_s - 2e-3 - 1e-9);
    REQUIRE(answer != answers.end());
    CHECK(*answer == Approx(q.arrival_s - 2e-3).epsilon(1e-9));
  }
}

TEST_CASE("instances: those that are idle dilute no critical path, which is the busiest one's") {
  const auto sum = [](const std::array<double, kCauses>& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  };
  for (std::uint64_t seed = 1; seed <= random_runs(200u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = lone_requests(seed);
    const Metrics plain = run.run().metrics;
    // Each request finds all instances idle, and goes to the first.
    system_of(run).instances.emplace().colocated = 3;
    const RunResult alike = run.run();
    REQUIRE(alike.instances.servers[0].requests == 5);
    for (std::size_t c = 0; c < kCauses; ++c) {
      CHECK(alike.metrics.stall_s[c] == Approx(plain.stall_s[c]).epsilon(1e-6).margin(1e-12));
      CHECK(alike.metrics.decode_stall_s[c] == Approx(plain.decode_stall_s[c]).epsilon(1e-6).margin(1e-12));
      CHECK(alike.instances.servers[2].stall_s[c] == 0);
    }
    CHECK(alike.instances.busiest() == std::vector<std::size_t>{0});
    CHECK(alike.instances.busiest_words(0) == "server0, the busiest of 3 instances");

    // What one did takes two now: prompts on one, the rest on the first that decodes.
    system_of(run).instances = apart(2, 3, 1e6, 1e-4);
    const RunResult r = run.run();
    const auto& servers = r.instances.servers;
    const double prompts = sum(servers[0].stall_s), decodes = sum(servers[2].stall_s);
    CHECK(prompts + decodes == Approx(sum(plain.stall_s)).epsilon(1e-6));
    CHECK(sum(r.metrics.stall_s) == std::max(prompts, decodes));
    CHECK(r.metrics.decode_stall_s == servers[2].stall_s);
    const bool decoding = decodes > prompts;
    const std::vector<std::size_t> places = r.instances.busiest();
    REQUIRE(places == (decoding ? std::vector<std::size_t>{2, 0} : std::vector<std::size_t>{0, 2}));
    CHECK(r.instances.busiest_words(places[0]) ==
          std::string(decoding ? "decode0" : "prefill0") + ", the busiest of 5 instances");
    CHECK(r.instances.busiest_words(places[1]) == (decoding ? "prefill0, the busiest of 2 that run prompts"
                                                            : "decode0, the busiest of 3 that decode"));
  }
}

TEST_CASE("instances: records name both servers") {
  SmallRun run = lone_requests(7);
  run.scenario.workload.log = {{0, 5, 3}, {50, 5, 1}};
  system_of(run).instances = apart(1, 1, 1e6, 0);
  const std::string text = requests_csv({run.run()});
  CHECK(text.find("server") < text.find("decode_server,kv_sent_from_s,kv_sent_until_s"));
  CHECK(text.find("prefill0") != std::string::npos);
  CHECK(text.find("decode0") != std::string::npos);
}

}  // namespace moelab::instances_test
