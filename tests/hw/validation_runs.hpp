// A scenario that is validated within a second: 2 layers of 4 experts, on a profile without a GPU.
#pragma once

#include <filesystem>

#include "hw/validate/validation.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::test {

inline DeviceProfile cpu_profile() {
  DeviceProfile d = small_device();
  d.gpu.reset();
  d.memory.bandwidth.reset();
  d.cpu.threads.value = 2;
  d.cpu.dispatch.value = Seconds(10e-6);
  d.cpu.recover = {Curve({{0, 1e-6}, {1000, 2e-6}}), ""};
  d.cpu.peak = {FlopsPerSecond(2e10), ""};
  d.cpu.bandwidth = {BytesPerSecond(1e10), ""};
  d.cpu.dense_launch = {Seconds(1e-6), ""};
  d.cpu.experts = {{32, 48, 3, {Curve({{1, 2e-6}, {4, 5e-6}}), ""}}};
  for (const char* codec : {"fixed3", "lz4hc"}) {
    d.codecs[codec].ratio.value = 0.6;
    d.codecs[codec].decompress.emplace<Sourced<BytesPerSecond>>().value = BytesPerSecond(3e9);
  }
  return d;
}

/// Systems "pools" (zipmoe's cache), "lru" and, reading whole tensors, "whole".
inline Scenario small_scenario() {
  Scenario s;
  s.name = "tiny";
  s.model = small_model({.moe_layers = 2, .experts = 4, .top_k = 2});
  s.device = cpu_profile();
  s.workload.prompt_tokens = 1;
  s.workload.output_tokens = 6;
  s.workload.skew = 1;
  SystemConfig pools = plain_system("pools");
  pools.compressed = true;
  pools.codec = "lz";
  pools.shards = 3;
  pools.threads = 2;
  pools.schedule.name = "cache-affinity";
  pools.cache.name = "zipmoe";
  pools.pools = {true, true, true, true, false};
  pools.planning.name = "zipmoe";
  SystemConfig lru = pools;
  lru.name = lru.title = "lru";
  lru.cache.name = "lru";
  lru.pools = {true, false, false, false, false};
  lru.planning = {"fixed", {}};
  SystemConfig whole = plain_system("whole");
  whole.cache.name = "fifo";
  s.systems = {pools, lru, whole};
  s.budget = Bytes(500e6);
  return s;
}

inline ValidationOptions small_options(const std::filesystem::path& stores) {
  ValidationOptions options;
  options.codecs = {"fixed3", "lz4hc"};
  options.pace = Pace{BytesPerSecond(400e6), Seconds(20e-6)};
  options.stores = stores;
  if (kFewerRuns) options.threads = {2};
  options.cpu_now = false;  // where a test is about it, it says so
  return options;
}

}  // namespace moelab::test
