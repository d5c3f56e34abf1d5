// Expert and data parallelism in scenarios: what is read, what is refused and why, and how memory is spent,
// by hand.
#include <array>
#include <catch2/catch.hpp>
#include <set>

#include "sim/scenario/parallel_config.hpp"
#include "sim/serving/paged_plan.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::parallel_scenario_test {

using namespace moelab::test;

namespace {

const std::string kNode = kDiscreteGpu + R"(  codecs:
    huffman:
      ratio: {value: 0.8, source: test}
      rate: {value: 700 MB/s, source: test}
  node:
    gpus: {value: 128, source: test}
    all_reduce:
      - {gpus: 2, seconds: {latency: 2 us, rate: 900 MB/s, source: test}}
      - {gpus: 128, seconds: {latency: 3 us, rate: 900 MB/s, source: test}}
)";
const std::string kPages = R"(name: pages
weights: paged
paging:
  backends: [resident, host]
  storage: {policy: whole-layer}
batching: {policy: continuous, swap: 1, max_tokens: 64}
kv: {swap_space: 1 kB, block_tokens: 16}
)";
const std::string kParallel = R"(name: tiny-scenario
model: tiny.yaml
device: device.yaml
budget: 300 kB
tensor_parallel: 2
expert_parallel: true
workload:
  batch: 2
  requests: 4
  prompt_tokens: 3
  output_tokens: 5
systems:
  - pages.yaml
)";

class ParallelFiles : public Files {
 public:
  ParallelFiles() {
    write("device.yaml", discrete_device_text(kNode));
    write("pages.yaml", kPages);
    write("scenario.yaml", kParallel);
  }
};

void check_refusal(const std::string& was, const std::string& becomes, const std::string& text,
                   bool on_line = true) {
  ParallelFiles files;
  const int line = files.change("scenario.yaml", was, becomes);
  INFO(was << " -> " << becomes << "\n" << all_of(files.problems()));
  CHECK(says(files.problems(), "scenario.yaml", on_line ? line : 0, text));
}

const SystemConfig& vllm_of(const Scenario& s) {
  for (const SystemConfig& system : s.systems)
    if (system.name == "vllm") return system;
  throw std::out_of_range("vllm");
}

MemoryPlan mixtral_plan(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::pair<std::string, std::string>> all = {{"workload.output_tokens", "4"},
                                                          {"tensor_parallel", "1"}};
  all.insert(all.end(), settings.begin(), settings.end());
  const Scenario s = load_scenario("fluxmoe-mixtral", all, {"vllm"});
  const RoutingTrace any = steady_trace(s.model, {0, 1});
  return plan_paged(s, vllm_of(s), served_requests(s, any)).memory;
}

}  // namespace

TEST_CASE("parallel scenario: whole experts, the rest divided") {
  ParallelFiles files;
  INFO(all_of(files.problems()));
  REQUIRE(files.problems().empty());
  const Scenario tensor = files.load();
  CHECK(tensor.expert_ranks() == 2);
  CHECK(tensor.simulated_gpus() == 2);
  CHECK(tensor.model.moe().width == 48);
  CHECK(tensor.model.layers.front().attention.heads == 2);  // of 4
  CHECK(gpus_text(tensor) == "each of 2 GPUs (tensor and expert parallel)");

  files.change("scenario.yaml", "tensor_parallel: 2", "data_parallel: 2");
  const Scenario data = files.load();
  CHECK(data.gpus() == 2);
  CHECK(data.model.moe().width == 48);
  CHECK(data.model.layers.front().attention.heads == 4);
  CHECK(gpus_text(data) == "each of 2 GPUs (data and expert parallel)");

  files.change("scenario.yaml", "expert_parallel: true", "expert_parallel: false");
  const Scenario slices = files.load();
  CHECK(slices.expert_ranks() == 1);
  CHECK(slices.simulated_gpus() == 2);
  CHECK(slices.model.moe().width == 24);
  CHECK(slices.model.layers.front().attention.heads == 4);
  CHECK(gpus_text(slices) == "each of 2 GPUs (data parallel)");

  files.change("scenario.yaml", "data_parallel: 2", "tensor_parallel: 1");
  CHECK(gpus_text(files.load()).empty());
  CHECK(files.load().simulated_gpus() == 1);
}

