// Validation of requests that come and go: the same steps on hardware and in the simulator, whenever requests
// come, and what users waited.
#include <catch2/catch.hpp>
#include <map>

#include "hw/executor/cpu_device.hpp"
#include "hw/executor/stand_in_device.hpp"
#include "hw/validate/validation_memory.hpp"
#include "hw/validate/validation_report.hpp"
#include "hw/validate/validation_run.hpp"
#include "models/json.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/kv_plan.hpp"
#include "tests/hw/linked_runs.hpp"
#include "tests/hw/validation_runs.hpp"

namespace moelab::validation_batching_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint32_t kRequests = 5, kPrompt = 4, kOutput = 6;
constexpr std::uint64_t kRowsOfRequest = kPrompt + kOutput - 1;  // the last token is never run

/// Requests that come and go, on the systems "lru" (compressed) and "whole" of small_scenario().
Scenario serving_scenario(const PolicyParameters& parameters, std::uint32_t max_tokens, std::uint32_t batch) {
  Scenario s = small_scenario();
  s.systems.erase(s.systems.begin());
  s.workload.batch = batch;
  s.workload.requests = kRequests;
  s.workload.prompt_tokens = kPrompt;
  s.workload.output_tokens = kOutput;
  for (SystemConfig& system : s.systems) {
    system.batching = BatchingConfig{{"continuous", parameters}, max_tokens};
    system.kv.block_tokens = 2;
  }
  return s;
}

/// A GPU that the CPU plays.
void play_gpu(Scenario& s) {
  s.device = stand_in_device();
  s.device.cpu.threads.value = 2;
  SystemConfig system = s.systems.back();  // whole
  s.systems = {system};
}

ValidationOptions quick_options(const std::filesystem::path& stores) {
  ValidationOptions options = small_options(stores);
  options.codecs = {"fixed3"};
  options.threads = {1};
  options.repeats = 1;
  return options;
}

/// Room for so many experts a layer beside what a system needs in static batches of one.
Bytes room_for(const Scenario& s, double experts_a_layer) {
  Scenario one = s;
  one.workload.batch = 1;
  double needed = 0;
  const RoutingTrace trace = scenario_trace(s);
  for (const SystemConfig& system : s.systems)
    needed = std::max(needed, bytes_before_cache(one, system, trace));
  return Bytes(needed + experts_a_layer * trace.layers() * expert_bytes(s.model).value());
}

std::string refusal(const Scenario& scenario, const ValidationOptions& options = quick_options("nowhere")) {
  try {
    validate(scenario, options);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "";
}

void check_served(const ValidationPoint& point) {
  INFO(point.system << ", " << to_string(point.budget) << ": " << point.difference);
  CHECK(point.same_work());
  const ServingPoint& serving = point.serving;
  CHECK(serving.in_blocks);
  CHECK(serving.answered == kRequests);
  CHECK(serving.counts.rows == kRequests * kRowsOfRequest + serving.counts.recomputed);
  for (const ServedTimes* times : {&serving.predicted, &serving.measured}) {
    REQUIRE(times->ttft.size() == 1);
    CHECK((times->ttft[0] > 0 && times->tpot[0] > 0));
    CHECK(times->end_to_end[0] >= times->ttft[0] + (kOutput - 1) * times->tpot[0] * (1 - 1e-9));
  }
}

}  // namespace

TEST_CASE("validation of batching: requests that are there from the start meet in the same steps") {
  const ScratchFolder folder;
  struct Case {
    PolicyParameters parameters;
    std::uint32_t max_tokens;
    bool few_blocks;
  };
  for (const Case& c : {Case{{}, 64, false}, Case{{{"chunked", 1}}, 5, false}, Case{{}, 64, true},
                        Case{{{"chunked", 1}, {"swap", 1}}, 7, true}}) {
    Scenario s = serving_scenario(c.parameters, c.max_tokens, 3);
    for (SystemConfig& system : s.systems)
      system.kv.pressure.name = c.few_blocks ? "requests-yield" : "experts-yield";
    const Validation found = validate(s, quick_options(folder / "stores"));
    REQUIRE(found.points.size() == 3 * s.systems.size());
    std::uint64_t again = 0;
    for (const ValidationPoint& point : found.points) {
      check_served(point);
      CHECK_FALSE(point.serving.over_time);
      CHECK(point.serving.predicted_steps == point.serving.counts.steps);
      CHECK(point.serving.counts.most_blocks <= (c.few_blocks ? 5 : 3 * 5));  // of 2 tokens, for 9 a request
      again += point.serving.counts.recomputed;
      CHECK(point.serving.counts.swapped_out == 0);  // one memory
    }
    CHECK((again > 0) == c.few_blocks);
    CHECK_THAT(validation_table(found), Contains("TTFT ms") && Contains("hits and bytes equal"));
    const auto json = nlohmann::json::parse(validation_json(found));
    CHECK(json["points"][0]["requests"]["answered"] == kRequests);
    CHECK(json["points"][0]["requests"]["over_time"] == false);
  }
}

