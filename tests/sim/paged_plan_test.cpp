// How a GPU's memory is spent where experts and KV cache are paged, by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::paged_plan_test {

using namespace moelab::test;

namespace {

const SystemConfig& system_named(const Scenario& s, const std::string& name) {
  for (const SystemConfig& system : s.systems)
    if (system.name == name) return system;
  throw std::out_of_range(name);
}

MemoryPlan plan_of(const Scenario& s, const std::string& system) {
  const RoutingTrace any = steady_trace(s.model, {0, 1});
  return plan_paged(s, system_named(s, system), served_requests(s, any)).memory;
}

/// Blocks that fit into what `taken` leaves, and that the parts make up the budget to within a block.
void check_sum(const MemoryPlan& m) {
  const Bytes taken = m.non_expert + m.activations + m.staging + m.expert_cache + m.kv_cache;
  CHECK(taken <= m.budget * (1 + 1e-12));
  CHECK(taken + m.kv_block > m.budget);
  CHECK(m.kv_cache.value() == Approx(static_cast<double>(m.kv_blocks) * m.kv_block.value()).epsilon(1e-15));
}

}  // namespace

TEST_CASE("paged: Mixtral on two GPUs, block by block") {
  const Scenario s = load_scenario("fluxmoe-mixtral", {{"workload.output_tokens", "4"}});
  // A token: keys and values of 32 layers, 4 of 8 heads a GPU, 128 values of 2 bytes each.
  const double token = 32 * 2 * 4 * 128 * 2;
  // Every expert: three matrices of 4,096 x 7,168 columns of its 14,336.
  const double expert = 3.0 * 4096 * 7168 * 2;
  const double all_experts = 32 * 8 * expert;
  // Norms and gates are whole, projections of queries and outputs and of keys and values are half.
  const double attention = 2.0 * 4096 * 2048 + 2.0 * 4096 * 512 + 2 * 4096;
  const double non_expert = 2 * (32 * (attention + 8.0 * 4096) + 2 * 4096 * 16000.0 + 4096);
  // Rows: hidden states in and out, and for two experts gate, up and output; logits of 256 requests.
  const double activations = 8192 * 2.0 * (2 * 4096 + 2 * (2 * 7168 + 4096)) + 256 * 32000.0 * 4;

  const MemoryPlan vllm = plan_of(s, "vllm");
  CHECK(vllm.kv_block.value() == 16 * token);
  CHECK(vllm.non_expert.value() == non_expert);
  CHECK(vllm.activations.value() == activations);
  CHECK(vllm.expert_cache.value() == all_experts);
  CHECK(vllm.staging.value() == 0);
  CHECK(vllm.state_blocks == 0);
  CHECK(vllm.swap_blocks == static_cast<std::uint64_t>(16.0 * 1024 * 1024 * 1024 / (16 * token)));
  const double short_of = non_expert + activations + all_experts + 16 * token - 44.94e9;
  REQUIRE(short_of > 0);
  CHECK(vllm.shortfall.value() == Approx(short_of).epsilon(1e-12));
  CHECK(vllm.kv_blocks == 0);

  const MemoryPlan offloads = plan_of(s, "vllm-o");  // the last 4 of 32 layers, through a window of two
  CHECK(offloads.expert_cache.value() == all_experts * 7 / 8);
  CHECK(offloads.host_experts.value() == all_experts / 8);
  CHECK(offloads.staging.value() == 2 * 8 * expert);
  const double left = 44.94e9 - non_expert - activations - all_experts * 7 / 8 - 16 * expert;
  CHECK(offloads.kv_blocks == static_cast<std::uint64_t>(left / (16 * token)));
  check_sum(offloads);

  // Of 8 experts 8 * 350 / 376 = 7.4 lie compressed, whole ones: 7 load in 7 / 350, the one in 1 / 26, so
  // that 8 compressed ones are ready sooner (8 / 350 < 1 / 26).
  const MemoryPlan flux = plan_of(s, "fluxmoe");
  CHECK(flux.expert_cache.value() == Approx(0.8 * all_experts).epsilon(1e-12));
  CHECK(flux.staging.value() == 2 * 8 * expert);
  check_sum(flux);
  check_sum(plan_of(s, "fluxmoe-h"));
}

