// Dense models: a MoE without experts. A step takes what its weights, keys and values and products take, by
// hand from the data sheet and the runtime's constants; memory is shared out without experts; policies about
// experts are refused.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/input_error.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "models/timing.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/dense_times.hpp"

namespace moelab::dense_model_test {
namespace {

constexpr const char* kPaged =
    "{name: v1, weights: paged, paging: {backends: [resident]}, batching: {policy: vllm-v1}}";

std::string text_of(const std::string& system, const std::string& workload, const std::string& more = "") {
  return "name: dense\nmodel: llama-3.1-8b\nruntime: vllm-v1\nbudget: 20 GB\n" + more +
         "workload: " + workload + "\nsystems:\n  - " + system + "\n";
}
const std::string kOneGpu = "machine: {gpu: rtx-4090-24gb}\n";

RunResult run_text(const std::string& text) {
  const Scenario s = scenario_of_document("dense", text);
  const RoutingTrace trace = scenario_trace(s);
  check_scenario(s, trace);
  return run_system(s, s.systems.front(), trace, {});
}

std::string refusal(const std::string& text) {
  try {
    run_text(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// Llama-3.1-8B on an RTX 4090 (1008 GB/s), by the layer: projections 2 x 4096 x 4096 + 2 x 4096 x 1024 and
// two norms, keys and values 2 x 8 x 128 values a token, feed-forward 3 x 4096 x 14336, head 128256 x 4096
// and its norm; seven kernels about attention, three about the feed-forward part, three about the head.
constexpr double kProjections = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 2 * 4096;
constexpr double kFeedForward = 3.0 * 4096 * 14336;
constexpr double kHead = 128256.0 * 4096 + 4096;
constexpr double kBandwidth = 1008e9;

/// One request alone: every product is bound by its weights.
double token_seconds(const RuntimeCosts& r, double context) {
  const double weights = 2 / (kBandwidth * r.dense_bandwidth);
  const double layer = (kProjections + kFeedForward) * weights +
                       2.0 * 8 * 128 * 2 * context / (kBandwidth * r.attention_bandwidth) + 10 * r.launch;
  return 32 * layer + kHead * weights + 3 * r.launch + r.step + r.request;
}

TEST_CASE("dense: a token takes what weights, keys and values and launches take") {
  const RuntimeCosts r = load_runtime("vllm-v1").on(find_gpu("rtx-4090-24gb"), {});
  const RunResult result =
      run_text(text_of(kPaged, "{requests: 1, batch: 1, prompt_tokens: 100, output_tokens: 5}", kOneGpu));
  REQUIRE(result.metrics.token_gaps_s.size() == 4);
  for (std::size_t gap = 0; gap < 4; ++gap)
    CHECK(result.metrics.token_gaps_s[gap] ==
          Approx(token_seconds(r, 101.0 + static_cast<double>(gap))).epsilon(1e-9));
}

TEST_CASE("dense: KV cache gets what weights and activations leave") {
  const RunResult result =
      run_text(text_of(kPaged, "{requests: 1, batch: 4, prompt_tokens: 9, output_tokens: 2}", kOneGpu));
  const double weights = 2 * (32 * (kProjections + kFeedForward) + kHead + 128256.0 * 4096);
  // 8192 rows of two hidden states and two projections of 14336 in 2 bytes; four rows of logits in 4.
  const double activations = 8192.0 * (2 * 4096 + 2 * 14336) * 2 + 4 * 128256.0 * 4;
  const double block = 16 * 2.0 * 8 * 128 * 2 * 32;
  CHECK(result.memory.non_expert == Bytes(weights));
  CHECK(result.memory.expert_cache == Bytes(0));
  CHECK(result.memory.staging == Bytes(0));
  CHECK(result.memory.kv_blocks == static_cast<std::uint64_t>((20e9 - weights - activations) / block));
}

TEST_CASE("dense: two GPUs have half of each layer and sum twice behind it") {
  const RuntimeCosts r = load_runtime("vllm-v1").on(find_gpu("rtx-4090-24gb"), {});
  const RunResult result =
      run_text(text_of(kPaged, "{requests: 1, batch: 1, prompt_tokens: 100, output_tokens: 2}",
                       "machine: {gpu: rtx-4090-24gb, gpus: 2}\ntensor_parallel: 2\n"));
  const double weights = 2 / (kBandwidth * r.dense_bandwidth);
  // The two norms of a layer and the last one are whole on both. The link is PCIe 4.0 of 16 lanes: 31.5 GB/s.
  const double layer = ((kProjections - 2 * 4096 + kFeedForward) / 2 + 2 * 4096) * weights +
                       2.0 * 4 * 128 * 2 * 101 / (kBandwidth * r.attention_bandwidth) + 10 * r.launch;
  const double sum = r.all_reduce + 2 * 4096 / (31.5e9 * r.all_reduce_bandwidth);
  const double head = ((kHead - 4096) / 2 + 4096) * weights + 3 * r.launch;
  REQUIRE(result.metrics.token_gaps_s.size() == 1);
  CHECK(result.metrics.token_gaps_s[0] ==
        Approx(32 * (layer + 2 * sum) + head + r.step + r.request).epsilon(1e-4));
}

TEST_CASE("dense: a step of a prompt and rows that decode pays a tile of rows for each of these") {
  // Static facts of the kernel: with mixed_tile T attention of d rows at context c beside a prompt of p rows
  // computes 4 * heads * head_dim * (T d c + p (p + 1) / 2) FLOPs.
  const RuntimeCosts r = load_runtime("vllm-v1").on(find_gpu("rtx-4090-24gb"), {});
  const Scenario s = scenario_of_document(
      "dense", text_of(kPaged, "{requests: 1, batch: 8, prompt_tokens: 9, output_tokens: 2}", kOneGpu));
  const Scenario own = scenario_of_system(s, s.systems.front());
  const TimingModel timing(own.device);
  DenseTimes times(own.model, timing);
  Pass pass;
  pass.tokens = 8 + 600;
  pass.prompt_tokens = 600;
  pass.produces = 9;
  for (int i = 0; i < 8; ++i) pass.runs.push_back({.first = 1000});
  pass.runs.push_back({.prompt = true, .first = 1, .rows = 600});
  times.begin(pass);
  const double peak = 165.2e12;
  const double mixing = 4.0 * 4096 * (r.mixed_tile * 8 * 1000 + 600 * 601 / 2.0) / (peak * r.attention_peak);
  const double kv = 2.0 * 8 * 128 * 2 * (8 * 1000 + 600 * 300.5 / 128) / (kBandwidth * r.attention_bandwidth);
  const auto product = [&](double weights) {
    const double memory = 2 * weights / (kBandwidth * r.dense_bandwidth);
    const double arithmetic = 2 * weights * 608 / (peak * r.dense_peak);
    return std::max(memory, arithmetic) + (1 - r.dense_overlap) * std::min(memory, arithmetic);
  };
  const double kernel =
      std::max(r.launch_batched, r.activation_bytes * 608 * 4096 / (kBandwidth * r.dense_bandwidth));
  const double expected = product(kProjections) + product(kFeedForward) + std::max(mixing, kv) + 11 * kernel;
  CHECK(times.dense(0).seconds == Approx(expected).epsilon(1e-9));
}

TEST_CASE("dense: what is about experts is refused with the reason") {
  const std::string work = "{requests: 1, batch: 1, prompt_tokens: 9, output_tokens: 2}";
  const auto says = [&](const std::string& system, const std::string& workload, const char* what) {
    INFO(system << " " << workload);
    CHECK_THAT(refusal(text_of(system, workload, kOneGpu)), Catch::Contains(what));
  };
  says("{name: c, weights: whole, cache: {policy: lru}}", work, "caches experts one by one");
  says("{name: c, weights: whole, cache: {policy: lru}}", work, "each step reads all of its weights");
  says(
      "{name: h, weights: paged, paging: {backends: [resident, host], storage: {policy: whole-layer, "
      "offloaded: "
      "0.5}}}",
      work, "keeps experts in 'host'");
  says(kPaged, "{requests: 1, batch: 1, prompt_tokens: 9, output_tokens: 2, skew: 1}",
       "'skew' says which experts tokens choose");
  says(kPaged, "{requests: 1, batch: 1, prompt_tokens: 9, output_tokens: 2, law: qwen3-30b-a3b}",
       "'law' says");
  CHECK_THAT(refusal(text_of(kPaged, work, "machine: {gpu: rtx-4090-24gb, gpus: 2}\ndata_parallel: 2\n")),
             Catch::Contains("each GPU would be a server of its own"));
  CHECK_THAT(refusal("name: c\nmodel: llama-3.1-8b\ncluster: no-such\nbudget: 1 GB\nworkload: {batch: 1}\n"
                     "systems: [vllm]\n"),
             Catch::Contains("what a cluster's servers share out are experts"));
}

TEST_CASE("dense: a run says that nothing is routed") {
  const RunResult result =
      run_text(text_of(kPaged, "{requests: 3, batch: 2, prompt_tokens: 50, output_tokens: 4}", kOneGpu));
  CHECK(result.routing == "none (the model has no experts)");
  for (const std::string& warning : result.warnings) CHECK(warning.find("routing") == std::string::npos);
  CHECK(result.metrics.tokens == 12);
}

}  // namespace
}  // namespace moelab::dense_model_test
