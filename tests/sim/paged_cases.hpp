// Small scenarios that serve from paged experts and a paged KV cache.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/input_error.hpp"
#include "models/tensor_parallel.hpp"
#include "policies/batching/batching.hpp"
#include "policies/residency/residency.hpp"
#include "policies/storage/storage.hpp"
#include "sim/run_paged.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/request_stream.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::test {

/// A node of discrete GPUs with two codecs, a cost of remapping, and all-reduces over 2 and 4 of them.
inline DeviceProfile small_node() {
  DeviceProfile d = small_discrete_device();
  // Decoding moves 1 + ratio times its rate through memory, less than memory does.
  d.gpu->codecs["huff"] = {{0.75, ""}, {BytesPerSecond(4e8), ""}};
  d.gpu->codecs["lite"] = {{0.9, ""}, {BytesPerSecond(5e8), ""}};
  d.gpu->remap = {Curve::affine(3.3e-6, 5e10), ""};
  d.gpu->node =
      NodeProfile{{4, ""}, {{2, {Curve::affine(1.7e-6, 9e8), ""}}, {4, {Curve::affine(2.9e-6, 6e8), ""}}}};
  return d;
}

/// How GPUs share a model.
struct Division {
  std::uint32_t tensor = 1, data = 1;
  bool experts = false;
};

/// A scenario of `model` on small_node() with one system of these backends; 4 requests of 5 and 6 tokens.
inline SmallRun paged_run(const Architecture& model, std::vector<std::string> backends,
                          const Division& division = {}) {
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "paged";
  const std::uint32_t gpus = division.tensor * division.data;
  s.model =
      parallel_part(model, static_cast<int>(division.tensor), division.experts ? 1 : static_cast<int>(gpus));
  s.tensor_parallel = division.tensor;
  s.data_parallel = division.data;
  s.expert_parallel = division.experts;
  s.device = small_node();
  s.budget = Bytes(5e8);
  s.workload.batch = s.workload.requests = 4;
  s.workload.prompt_tokens = 5;
  s.workload.output_tokens = 6;
  SystemConfig& system = s.systems.emplace_back();
  system.name = system.title = "pages";
  system.paging.emplace().backends = std::move(backends);
  system.batching.emplace().policy.parameters = {{"swap", 1}};
  system.batching->max_tokens = 64;
  system.kv.block_tokens = 4;
  system.kv.pressure.name = "requests-yield";
  Random random(7);
  run.trace = random_trace(random, s.model, {{0, 23}, {0, 14}}, false);
  return run;
}

inline PagingConfig& paging_of(SmallRun& run) {
  return *run.scenario.systems.front().paging;
}
inline PagedPlan plan_of(const SmallRun& run) {
  return plan_paged(run.scenario, run.system(), served_requests(run.scenario, run.trace));
}
/// A budget that leaves so many blocks of the KV cache to whatever the experts take.
inline void give_blocks(SmallRun& run, double blocks) {
  run.scenario.budget = Bytes(9e8);
  const MemoryPlan m = plan_of(run).memory;
  run.scenario.budget = m.non_expert + m.draft + m.activations + m.staging + m.expert_cache +
                        blocks * m.kv_block + 0.5 * m.kv_block;
}

/// Layers with and without experts in any order, some of linear attention, but never all.
inline Architecture random_paged_model(Random& random) {
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 4));
  shape.dense_layers = static_cast<int>(from(random, 0, 2));
  shape.experts = static_cast<int>(from(random, 2, 8));
  shape.top_k = static_cast<int>(from(random, 1, 2));
  shape.matrices = static_cast<int>(from(random, 2, 3));
  shape.shared_width = coin(random) ? 48 : 0;
  Architecture model = small_model(shape);
  for (std::size_t i = model.layers.size(); i > 1; --i)
    std::swap(model.layers[i - 1], model.layers[random.below(i)]);
  for (Layer& layer : model.layers) {
    if (&layer == &model.layers.front() || from(random, 0, 3) != 0) continue;
    layer.attention = {};
    layer.attention.kind = Attention::Kind::linear;
    layer.attention.linear_key_heads = layer.attention.linear_value_heads = 4;
    layer.attention.head_dim = layer.attention.value_dim = 8;
    layer.attention.conv_kernel = 4;
  }
  return model;
}