TEST_CASE("paged: Qwen3-Next on four GPUs, block by block") {
  const Scenario s = load_scenario("fluxmoe-qwen3-next", {{"workload.output_tokens", "4"}});
  // 12 of 48 layers have keys and values: 2 heads of 256 values, of which each GPU has one (a copy for two).
  const double token = 12 * 2 * 1 * 256 * 2;
  const double expert = 3.0 * 2048 * 128 * 2;
  // 36 linear layers: 8 of 32 value heads and 4 of 16 key heads a GPU, of 128 values each; states of 128 x
  // 128 and the last 3 inputs of a convolution over queries, keys and values.
  const double state = 36 * 2.0 * (8 * 128 * 128 + 3 * (2 * 4 * 128 + 8 * 128));
  for (const std::string name : {"vllm", "vllm-o", "fluxmoe-alpha1", "fluxmoe", "fluxmoe-h"}) {
    INFO(name);
    const MemoryPlan m = plan_of(s, name);
    CHECK(m.kv_block.value() == 16 * token);
    CHECK(m.state_blocks == static_cast<std::uint64_t>(std::ceil(state / (16 * token))));
    CHECK(m.shortfall.value() == 0);
    check_sum(m);
  }
  const double all_experts = 48.0 * 512 * expert;
  const MemoryPlan vllm = plan_of(s, "vllm");
  CHECK(vllm.expert_cache.value() == all_experts);
  const double left = 42.475e9 - all_experts - (vllm.non_expert + vllm.activations).value();
  CHECK(vllm.kv_blocks == static_cast<std::uint64_t>(left / (16 * token)));
  // Eq. 8: 350 and 26 GB/s. Of 512: 476 or 477 compressed.
  const double compressed = plan_of(s, "fluxmoe").expert_cache.value() / (0.8 * 48 * expert);
  CHECK(std::abs(compressed - 512 * 350.0 / 376) <= 1);
}

MemoryPlan served_plan(const std::string& system, const std::string& of_model, std::uint32_t prompt_tokens) {
  const Scenario s = scenario_of_document(
      "windows", "{name: windows, runtime: vllm-v1, seed: 1, systems: [" + system + "], " + of_model +
                     ", workload: {batch: 256, requests: 1, prompt_tokens: " + std::to_string(prompt_tokens) +
                     ", output_tokens: 10}}");
  return plan_of(s, system);
}

TEST_CASE("paged: layers with a short window keep what each batching policy says") {
  const std::string model = "model: gpt-oss-20b, machine: {gpu: h100}";
  // 12 of 24 layers see 128 tokens; of a layer 8 heads of 64 keys and values in 2 bytes.
  const double layer = 2 * 8 * 64 * 2;
  for (const std::uint32_t tokens : {20u, 1000u, 100000u}) {  // whatever is asked
    const MemoryPlan vllm = served_plan("vllm-v1", model, tokens);
    CHECK(vllm.kv_block.value() == 16 * 12 * layer);
    CHECK(vllm.state_blocks == (128 + 16) / 16);
    check_sum(vllm);
    // Blocks of 1 token, and of the 12 layers' a pool of 0.8 tokens for each of the others'.
    const MemoryPlan sglang = served_plan("sglang", model, tokens);
    CHECK(sglang.kv_block.value() == Approx((12 + 0.8 * 12) * layer).epsilon(1e-12));
    CHECK(sglang.state_blocks == 0);
  }
  // vLLM before its V1 engine: all tokens of all layers. A step's prompts take nothing besides.
  const MemoryPlan whole = served_plan("vllm", model, 1000);
  CHECK(whole.kv_block.value() == 16 * 24 * layer);
  CHECK(whole.state_blocks == 0);
  const MemoryPlan vllm = served_plan("vllm-v1", model, 1000);
  const auto of_rows = [&](const std::string& max_tokens) {
    return (served_plan("vllm-v1",
                        model + ", overrides: {system: {batching: {max_tokens: " + max_tokens + "}}}", 9)
                .activations -
            vllm.activations)
        .value();
  };
  // Rows, as above: hidden states, of 4 experts gate, up and output; and 12 layers' keys and values.
  CHECK(of_rows("3048") == Approx(1000 * (2.0 * (2 * 2880 + 4 * 3 * 2880) + 12 * layer)).epsilon(1e-9));
  // Two GPUs have 4 heads each.
  const MemoryPlan halves =
      served_plan("vllm-v1", "model: gpt-oss-20b, machine: {gpu: h100, gpus: 2}, tensor_parallel: 2", 1000);
  CHECK(halves.kv_block.value() == 16 * 12 * layer / 2);
  CHECK(halves.state_blocks == 9);
}

