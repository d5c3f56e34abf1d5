// Small windowed systems with experts pinned beside them, substitution, and an SSD behind them.
#pragma once

#include <array>
#include <optional>

#include "tests/sim/paged_cases.hpp"

namespace moelab::test {

inline SystemConfig& window_system(SmallRun& run) {
  return run.scenario.systems.front();
}

/// Pins `experts` of each layer by a policy.
inline void pin(SmallRun& run, const std::string& policy, std::uint32_t experts) {
  window_system(run).cache.name = policy;
  paging_of(run).pinned = experts;
}

/// Host memory behind the GPUs for so many experts of all GPUs, beside swap space.
inline void give_host(SmallRun& run, double experts) {
  Scenario& s = run.scenario;
  const double bytes =
      s.gpus() * (run.system().kv.swap_space.value() + experts * expert_bytes(s.model).value());
  s.device.memory.total.value = s.device.memory.system_reserve.value + Bytes(bytes);
}

/// Any mixture of backends, ways to fetch, pinned experts, routing and host memory.
inline SmallRun random_window(std::uint64_t seed) {
  SmallRun run = random_paged_run(seed, seed % 2 == 0);
  Random random(seed + 0x717d);
  const auto experts = static_cast<std::uint32_t>(run.scenario.model.moe().experts);
  PagingConfig& paging = paging_of(run);
  std::vector<std::string>& backends = paging.backends;
  const bool ssd = coin(random);
  if (ssd && backends.back() == "host" && coin(random)) backends.pop_back();
  if (ssd) backends.emplace_back("ssd");
  paging.fetch = static_cast<PagingConfig::Fetch>(random.below(3));
  constexpr std::array<const char*, 5> kPolicies{"none", "lru", "fifo", "fixed-popular", "fixed-experts"};
  const char* const policy = kPolicies[random.below(kPolicies.size())];
  if (std::string(policy) != "none") pin(run, policy, from(random, 1, experts));
  if (paging.fetch != PagingConfig::Fetch::layer && coin(random))
    window_system(run).routing = {"smoe", {{"alpha", 0.9 * random.uniform()}}};
  window_system(run).page_cache = ssd && coin(random);
  if (coin(random)) run.scenario.device.gpu->own->link.to_device.value = Curve::affine(3e-6, 5e7);
  const double all = experts * static_cast<double>(run.scenario.model.moe_layers().size());
  give_host(run, random.uniform() * 1.3 * all);
  Random routing(seed + 1);
  run.trace = random_trace(routing, run.scenario.model, {{0, from(random, 1, 60)}}, true, coin(random));
  run.scenario.budget += plan_of(run).memory.pinned;
  return run;
}

inline std::optional<SmallRun> window_that_runs(std::uint64_t seed) {
  try {
    SmallRun run = random_window(seed);
    if (can_run(run)) return run;
  } catch (const InputError&) {
    // more experts than its backends have room for
  }
  return std::nullopt;
}

}  // namespace moelab::test