TEST_CASE("validation of batching: one request at a time finds what static batches of one find") {
  const ScratchFolder folder;
  const Scenario continuous = serving_scenario({}, 64, 1);
  Scenario in_turn = continuous;
  for (SystemConfig& system : in_turn.systems) system.batching.reset();
  ValidationOptions options = quick_options(folder / "stores");
  options.budgets = {room_for(continuous, 1.5),
                     room_for(continuous, 2.5)};  // no block decides about an expert
  const Validation one = validate(continuous, options), other = validate(in_turn, options);
  REQUIRE(one.points.size() == other.points.size());
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    check_served(one.points[i]);
    CHECK(one.points[i].serving.counts.steps == kRequests * kOutput);
    CHECK(other.points[i].same_work());
    CHECK_FALSE(other.points[i].serving.any());
    CHECK(one.points[i].measured_hits == other.points[i].measured_hits);
    CHECK(one.points[i].read_bytes == other.points[i].read_bytes);
    CHECK(one.points[i].measured_layers.size() == other.points[i].measured_layers.size());
  }
}

namespace {

/// Requests as they were answered.
struct Answers final : GraphObserver {
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override {}
  void answered(const ServedSpan& span) override { spans.emplace(span.request, span); }
  std::multimap<std::uint64_t, ServedSpan> spans;
};

}  // namespace

TEST_CASE(
    "validation of batching: requests that come over time are answered once each, by the wall's clock") {
  const ScratchFolder folder;
  Scenario s = serving_scenario({{"chunked", 1}}, 6, 2);
  s.budget = room_for(s, 2.5) + Bytes(1e5);
  s.workload.arrivals_per_s = 100;
  const RoutingTrace trace = scenario_trace(s);
  const std::vector<ServedRequest> requests = served_requests(s, trace);
  REQUIRE(requests.back().arrival_s > 0);
  ValidationStore store(s.model, s.seed, folder / "stores", {"fixed3", 3, 1, {}});
  ValidationStorage storage(store, Pace{BytesPerSecond(400e6), Seconds(20e-6)});
  CpuDevice cpu({32, 48, 3}, 1 << 16);
  SystemConfig system = s.systems.front();
  system.codec = "fixed3";
  CHECK(come_over_time(s, system, trace));

  Answers measured, predicted;
  const RunPair pair = run_both(s, system, trace, store, storage, cpu, nullptr,
                                {.predicted = &predicted, .measured = &measured});
  CHECK(first_difference(pair) == std::nullopt);
  CHECK(pair.measured.metrics.wall_s >= requests.back().arrival_s);
  REQUIRE(measured.spans.size() == kRequests);
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    REQUIRE(measured.spans.count(i) == 1);
    const ServedSpan& span = measured.spans.find(i)->second;
    CHECK(span.arrival_s == requests[i].arrival_s);
    CHECK((span.begin_s >= span.arrival_s && span.first_token_s > span.begin_s));
    CHECK(span.end_s >= span.first_token_s);
    REQUIRE(predicted.spans.count(i) == 1);
    CHECK(predicted.spans.find(i)->second.arrival_s <= predicted.spans.find(i)->second.begin_s);
  }
  // The simulation by its own clock is the one that `moelab run` does.
  REQUIRE(pair.alone);
  CHECK(pair.alone->metrics.ttft_s == run_system(s, system, trace).metrics.ttft_s);
}

TEST_CASE("validation of batching: over time the whole grid runs, and says what is held against what") {
  const ScratchFolder folder;
  Scenario s = serving_scenario({{"chunked", 1}}, 6, 2);
  s.workload.arrivals_per_s = 2000;
  SystemConfig in_batches = s.systems.back();  // requests come over time, and are served in static batches
  in_batches.name = "in-batches";
  in_batches.batching.reset();
  s.systems.push_back(in_batches);
  const Validation found = validate(s, quick_options(folder / "stores"));
  CHECK(found.same_work());
  for (const ValidationPoint& point : found.points) {
    CHECK(point.serving.over_time);
    CHECK(point.serving.answered == kRequests);
    if (point.system != "in-batches") check_served(point);
  }
  CHECK_THAT(validation_table(found), Contains("by the wall's clock") && Contains("by its own clock"));
  CHECK(nlohmann::json::parse(validation_json(found))["points"][0]["requests"]["over_time"] == true);
}

