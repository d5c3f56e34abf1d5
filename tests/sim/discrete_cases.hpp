// Small scenarios with a discrete GPU whose experts are cached.
#pragma once

#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::test {

inline SmallRun random_discrete_run(std::uint64_t seed) {
  Random random(seed);
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "random";
  s.seed = seed;
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 4));
  shape.dense_layers = static_cast<int>(from(random, 0, 1));
  shape.experts = static_cast<int>(from(random, 2, 12));
  shape.top_k = static_cast<int>(from(random, 1, static_cast<std::uint32_t>(std::min(shape.experts, 4))));
  shape.shared_width = coin(random) ? 48 : 0;
  s.model = small_model(shape);
  s.device = small_discrete_device();
  if (coin(random)) s.device.cpu.dispatch.value = Seconds(1e-6);
  s.workload.batch = from(random, 1, 3);
  s.workload.trace_file = "made up";
  std::vector<Lengths> lengths;
  for (std::uint32_t i = from(random, 1, 4); i > 0; --i)
    lengths.push_back({from(random, 0, 4), from(random, 1, 12)});

  SystemConfig system = plain_system("random");
  do system.cache.name = any_name(random, cache_policies());
  while (find_cache_policy(system.cache.name)->uses_pools);
  do system.routing.name = any_name(random, routing_policies());
  while (system.routing.name != "model" && find_cache_policy(system.cache.name)->needs_future);
  if (system.routing.name == "smoe")
    system.routing.parameters = {{"alpha", 0.05 * from(random, 0, 19)},
                                 {"substitute", from(random, 0, 3) > 0}};
  system.execution.name = any_name(random, execution_policies());
  if (coin(random)) {
    system.prefetch.name = any_name(random, prefetch_policies());
    if (system.prefetch.name != "none") system.prefetch_buffer = from(random, 1, 12);
  }
  system.fetch_whole_layer = from(random, 0, 7) == 0;
  if (coin(random)) system.host_per_layer = Seconds(1e-5);
  s.systems.push_back(system);
  run.trace = random_trace(random, s.model, lengths, true, coin(random));
  give_room(run, random.uniform() * 1.2 * shape.experts);
  return run;
}

/// The host's memory too small for all experts, or for any.
inline void crowd_host(SmallRun& run, Random& random) {
  const double all = run.costs().stored.value() * run.scenario.model.moe().experts * run.trace.layers();
  MemoryProfile& host = run.scenario.device.memory;
  host.total.value = host.system_reserve.value + Bytes(random.uniform() * all * (coin(random) ? 1 : 0.1));
}

/// Compressed planes in the host's memory, decoded there or by the GPU.
inline SmallRun random_planes_run(std::uint64_t seed) {
  for (std::uint64_t tried = 0;; ++tried) {
    SmallRun run = random_run(seed * 64 + tried);
    SystemConfig& system = run.scenario.systems.front();
    if (!system.compressed) continue;
    Random random(seed + 0x91a4e5);
    const Seconds dispatch = run.scenario.device.cpu.dispatch.value;
    run.scenario.device = small_discrete_device();
    run.scenario.device.cpu.dispatch.value = dispatch;
    run.scenario.device.gpu->codecs["lz"] = {{0.55 + 0.5 * random.uniform(), ""}, {BytesPerSecond(8e8), ""}};
    system.worker_reads = system.page_cache = false;
    system.decoder = coin(random) ? Decoder::gpu : Decoder::cpu;
    if (!run.scenario.model.has_encoder() && !find_cache_policy(system.cache.name)->needs_future &&
        coin(random))
      system.routing = {"smoe", {{"alpha", 0.05 * from(random, 0, 19)}}};
    give_room(run, random.uniform() * 1.2 * run.scenario.model.moe().experts);
    return run;
  }
}

}  // namespace moelab::test
