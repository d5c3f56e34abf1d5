// What of a machine's memory a model may have: advice and runs count the same, and pools hold what weights in
// their format take.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "models/machine_profile.hpp"
#include "models/stored_weights.hpp"
#include "sim/advise/advice.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::machine_memory_test {
namespace {

AdviceRequest on_board(const std::string& ram) {
  AdviceRequest request;
  request.model = load_architecture("deepseek-v2-lite");
  request.machine = machine_of({.gpu = "jetson-orin-nx-16gb", .ram = ram});
  return request;
}

double needed(const Advice& advice) {
  return advice.memory.gpu() + advice.memory.host_total();
}

}  // namespace

TEST_CASE("memory: advice and a run leave the system the same") {
  for (const char* ram : {"8 GiB", "12 GB", "16 GiB"}) {
    const AdviceRequest request = on_board(ram);
    const MachineParts& machine = request.machine;
    const Bytes usable = machine.usable_ram().value();
    CHECK(usable == *machine.ram - Bytes(3e9));
    for (const char* runtime : {"llama.cpp-cuda", "vllm", "bare"})
      CHECK(profile_of(machine, load_runtime(runtime), {}).usable_memory() == usable);
    for (const Advice& way : find_ways(request).ways) CHECK(needed(way) <= usable.value());
  }
  // 2 GB are less than what the system keeps: the model has nothing.
  CHECK(machine_of({.gpu = "jetson-orin-nx-16gb", .ram = "2 GB"}).usable_ram() == Bytes(0));
}

TEST_CASE("memory: a way is advised from the budget on that it needs") {
  AdviceRequest request = on_board("16 GiB");
  request.runtimes = {"llama.cpp-cuda"};
  request.weights = {"gguf-q5_k_m"};
  const std::vector<Advice> all = find_ways(request).ways;
  REQUIRE(all.size() == 1);
  // As of a run's budget, what driver and libraries hold is beside it.
  const auto counted = [](const Advice& way) {
    return needed(way) - way.memory.gpu_context - way.memory.gpu_reserve;
  };
  // The smallest micro-batch takes least: what it needs is enough, and a byte less is not.
  double least = counted(all.front());
  while (true) {
    request.budget = Bytes(least - 1);
    const AdviceList fewer = find_ways(request);
    if (fewer.ways.empty()) {
      CHECK(fewer.lacks.find(" and the budget is ") != std::string::npos);
      break;
    }
    REQUIRE(counted(fewer.ways.front()) < least);
    least = counted(fewer.ways.front());
  }
  request.budget = Bytes(least + 1);
  CHECK(find_ways(request).ways.size() == 1);
}

TEST_CASE("memory: pools of whole experts hold as many as fit in the weights' format") {
  for (const char* format : {"bf16", "gguf-q8_0", "gguf-q4_k_m"}) {
    const Scenario s =
        load_scenario("zipmoe-orin",
                      {{"machine", "{gpu: jetson-orin-nx-16gb, ram: 16 GiB, ssd: pcie4-x4}"},
                       {"budget", "8 GB"},
                       {"weights", format},
                       {"systems", "[zipmoe-whole]"},
                       {"workload", "{requests: 2, batch: 1, prompt_tokens: 8, output_tokens: 4}"}},
                      {});
    const RunResult result = run_system(s, s.systems.front(), scenario_trace(s), {});
    REQUIRE(result.planned);
    const double experts = result.plan.capacity[index(State::F)];
    const double layers = static_cast<double>(s.model.moe_layers().size());
    // Three matrices of 2,048 by 1,408 weights, which the GGUF file's own types take so many bytes of.
    const double expert = 3.0 * 2048 * 1408 * s.model.stored.of(WeightPart::experts);
    const double a_layer = result.memory.expert_cache.value() / layers;
    INFO(format << ": " << experts << " experts of " << expert << " bytes in " << a_layer);
    CHECK(experts * expert <= a_layer);
    CHECK((experts + 1) * expert > a_layer);
  }
}

}  // namespace moelab::machine_memory_test