TEST_CASE("parallel scenario: what is refused, and why") {
  const std::string both = "tensor_parallel: 2\nexpert_parallel: true\n";
  check_refusal(both, "data_parallel: 2\ntensor_parallel: 2\nexpert_parallel: true\n",
                "stands beside tensor_parallel: groups of GPUs would exchange rows at once");
  check_refusal(both, "data_parallel: 2\ntensor_parallel: 2\nexpert_parallel: true\n",
                "a run of one, with its tensor_parallel and its share of the requests, stands for each");
  check_refusal("tensor_parallel: 2", "data_parallel: 256", "data_parallel takes 256 GPUs");
  check_refusal("tensor_parallel: 2", "data_parallel: 100", "simulated one by one, at most 64");
  check_refusal("expert_parallel: true", "expert_parallel: 2", "expert_parallel");
  check_refusal("expert_parallel: true", "expert_paralel: true", "did you mean 'expert_parallel'?");
  check_refusal("tensor_parallel: 2", "data_parallel: 32", "leaves GPUs without experts", false);
  check_refusal("tensor_parallel: 2\nexpert_parallel: true\n", "data_parallel: 5\n",
                "48 columns in each expert, which 5 GPUs cannot share evenly; expected data_parallel");
  check_refusal("tensor_parallel: 2", "data_parallel: 3", "have unlike numbers of the", false);
  ParallelFiles swaps;
  swaps.change("pages.yaml", "swap_space: 1 kB", "swap_space: 2.5 MB");  // of 4 MB that the host has
  CHECK(says(swaps.problems(), "scenario.yaml", 0, "swaps into 5 MB of host memory"));
  swaps.change("scenario.yaml", "tensor_parallel: 2", "data_parallel: 2");
  CHECK(says(swaps.problems(), "scenario.yaml", 0, "swaps into 5 MB of host memory"));
  ParallelFiles files;
  files.change("pages.yaml", "  storage: {policy: whole-layer}\n",
               "  storage: {policy: whole-layer}\n  residency: {policy: budget-aware}\n");
  files.change("scenario.yaml", "tensor_parallel: 2", "data_parallel: 2");
  CHECK(says(files.problems(), "scenario.yaml", 0, "has residency 'budget-aware'"));
}

TEST_CASE("parallel scenario: a system that caches experts one by one is refused") {
  for (const std::string key : {"tensor_parallel: 2\nexpert_parallel: true\n", "data_parallel: 2\n"}) {
    ParallelFiles files;
    files.change("scenario.yaml", "tensor_parallel: 2\nexpert_parallel: true\n", key);
    files.change("scenario.yaml", "  - pages.yaml", "  - moe-infinity");
    INFO(all_of(files.problems()));
    CHECK(says(files.problems(), "scenario.yaml", 0, "keeps experts one by one in a cache"));
  }
}

TEST_CASE("parallel scenario: Mixtral on two GPUs, block by block") {
  // Keys and values of 32 layers, 8 heads of 128 values, 2 bytes each; of a GPU that has half of the heads.
  const double token = 32 * 2 * 8 * 128 * 2;
  const double expert = 3.0 * 4096 * 14336 * 2;
  const double gates = 32 * 8.0 * 4096, norms = 32 * 2.0 * 4096 + 4096;
  const double projections = 32 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024), embeddings = 2 * 32000.0 * 4096;
  const double through_experts = 2 * (2 * 14336 + 4096);  // values of a row
  const double logits = 256 * 32000.0 * 4;

  const MemoryPlan tensor = mixtral_plan({{"tensor_parallel", "2"}, {"expert_parallel", "true"}});
  CHECK(tensor.non_expert.value() == 2 * (gates + norms + projections / 2 + embeddings / 2));
  CHECK(tensor.expert_cache.value() == 32 * 4 * expert);
  CHECK(tensor.kv_block.value() == 16 * token / 2);
  CHECK(tensor.activations.value() == 8192 * 2.0 * (2 * 4096 + through_experts) + logits);

  const MemoryPlan data = mixtral_plan({{"data_parallel", "2"}, {"expert_parallel", "true"}});
  CHECK(data.non_expert.value() == 2 * (gates + norms + projections + embeddings));
  CHECK(data.expert_cache.value() == 32 * 4 * expert);
  CHECK(data.kv_block.value() == 16 * token);
  CHECK(data.activations.value() == 2 * 8192 * 2.0 * (2 * 4096 + through_experts) + logits);

  const MemoryPlan slices = mixtral_plan({{"data_parallel", "2"}});
  CHECK(slices.non_expert.value() == data.non_expert.value());
  CHECK(slices.expert_cache.value() == data.expert_cache.value());

  // Three GPUs: the one that has 3 of 8 experts is planned for.
  const MemoryPlan three = mixtral_plan({{"data_parallel", "3"}, {"expert_parallel", "true"}});
  CHECK(three.expert_cache.value() == 32 * 3 * expert);
}

