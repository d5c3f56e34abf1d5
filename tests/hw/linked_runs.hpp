// Small scenarios on discrete GPUs, of every routing, cache, prefetch and execution policy, for a stand-in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "policies/execution/execution.hpp"
#include "policies/routing/routing.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::test {

/// Uniform logits, and the best k of them.
inline RoutingTrace scored_trace(Random& random, const Architecture& model,
                                 const std::vector<Lengths>& requests) {
  TraceDescription description;
  description.model = model.name;
  description.provenance = "made up by a test";
  description.synthetic = true;
  description.layers = static_cast<std::uint32_t>(model.moe_layers().size());
  description.experts = static_cast<std::uint32_t>(model.moe().experts);
  description.top_k = static_cast<std::uint32_t>(model.moe().top_k);
  description.gate_scores = true;
  description.router_scores = RouterScores::logits;
  RoutingTraceBuilder builder(description);
  const auto add = [&](Phase phase) {
    std::vector<std::uint16_t> ids;
    std::vector<float> gates, logits;
    for (std::uint32_t layer = 0; layer < description.layers; ++layer) {
      std::vector<float> of_layer(description.experts);
      for (float& logit : of_layer) logit = static_cast<float>(3 * random.uniform());
      std::vector<std::uint16_t> order(description.experts);
      std::iota(order.begin(), order.end(), std::uint16_t{0});
      std::ranges::sort(order, [&](std::uint16_t a, std::uint16_t b) { return of_layer[a] > of_layer[b]; });
      for (std::uint32_t r = 0; r < description.top_k; ++r) {
        ids.push_back(order[r]);
        gates.push_back(static_cast<float>(1.0 / (r + 2)));
      }
      logits.insert(logits.end(), of_layer.begin(), of_layer.end());
    }
    builder.add_token({.phase = phase, .ids = ids, .gate_scores = gates, .router_scores = logits});
  };
  for (const Lengths& q : requests) {
    builder.begin_request();
    for (std::uint32_t t = 0; t < q.prompt; ++t) add(Phase::prefill);
    for (std::uint32_t t = 0; t < q.decode; ++t) add(Phase::decode);
  }
  return builder.finish();
}

/// The CPU in the place of a GPU, for models of small_model().
inline DeviceProfile stand_in_device() {
  DeviceProfile d = small_device();
  d.memory.bandwidth.reset();
  d.cpu.recover = {Curve({{0, 1e-6}, {1000, 4e-6}}), ""};
  d.cpu.peak = {FlopsPerSecond(2e9), ""};
  d.cpu.bandwidth = {BytesPerSecond(5e8), ""};
  d.cpu.dense_launch = {Seconds(1e-6), ""};
  d.cpu.sharing = {{1, 1.25, 1.5, 2.5}, ""};
  d.gpu.emplace();
  d.gpu->stand_in = true;
  GpuMemory& own = d.gpu->own.emplace();
  own.total.value = Bytes(1e9);
  own.link.to_device.value = own.link.to_host.value = Curve::affine(1e-6, 1e9);
  return d;
}

/// Experts lie in host memory.
inline SystemConfig random_linked_system(Random& random) {
  SystemConfig s = plain_system("linked");
  s.fetch_whole_layer = from(random, 0, 4) == 0;
  s.routing.name = any_name(random, routing_policies());
  do s.cache.name = any_name(random, cache_policies());
  while (find_cache_policy(s.cache.name)->uses_pools ||
         (find_cache_policy(s.cache.name)->needs_future && s.routing.name != "model"));
  s.execution.name = any_name(random, execution_policies());
  if (coin(random)) s.prefetch.name = any_name(random, prefetch_policies());
  if (s.prefetch.name != "none") s.prefetch_buffer = from(random, 1, 8);
  return s;
}

inline SmallRun random_linked_run(std::uint64_t seed) {
  Random random(seed + 0x11);
  SmallRun run;
  Scenario& s = run.scenario;
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 4));
  shape.dense_layers = static_cast<int>(from(random, 0, 1));
  shape.experts = static_cast<int>(from(random, 2, 8));
  shape.top_k = static_cast<int>(from(random, 1, static_cast<std::uint32_t>(std::min(shape.experts - 1, 3))));
  shape.matrices = static_cast<int>(from(random, 2, 3));
  shape.shared_width = coin(random) ? 48 : 0;
  s.name = "linked";
  s.seed = seed;
  s.model = small_model(shape);
  s.device = stand_in_device();
  s.workload.batch = from(random, 1, 3);
  s.workload.trace_file = "made up";
  std::vector<Lengths> lengths;
  for (std::uint32_t i = from(random, 1, 4); i > 0; --i)
    lengths.push_back({from(random, 0, 3), from(random, 1, 10)});
  s.systems.push_back(random_linked_system(random));
  run.trace = scored_trace(random, s.model, lengths);
  s.budget = Bytes(bytes_before_cache(s, run.system(), run.trace) +
                   random.uniform() * shape.experts * run.trace.layers() * expert_bytes(s.model).value());
  return run;
}

}  // namespace moelab::test
