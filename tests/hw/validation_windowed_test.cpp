// Validation of systems that page their experts, on a GPU that the CPU plays: the same layers in the same
// halves of the window, the same bytes over the link and decoded, in planned memory.
#include <catch2/catch.hpp>

#include "hw/validate/validation_report.hpp"
#include "hw/validate/validation_run.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/hw/linked_runs.hpp"
#include "tests/hw/validation_runs.hpp"

namespace moelab::validation_windowed_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint32_t kBatch = 2, kPrompt = 3, kOutput = 5;

SystemConfig paged_system(const std::string& name, std::vector<std::string> backends,
                          const PolicyChoice& storage, const PolicyChoice& batching) {
  SystemConfig s = plain_system(name);
  s.paging.emplace().backends = std::move(backends);
  s.paging->storage = storage;
  s.batching = BatchingConfig{batching, 64};
  s.kv.block_tokens = 2;
  s.kv.pressure.name = "requests-yield";
  return s;
}

Scenario windowed_scenario() {
  Scenario s = small_scenario();
  s.model = small_model({.moe_layers = 3, .experts = 4, .top_k = 2, .shared_width = 48});
  s.device = stand_in_device();
  s.device.cpu.threads.value = 2;
  s.device.gpu->remap = {Curve::affine(5e-6, 1e11), ""};
  s.device.gpu->codecs["fixed3"] = {{0.7, ""}, {BytesPerSecond(1e9), ""}};
  s.workload.batch = s.workload.requests = kBatch;
  s.workload.prompt_tokens = kPrompt;
  s.workload.output_tokens = kOutput;
  const PolicyChoice in_turn{"static", {}}, come_and_go{"continuous", {{"chunked", 1}}};
  s.systems = {paged_system("host", {"host"}, {"bandwidth-proportional", {}}, in_turn),
               paged_system("half", {"resident", "host"}, {"fixed", {{"offloaded", 0.5}}}, in_turn),
               paged_system("both", {"fixed3", "host"}, {"fixed", {{"offloaded", 0.25}}}, come_and_go),
               paged_system("codec", {"fixed3"}, {"fixed", {{"offloaded", 0}}}, in_turn),
               paged_system("resident", {"resident"}, {"fixed", {{"offloaded", 0}}}, come_and_go)};
  return s;
}

ValidationOptions quick(const std::filesystem::path& stores) {
  ValidationOptions options = small_options(stores);
  options.repeats = 2;
  options.budgets = {Bytes(4e8), Bytes(5e8)};
  return options;
}

std::string refusal(const Scenario& scenario, const ValidationOptions& options = quick("nowhere")) {
  try {
    validate(scenario, options);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "";
}

}  // namespace

TEST_CASE(
    "validation of windows: the same layers come in the same order, with bytes that follow from the split") {
  const ScratchFolder folder;
  const Scenario s = windowed_scenario();
  for (const bool cpu_now : {false, true}) {
    ValidationOptions options = quick(folder / "stores");
    options.cpu_now = cpu_now;
    const Validation found = validate(s, options);
    REQUIRE(found.points.size() == options.budgets.size() * s.systems.size());
    const double expert = expert_bytes(s.model).value(), layers = 3;
    for (const ValidationPoint& point : found.points) {
      INFO(point.system << ": " << point.difference);
      CHECK(point.same_work());
      CHECK(point.windowed);
      CHECK(point.codec == "fixed3");
      CHECK(point.serving.answered == kBatch);
      const double steps = static_cast<double>(point.serving.counts.steps);
      const double host = point.system == "host"   ? 4
                          : point.system == "half" ? 2
                          : point.system == "both" ? 1
                                                   : 0;
      const double decoded = point.system == "both" ? 3 : point.system == "codec" ? 4 : 0;
      CHECK(static_cast<double>(point.streamed.loaded) == steps * layers * host * expert);
      CHECK(static_cast<double>(point.streamed.decoded) == steps * layers * decoded * expert);
      // A timed run ends with the first layer on its way for a step that never is.
      const double loads = host + decoded > 0 ? options.repeats * (steps * layers + 1) : 0;
      CHECK(static_cast<double>(point.layers_streamed) == loads);
      CHECK(point.measured_tpot.size() == options.repeats);
      CHECK(point.measured_layers.size() == options.repeats * static_cast<std::size_t>(steps * layers));
    }
    CHECK(found.cpu_ratios.contains("copy") == cpu_now);
    CHECK(found.cpu_ratios.contains("decode fixed3") == cpu_now);
    CHECK_FALSE(found.cpu_ratios.contains("recover"));
    CHECK_THAT(validation_table(found),
               Contains("over the link MB") && Contains("hits and bytes equal") && !Contains("substituted"));
    const auto json = nlohmann::json::parse(validation_json(found));
    CHECK(json["points"][0]["windowed"] == true);
    CHECK(json["points"][3]["streamed_bytes"]["decoded"] == found.points[3].streamed.decoded);
  }
}

