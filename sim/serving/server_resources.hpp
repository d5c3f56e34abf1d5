// What one server has, and what its operations share.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/engine/engine.hpp"

namespace moelab {

class TimingModel;

/// The resources of one server: an I/O thread, decompression threads, a recovery stream, the expert and dense
/// compute streams, the host program; and what their operations share. With a discrete GPU the link to its
/// memory takes the place of all that makes weights ready: `io`, `decompress` and `recover` are one.
struct ServerResources {
  engine::ResourceId host, io, decompress, recover, experts, dense;
  // Of a discrete GPU: the link the other way, and the cores that compute experts.
  engine::ResourceId link_out = 0, cpu_experts = 0;
  engine::CapacityId ssd = engine::kNoCapacity;
  /// What the SSD's reads, the CPU and the GPU share; kNoCapacity where nobody would resolve it.
  engine::CapacityId memory = engine::kNoCapacity;
  /// What the operations of the CPU share (cpu.sharing), in place of `memory`: how they slow each other down
  /// was measured with all that they share. kNoCapacity where nobody measured it.
  engine::CapacityId cpu = engine::kNoCapacity;
  bool recovers_on_cpu = false, computes_on_cpu = false;
  bool copies_on_cpu = false;  // what goes over the link

  /// What operations of a kind that the CPU does, or the GPU, share.
  engine::CapacityId shared(bool on_cpu) const { return on_cpu && cpu != engine::kNoCapacity ? cpu : memory; }
  /// Lets an operation share that for `seconds`, in which it moves `bytes` through memory.
  void share(engine::Graph& graph, engine::OpIndex op, bool on_cpu, double seconds, double bytes) const {
    const engine::CapacityId capacity = shared(on_cpu);
    if (capacity == engine::kNoCapacity) return;
    if (capacity == cpu)
      graph.share(op, capacity, seconds);
    else
      share_memory(graph, op, seconds, bytes);
  }
  void share_memory(engine::Graph& graph, engine::OpIndex op, double seconds, double bytes) const {
    if (memory != engine::kNoCapacity && bytes > 0) graph.share(op, memory, seconds, bytes);
  }
};

/// `prefix`: of the resources' names. `ssd_bytes_per_second`: what all reads share, where they go to an SSD.
ServerResources add_server_resources(engine::Engine& engine, std::string_view prefix,
                                     const TimingModel& timing, std::uint32_t decompression_threads,
                                     double ssd_bytes_per_second);

}  // namespace moelab