inline std::vector<std::string> random_backends(Random& random, bool codecs) {
  std::vector<std::string> backends;
  if (coin(random)) backends.emplace_back("resident");
  if (codecs) {
    backends.emplace_back("huff");
    if (coin(random)) backends.emplace_back("lite");
  }
  if (backends.empty() || coin(random)) backends.emplace_back("host");
  return backends;
}

/// Any mixture of policies; not every one can be served (misfit).
inline SmallRun random_paged_run(std::uint64_t seed, bool codecs,
                                 const std::optional<Division>& division = std::nullopt) {
  Random random(seed);
  const auto divided = [&] {
    const Division tensor{std::uint32_t{1} << random.below(3)};
    return division.value_or(tensor);
  };
  SmallRun run = paged_run(random_paged_model(random), random_backends(random, codecs), divided());
  Scenario& s = run.scenario;
  Random windows(seed + 0x3d0);
  for (Layer& layer : s.model.layers)
    if (layer.attention.kind != Attention::Kind::linear && windows.below(3) == 0)
      layer.attention.window = static_cast<int>(from(windows, 1, 12));
  SystemConfig& system = s.systems.front();
  PagingConfig& p = *system.paging;
  s.seed = seed;
  p.storage.name = any_name(random, storage_policies());
  if (p.storage.name == "fixed" || p.storage.name == "whole-layer")
    p.storage.parameters = {{"offloaded", random.uniform()}};
  PolicyChoice& batching = system.batching->policy;
  KvConfig& kv = system.kv;
  batching = {any_name(random, batching_policies()), {}};
  if (batching.name == "continuous")
    batching.parameters = {{"swap", from(random, 0, 2) > 0 ? 1 : 0}, {"chunked", from(random, 0, 1)}};
  kv.block_tokens = from(random, 1, 5);
  system.batching->max_tokens = from(random, 8, 48);
  kv.pressure.name = coin(random) ? "experts-yield" : "requests-yield";
  s.workload.batch = from(random, 1, 5);
  s.workload.prefilled = coin(random);
  s.workload.request_log = "made up";
  double arrival = 0;
  std::uint64_t longest = 0, all = 0;
  for (std::uint32_t i = from(random, 1, 9); i > 0; --i) {
    const RequestRecord q{arrival, from(random, 1, 14), from(random, 1, 12)};
    s.workload.log.push_back(q);
    if (coin(random)) arrival += 2e-3 * random.uniform();
    const std::uint64_t blocks = kv_blocks(q.prompt_tokens + q.output_tokens, kv.block_tokens);
    longest = std::max(longest, blocks);
    all += blocks;
  }
  if (coin(random)) s.device.cpu.dispatch.value = Seconds(1.1e-6);
  if (coin(random)) s.device.gpu->remap.reset();
  if (coin(random)) system.host_per_layer = Seconds(7e-6 * random.uniform());
  if (coin(random)) system.host_per_pass = Seconds(9e-6 * random.uniform());
  give_blocks(run, static_cast<double>(longest + random.below((all - longest) / 3 + 1)));
  kv.swap_space = static_cast<double>(random.below(40)) * plan_of(run).memory.kv_block;
  Random routing(seed + 1);
  run.trace = random_trace(routing, s.model, {{0, from(random, 1, 60)}}, false, coin(random));
  return run;
}

/// Of steps that have room for them, in a KV cache as large as before; a draft model has blocks there too.
inline void add_drafts(SmallRun& run, std::uint64_t seed) {
  Random random(seed + 0xd7af);
  Scenario& s = run.scenario;
  const MemoryPlan before = plan_of(run).memory;
  s.speculation = random_speculation(random);
  BatchingConfig& batching = *s.systems.front().batching;
  batching.max_tokens = std::max(batching.max_tokens, s.workload.batch * (1 + s.speculation.tokens));
  give_blocks(run, static_cast<double>(before.kv_blocks));
}

/// Whether the run fits and all its requests can be served.
inline bool can_run(const SmallRun& run) {
  if (plan_of(run).memory.shortfall > Bytes(0)) return false;
  try {
    check_paged_system(run.scenario, run.system(), run.trace);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

}  // namespace moelab::test
