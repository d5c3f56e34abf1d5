// Distinct experts of a step, and pairs of row and expert, against sets of what the trace says.
#include "sim/serving/step_experts.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "models/expert_parallel.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::step_experts_test {

using namespace moelab::test;

namespace {

/// By layer and GPU: what rows of a step touch.
struct Touched {
  std::map<std::pair<std::size_t, std::size_t>, std::set<std::uint32_t>> experts;
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> pairs;

  void add(std::size_t layer, std::uint32_t expert, std::uint64_t tokens, int all, int gpus) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const ExpertRange own = experts_of_rank(all, gpus, gpu);
      const int number = static_cast<int>(expert);
      if (number < own.first || number >= own.first + own.count) continue;
      experts[{layer, gpu}].insert(expert);
      pairs[{layer, gpu}] += tokens;
    }
  }
};

void check_equal(const StepExperts& counted, Touched wanted, std::size_t layers, std::size_t gpus) {
  for (std::size_t layer = 0; layer < layers; ++layer)
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      CHECK(counted.distinct(layer, gpu) == wanted.experts[{layer, gpu}].size());
      if (gpus > 1) CHECK(counted.pairs(layer, gpu) == wanted.pairs[{layer, gpu}]);
    }
}

Touched touched_by(const RoutingTrace& trace, const Pass& pass, int gpus) {
  Touched touched;
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row)
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
        for (const std::uint16_t expert : trace.experts_of(row, layer))
          if (expert != kNoExpert) touched.add(layer, expert, 1, static_cast<int>(trace.experts()), gpus);
  return touched;
}

/// Some runs of rows, in no order.
Pass random_pass(Random& random, std::uint64_t rows) {
  Pass pass;
  for (std::uint64_t runs = random.below(12); runs > 0; --runs) {
    const std::uint64_t begin = random.below(rows);
    pass.rows.emplace_back(begin, begin + random.below(std::min<std::uint64_t>(rows - begin, 5) + 1));
  }
  return pass;
}

}  // namespace

TEST_CASE("step experts: as sets of experts say, whatever is kept of the rows") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    Random random(seed);
    ModelShape shape;
    shape.moe_layers = static_cast<int>(1 + random.below(3));
    shape.experts = static_cast<int>(2 + random.below(200));  // up to four words of bits
    shape.top_k = static_cast<int>(1 + random.below(static_cast<std::uint64_t>(std::min(shape.experts, 9))));
    const RoutingTrace trace =
        random_trace(random, small_model(shape), {{0, 1 + static_cast<std::uint32_t>(random.below(60))}},
                     false, random.below(2) == 0);
    const auto gpus = 1 + static_cast<int>(random.below(std::min(shape.experts, 5)));
    const std::size_t most_bytes = random.below(3) == 0 ? StepExperts::kMostBytes : random.below(4000);
    INFO("seed " << seed << ", " << shape.experts << " experts on " << gpus << " GPUs, " << most_bytes
                 << " bytes for " << trace.tokens() << " rows");
    StepExperts counted(trace, static_cast<std::size_t>(gpus), most_bytes);
    for (int step = 0; step < 12; ++step) {
      const Pass pass = random_pass(random, trace.tokens());
      counted.begin(pass);
      check_equal(counted, touched_by(trace, pass, gpus), trace.layers(), static_cast<std::size_t>(gpus));
    }
  }
}

TEST_CASE("step experts: a layer that runs other experts, and no other layer") {
  Random random(5);
  ModelShape shape;
  shape.moe_layers = 2;
  shape.experts = 70;
  shape.top_k = 3;
  const RoutingTrace trace = random_trace(random, small_model(shape), {{0, 9}}, false);
  const int gpus = GENERATE(1, 3);
  StepExperts counted(trace, static_cast<std::size_t>(gpus));
  Pass pass;
  pass.rows.emplace_back(2, 7);
  counted.begin(pass);
  const std::vector<ExpertUse> uses = {{3, 2, 0, kNeverUsedAgain}, {69, 1, 0, kNeverUsedAgain}};
  counted.reroute(1, uses);
  Touched wanted = touched_by(trace, pass, gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    wanted.experts.erase({1, gpu});
    wanted.pairs.erase({1, gpu});
  }
  for (const ExpertUse& use : uses) wanted.add(1, use.object, use.tokens, shape.experts, gpus);
  check_equal(counted, wanted, trace.layers(), static_cast<std::size_t>(gpus));
}

}  // namespace moelab::step_experts_test