TEST_CASE("paged: layers with a long window are counted whole") {
  // 36 of 48 layers see 8192 tokens; 8 heads of 128, of which each GPU has 2.
  const MemoryPlan m =
      served_plan("vllm-v1", "model: llama-4-scout, machine: {gpu: h100, gpus: 4}, tensor_parallel: 4", 9000);
  CHECK(m.kv_block.value() == 16 * 48 * 2.0 * 2 * 128 * 2);
  CHECK(m.state_blocks == 0);
}

TEST_CASE("paged: what is missing is exactly what is missing") {
  int short_of = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun run = random_paged_run(seed, seed % 2 == 0);
    INFO("seed " << seed);
    const MemoryPlan enough = plan_of(run).memory;
    if (enough.shortfall == Bytes(0)) check_sum(enough);
    run.scenario.budget = run.scenario.budget * (0.2 + 0.001 * static_cast<double>(seed));
    const MemoryPlan m = plan_of(run).memory;
    if (m.shortfall == Bytes(0)) {
      CHECK(m.kv_blocks >= 1);
      check_sum(m);
      continue;
    }
    ++short_of;
    CHECK(m.kv_blocks == 0);
    run.scenario.budget = m.budget + m.shortfall + Bytes(1e-6);
    CHECK(plan_of(run).memory.shortfall == Bytes(0));
    CHECK(plan_of(run).memory.kv_blocks >= 1);
    run.scenario.budget = m.budget + m.shortfall - Bytes(1);
    CHECK(plan_of(run).memory.shortfall.value() == Approx(1).margin(1e-3));
  }
  CHECK(short_of > moelab::test::random_runs(100));
}

TEST_CASE("paged: with the KV cache first, experts get what the longest requests leave") {
  SmallRun run = paged_run(small_model({}), {"huff", "host"});
  PagingConfig& p = paging_of(run);
  p.storage.name = "bandwidth-proportional";
  run.scenario.workload.batch = 3;  // of 4 requests: 5 + 6 - 1 tokens at their ends, 3 blocks of 4 each
  const StorageShape shape = plan_of(run).split.shape();
  const double expert = shape.expert_bytes;
  const MemoryPlan m = plan_of(run).memory;
  const double fixed = (m.non_expert + m.activations).value() + 2 * 4 * expert;
  for (const double experts : {0.0, 0.5, 1.0, 2.5, 4.0}) {
    run.scenario.budget = Bytes(fixed + 9 * m.kv_block.value() + experts * 0.75 * expert);
    INFO(experts);
    run.scenario.systems.front().kv.pressure.name = "experts-yield";
    const PagedPlan first = plan_of(run);
    CHECK(first.memory.kv_blocks >= 9);
    CHECK(first.split.total(0) ==
          static_cast<std::uint64_t>(experts));  // all that fit: of 8, 5 would be best
    run.scenario.systems.front().kv.pressure.name = "requests-yield";
    CHECK(plan_of(run).split.total(0) >= first.split.total(0));
    CHECK(plan_of(run).memory.kv_blocks >= 3);  // one request can run in any case
  }
}

}  // namespace moelab::paged_plan_test
