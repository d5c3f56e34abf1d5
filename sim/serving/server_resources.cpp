#include "sim/serving/server_resources.hpp"

#include <string>

#include "models/device.hpp"
#include "models/timing.hpp"
#include "sim/serving/expert_costs.hpp"

namespace moelab {

void slow_cpu_while_reading(engine::Engine& engine, const DeviceProfile& device, engine::CapacityId cpu,
                            engine::CapacityId ssd) {
  const std::optional<Sourced<double>>& slowdown = device.cpu.slowdown_while_reading;
  if (slowdown && cpu != engine::kNoCapacity && ssd != engine::kNoCapacity)
    engine.add_interference({cpu, engine::UsersOf{ssd}, slowdown->value});
}

ServerResources add_server_resources(engine::Engine& engine, std::string_view prefix,
                                     const TimingModel& timing, const ExpertCosts& costs,
                                     bool experts_on_ssd) {
  const auto add = [&](const char* name, std::uint32_t slots) {
    return engine.add_resource(std::string(prefix) + name, slots);
  };
  const DeviceProfile& device = timing.device();
  ServerResources r{};
  const auto slow_reads_while = [&](engine::ResourceId decompress) {
    engine.add_interference({r.ssd, decompress, device.ssd.slowdown_while_decompressing.value});
  };
  r.host = add("host", 1);
  r.recovers_on_cpu = timing.recovers_on_cpu();
  r.computes_on_cpu = timing.computes_on_cpu();
  r.copies_on_cpu = timing.copies_on_cpu();
  if (device.memory.controller && engine.resolves_chains())
    r.memory = engine.add_capacity("memory", {.bandwidth = device.memory.controller->value.value()});
  if (device.cpu.sharing) r.cpu = engine.add_capacity("cpu", {.slowdown = device.cpu.sharing->value});
  if (!device.is_discrete() || experts_on_ssd)
    r.ssd = engine.add_capacity(
        "ssd",
        {.slowdown = device.ssd.readers.value, .bandwidth = costs.ssd_bytes_per_second, .beyond = r.memory});
  slow_cpu_while_reading(engine, device, r.cpu, r.ssd);
  if (device.is_discrete()) {
    r.gpu_memory = true;
    r.path = costs.path;
    r.io = r.decompress = r.recover = add("link", 1);
    if (costs.timing.shards > 0) r.recover = add("recover", 1);
    if (r.path == PlanePath::decode_send_join) r.decompress = add("decompress", costs.timing.threads);
    r.link_out = add("link_out", 1);
    r.cpu_experts = add("cpu_experts", 1);
    r.experts = add("expert_compute", 1);
    r.dense = add("dense_compute", 1);
    if (experts_on_ssd) r.reader = add("io", 1);
    if (experts_on_ssd && r.path == PlanePath::decode_send_join) slow_reads_while(r.decompress);
    return r;
  }
  r.io = add("io", 1);
  r.decompress = add("decompress", costs.timing.threads);
  r.recover = add("recover", 1);
  r.experts = add("expert_compute", 1);
  r.dense = add("dense_compute", 1);
  slow_reads_while(r.decompress);
  return r;
}

}  // namespace moelab