TEST_CASE("validation of batching: a GPU that the CPU plays swaps requests to the host's memory and back") {
  const ScratchFolder folder;
  Scenario s = serving_scenario({{"swap", 1}}, 64, 3);
  play_gpu(s);
  s.systems[0].kv.pressure.name = "requests-yield";
  s.systems[0].kv.swap_space = Bytes(1e6);
  for (const double arrivals : {0.0, 2000.0}) {
    s.workload.arrivals_per_s = arrivals;
    const Validation found = validate(s, quick_options(folder / "stores"));
    REQUIRE(found.discrete);
    for (const ValidationPoint& point : found.points) {
      check_served(point);
      CHECK(point.serving.counts.recomputed == 0);
      if (arrivals > 0) continue;  // who meets whom is the machine's to say
      CHECK(point.serving.counts.swapped_out > 0);
      CHECK(point.serving.counts.swap_out_bytes == point.serving.counts.swap_in_bytes);
    }
  }
}

TEST_CASE(
    "validation of batching: memory is planned for the rows of a step, and for what is swapped at once") {
  Scenario s = serving_scenario({}, 64, 1);
  s.model = small_model({.moe_layers = 2, .experts = 64, .top_k = 2});
  const RoutingTrace trace = scenario_trace(s);
  SystemConfig system = s.systems.back();
  const double expert = expert_bytes(s.model).value();
  // Run again, a request has 9 rows of 2 experts each; a decode step has room for 2.
  CHECK(experts_beyond_plan(s, system, trace).value() == Approx((9 * 2 - 2) * 2 * expert));
  system.batching->max_tokens = 3;
  CHECK(experts_beyond_plan(s, system, trace).value() == Approx((3 * 2 - 2) * 2 * expert));
  system.batching.reset();  // a prompt has 4 rows
  CHECK(experts_beyond_plan(s, system, trace).value() == Approx((4 * 2 - 2) * 2 * expert));

  s.workload.batch = 3;
  system = s.systems.back();
  system.batching->policy.parameters = {{"swap", 1}};
  MemoryPlan plan;
  plan.kv_block = Bytes(100);
  plan.kv_blocks = 5;
  plan.swap_blocks = 1000;
  // 9 tokens are 5 blocks; three requests run at once.
  CHECK(swap_room(s, system, trace, plan).gpu_bytes == 500);
  CHECK(swap_room(s, system, trace, plan).host_bytes == 1500);
  plan.swap_blocks = 7;
  CHECK(swap_room(s, system, trace, plan).host_bytes == 700);
  plan.kv_blocks = 15;  // no request gives way
  CHECK(swap_room(s, system, trace, plan).host_bytes == 0);
  plan.kv_blocks = 5;
  system.batching->policy.parameters = {{"swap", 0}};
  CHECK(swap_room(s, system, trace, plan).host_bytes == 0);
}

TEST_CASE("validation of batching: a request run again uses more experts at once than any prompt did") {
  const ScratchFolder folder;
  Scenario s = serving_scenario({}, 64, 2);
  s.model = small_model({.moe_layers = 2, .experts = 16, .top_k = 2});
  s.workload.prompt_tokens = 1;
  s.workload.output_tokens = 24;
  for (SystemConfig& system : s.systems) system.kv.pressure.name = "requests-yield";
  ValidationOptions options = quick_options(folder / "stores");
  options.budgets = {room_for(s, 5)};
  const Validation found = validate(s, options);
  for (const ValidationPoint& point : found.points) {
    INFO(point.system << ": " << point.difference);
    CHECK(point.same_work());
    CHECK(point.serving.answered == kRequests);
    CHECK(point.serving.counts.recomputed > 0);
  }
}

TEST_CASE("validation of batching: what cannot run is refused before anything is packed") {
  Scenario s = serving_scenario({}, 64, 2);
  s.workload.arrivals_per_s = 1e-6;
  CHECK_THAT(refusal(s), Contains("wall's clock") && Contains("workload.arrivals_per_s"));
  s = serving_scenario({}, 8, 2);  // a request of 9 rows, dropped late, is run again in one step
  CHECK_THAT(refusal(s), Contains("can never serve request 1"));
  s = serving_scenario({}, 64, 2);
  s.tensor_parallel = 2;
  CHECK_THAT(refusal(s), Contains("tensor_parallel: 2"));
  s = serving_scenario({}, 64, 2);
  s.systems[0].paging.emplace();
  CHECK_THAT(refusal(s), Contains("'lru' pages its experts") && Contains("--stand-in-gpu"));
  s = serving_scenario({{"swap", 1}}, 64, 3);
  play_gpu(s);
  s.systems[0].kv = {.block_tokens = 1u << 30, .swap_space = Bytes(1e15), .pressure = {"requests-yield", {}}};
  s.device.gpu->own->total.value = Bytes(1e15);
  s.device.memory.total.value = Bytes(1e16);
  CHECK_THAT(refusal(s), Contains("--budgets") && Contains("swap"));
  CHECK_FALSE(std::filesystem::exists("nowhere"));
}

}  // namespace moelab::validation_batching_test
