// A run that takes each request in the step in which another run took it has the same steps, however fast the
// machine is.
#include "sim/serving/arrival_witness.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "sim/serving/request_source.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::arrival_witness_test {

using namespace moelab::test;

namespace {

/// Requests of a chunked system that come while others are answered.
SmallRun stream(std::uint64_t seed, double arrivals_per_s) {
  Random random(seed + 0xa7);
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "stream";
  s.seed = seed;
  s.model = small_model({.moe_layers = 2, .experts = 6, .top_k = 2});
  s.device = small_device();
  s.workload.batch = 3;
  s.workload.trace_file = "made up";
  s.workload.arrivals_per_s = arrivals_per_s;
  SystemConfig system = plain_system("stream");
  system.cache.name = "lru";
  system.batching = BatchingConfig{{"continuous", {{"chunked", from(random, 0, 1)}}}, 64};
  system.kv.pressure.name = coin(random) ? "experts-yield" : "requests-yield";
  system.kv.block_tokens = from(random, 1, 3);
  s.systems.push_back(system);
  std::vector<Lengths> lengths;
  for (std::uint32_t i = 0; i < 8; ++i) lengths.push_back({from(random, 1, 4), from(random, 1, 9)});
  run.trace = random_trace(random, s.model, lengths);
  give_room(run, 3.3);
  s.budget += Bytes(1e6);
  s.device.memory.total.value += Bytes(1e6);
  return run;
}

/// Answers by request, and passes.
struct Seen final : GraphObserver {
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override {
    if (layer < 0) return;
    std::vector<std::uint32_t>& experts = graphs.emplace_back();
    experts = {static_cast<std::uint32_t>(pass), static_cast<std::uint32_t>(layer)};
    for (const OpLabel& label : graph.labels)
      if (label.kind == OpKind::execute) experts.insert(experts.end(), {label.expert, label.tokens});
  }
  void answered(const ServedSpan& span) override { ++answers[span.request]; }
  std::vector<std::vector<std::uint32_t>> graphs;
  std::map<std::uint64_t, int> answers;
};

Metrics run_with(const SmallRun& run, Seen& seen, ArrivalWitness witness) {
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &seen; };
  options.arrivals = std::move(witness);
  return run_system(run.scenario, run.system(), run.trace, options).metrics;
}

}  // namespace

TEST_CASE("arrival witness: a slower machine that hears another's arrivals forms its steps") {
  int differ_alone = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(200u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = stream(seed, 2000);
    std::vector<std::size_t> come;
    Seen here;
    const Metrics first = run_with(run, here, [&](std::size_t n) { return come.emplace_back(n); });

    SmallRun slow = run;
    slow.scenario.device.ssd.read.value = Curve::affine(5e-4, 1e9);
    Seen there, alone;
    const Metrics second =
        run_with(slow, there, [&, next = std::size_t{0}](std::size_t) mutable { return come.at(next++); });
    CHECK(second.wall_s > first.wall_s);
    CHECK(there.graphs == here.graphs);
    CHECK(there.answers == here.answers);
    CHECK(there.answers.size() == 8);
    for (const auto& [request, times] : there.answers) CHECK(times == 1);
    CHECK(second.hits == first.hits);
    CHECK(second.bytes == first.bytes);
    CHECK(second.serving.steps == first.serving.steps);
    CHECK(second.serving.dropped == first.serving.dropped);
    run_with(slow, alone, {});
    differ_alone += alone.graphs != here.graphs ? 1 : 0;
  }
  CHECK(differ_alone > static_cast<int>(random_runs(100u)));  // or there was nothing to hear
}

TEST_CASE(
    "arrival witness: it is told what has come by the clock, and never takes back or invents requests") {
  const std::vector<ServedRequest> requests = {{.arrival_s = 0}, {.arrival_s = 1}, {.arrival_s = 1}};
  std::vector<std::size_t> told;
  std::vector<std::size_t> say = {1, 0, 2, 9};
  ListedRequests source(requests, [&](std::size_t come) {
    told.push_back(come);
    return say[told.size() - 1];
  });
  CHECK(source.take(0.5).size() == 1);  // as it is
  CHECK(source.take(2).empty());        // fewer than have been taken
  CHECK(source.next_time() == 1);
  CHECK(source.take(2).size() == 1);
  const auto last = source.take(0);  // more than there are, and before their time
  REQUIRE(last.size() == 1);
  CHECK(last[0].number == 2);
  CHECK_FALSE(source.next_time());
  CHECK(told == std::vector<std::size_t>{1, 3, 3, 2});
}

}  // namespace moelab::arrival_witness_test