TEST_CASE("validation of windows: requests that come over time are taken into the same steps") {
  const ScratchFolder folder;
  Scenario s = windowed_scenario();
  s.systems = {s.systems[2]};
  s.workload.requests = 6;
  s.workload.arrivals_per_s = 400;
  ValidationOptions options = quick(folder / "stores");
  options.budgets = {Bytes(5e8)};
  const Validation found = validate(s, options);
  REQUIRE(found.points.size() == 1);
  INFO(found.points[0].difference);
  CHECK(found.same_work());
  CHECK(found.points[0].serving.over_time);
  CHECK(found.points[0].serving.answered == 6);
}

TEST_CASE("validation of windows: a KV cache that is too small swaps beside the window") {
  const ScratchFolder folder;
  Scenario s = windowed_scenario();
  SystemConfig system = s.systems[2];
  system.batching->policy.parameters = {{"swap", 1}};
  system.kv.swap_space = Bytes(1e6);
  s.systems = {system};
  s.workload.requests = s.workload.batch = 3;
  s.workload.output_tokens = 9;
  const RoutingTrace trace = scenario_trace(s);
  s.budget = Bytes(5e8);
  const MemoryPlan roomy = plan_paged(s, system, served_requests(s, trace)).memory;
  ValidationOptions options = quick(folder / "stores");
  options.budgets = {roomy.non_expert + roomy.activations + roomy.staging + roomy.expert_cache +
                     9.5 * roomy.kv_block};
  const Validation found = validate(s, options);
  INFO(found.points[0].difference);
  CHECK(found.same_work());
  CHECK(found.points[0].serving.counts.swapped_out > 0);
  CHECK(found.points[0].serving.counts.swap_in_bytes > 0);
}

TEST_CASE("validation of windows: the budgets that it chooses hold every system") {
  const Scenario s = windowed_scenario();
  const RoutingTrace trace = scenario_trace(s);
  const std::vector<Bytes> budgets = default_budgets(s, trace);
  REQUIRE(budgets.size() == 3);
  for (const Bytes budget : budgets)
    for (const SystemConfig& system : s.systems) {
      Scenario at = s;
      at.budget = budget;
      CHECK(plan_paged(at, system, served_requests(at, trace)).memory.shortfall == Bytes(0));
    }
}

TEST_CASE("validation of windows: what cannot be compared is refused with its reason") {
  const Scenario good = windowed_scenario();
  Scenario s = good;
  s.device.gpu->remap.reset();
  CHECK_THAT(refusal(s),
             Contains("gpu.remap") && Contains("'moelab calibrate'") && Contains("--stand-in-gpu"));
  s = good;
  s.systems[2].paging->residency = {"budget-aware", {}};
  CHECK_THAT(refusal(s), Contains("'both'") && Contains("how fast copies are"));
  s = good;
  s.systems[0].paging->backends = {"ssd"};
  CHECK_THAT(refusal(s), Contains("'host'") && Contains("pieces of a layer"));
  s = good;
  s.systems[1].routing.name = "smoe";
  CHECK_THAT(refusal(s), Contains("'half'") && Contains("routing 'smoe'"));
  s = good;
  s.systems[0].paging->pinned = 1;
  CHECK_THAT(refusal(s), Contains("'host'") && Contains("expected none pinned"));
  s = good;
  s.systems[0].paging->fetch = PagingConfig::Fetch::ahead;
  CHECK_THAT(refusal(s), Contains("'host'") && Contains("expected 'fetch: layer'"));
  s = good;
  s.data_parallel = 2;
  CHECK_THAT(refusal(s), Contains("data_parallel: 2"));
  s = good;
  s.device.gpu->codecs["huffman"] = s.device.gpu->codecs["fixed3"];
  s.systems[3].paging->backends = {"huffman"};
  CHECK_THAT(refusal(s), Contains("'fixed3' and 'huffman'") && Contains("one store"));
  s = good;
  ValidationOptions options = quick("nowhere");
  options.budgets = {Bytes(1e4)};
  CHECK_THAT(refusal(s, options), Contains("too small"));
  s.device = cpu_profile();
  CHECK_THAT(refusal(s), Contains("whole layers at a time") && Contains("--stand-in-gpu"));
  CHECK_FALSE(std::filesystem::exists("nowhere"));
}

}  // namespace moelab::validation_windowed_test