namespace {

/// Experts of a layer on the GPU that they take longest on, under the software's costs.
double slowest_experts(const Architecture& model, const TimingModel& timing, const RoutingTrace& trace,
                       const std::vector<std::uint64_t>& rows, std::uint32_t number) {
  std::array<std::set<int>, 2> touched;
  std::array<double, 2> pairs{};
  for (const std::uint64_t row : rows)
    for (const std::uint16_t expert : trace.experts_of(row, number)) {
      touched[expert / 64].insert(expert);  // of 128
      ++pairs[expert / 64];
    }
  double slowest = 0;
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    const auto distinct = static_cast<double>(touched[gpu].size());
    slowest = std::max(
        slowest, timing.grouped_experts(model, model.moe(), distinct, pairs[gpu], rows.size() == 1).value());
  }
  return slowest;
}

}  // namespace

TEST_CASE("parallel scenario: a step of Qwen3-30B-A3B on two L40, layer by layer") {
  // Under vLLM's costs; rows of requests with 512 tokens before them. By requests each GPU has one row, by
  // tensors both have all.
  const bool data = GENERATE(true, false);
  const std::uint32_t rows = data ? 2 : GENERATE(1U, 2U);
  const Scenario as_read =
      load_scenario("expert-parallel-qwen3", {{"workload.requests", std::to_string(rows)},
                                              {"workload.batch", data ? "1" : "2"},
                                              {"workload.output_tokens", "1"},
                                              {"workload.prefilled", "true"},
                                              {"data_parallel", data ? "2" : "1"},
                                              {"tensor_parallel", data ? "1" : "2"}});
  const SystemConfig& system = vllm_of(as_read);
  const Scenario s = scenario_of_system(as_read, system);
  const RoutingTrace trace = scenario_trace(as_read);
  std::vector<std::uint64_t> run;  // rows of the trace
  for (const ServedRequest& q : served_requests(s, trace))
    run.push_back((q.first_row + 512) % trace.tokens());
  const Architecture& model = s.model;
  const TimingModel timing(s.device);
  const double handed = timing.dispatch().value(), own = data ? 1 : rows;
  const Curve& sums = s.device.gpu->node->all_reduce.front().seconds.value;  // over two

  double expected = timing.kernel(head_work(model, own), own, model.hidden).value() + handed;
  expected += system.host_per_pass.value();
  for (std::uint32_t number = 0; number < model.layers.size(); ++number) {
    const Layer& layer = model.layers[number];
    expected += system.host_per_layer.value();
    expected += timing.kernel(attention_work(model, layer, own, 513), own, model.hidden).value() + handed;
    expected += timing.expert_launches(model, layer.feed_forward, rows).value();
    expected += slowest_experts(model, timing, trace, run, number) + handed;
    // The other's row to each GPU, as an all-reduce of so many bytes brings it; or two sums of all rows.
    expected += data ? sums(2 * 2048 + 8 * 8) + sums(2 * 2048) : 2 * sums(rows * 2.0 * 2048);
  }
  const RunResult r = run_system(as_read, system, trace, {});
  CHECK(r.metrics.wall_s == Approx(expected).epsilon(1e-9));
  CHECK(r.metrics.serving.exchanged_bytes == (data ? 48 * (2 * 2048 + 8 * 8 + 2 * 2048) : 0));
}

}  // namespace moelab::parallel_scenario_test
