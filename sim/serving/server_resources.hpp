// What one server has, and what its operations share.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/engine/engine.hpp"

namespace moelab {

class TimingModel;
struct DeviceProfile;
struct ExpertCosts;

/// The way of a compressed tensor's planes to where experts compute.
enum class PlanePath : std::uint8_t {
  read_decode_join,  // read from storage, decompressed by threads, joined: one memory
  decode_send_join,  // decompressed by threads in the host's memory, sent over the link, joined by the GPU
  send_decode,       // sent compressed, decoded by the GPU, which joins the planes as it does
};

/// The resources of one server: an I/O thread, decompression threads, a recovery stream, the expert and dense
/// compute streams, the host program; and what their operations share. With a discrete GPU `io` is the link
/// to its memory, and what has nothing to do there is the link too: `decompress` where threads decode
/// nothing, `recover` where nothing is joined.
struct ServerResources {
  engine::ResourceId host, io, decompress, recover, experts, dense;
  // Of a discrete GPU: the link the other way, the cores that compute experts, and, where the host's memory
  // is too small for all experts, who reads the SSD.
  engine::ResourceId link_out = 0, cpu_experts = 0, reader = 0;
  engine::CapacityId ssd = engine::kNoCapacity;
  /// What the SSD's reads, the CPU and the GPU share; kNoCapacity where the engine does not resolve it.
  engine::CapacityId memory = engine::kNoCapacity;
  /// What the operations of the CPU share (cpu.sharing), in place of `memory`: how they slow each other down
  /// was measured with all that they share. kNoCapacity where that was not measured.
  engine::CapacityId cpu = engine::kNoCapacity;
  bool recovers_on_cpu = false, computes_on_cpu = false;
  bool copies_on_cpu = false;  // what goes over the link
  bool gpu_memory = false;     // of the GPU's own: what it computes is none of `memory`'s
  PlanePath path = PlanePath::read_decode_join;

  /// What operations of a kind that the CPU does, or the GPU, share.
  engine::CapacityId shared(bool on_cpu) const {
    if (on_cpu && cpu != engine::kNoCapacity) return cpu;
    return !on_cpu && gpu_memory ? engine::kNoCapacity : memory;
  }
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

/// `prefix`: of the resources' names. `costs`: of the experts that they make ready. `experts_on_ssd`: whether
/// a discrete GPU's are read from there.
ServerResources add_server_resources(engine::Engine& engine, std::string_view prefix,
                                     const TimingModel& timing, const ExpertCosts& costs,
                                     bool experts_on_ssd);

/// The device's cpu.slowdown_while_reading on what shares `cpu`, while reads use `ssd`; nothing where the
/// profile does not say it or either is kNoCapacity.
void slow_cpu_while_reading(engine::Engine& engine, const DeviceProfile& device, engine::CapacityId cpu,
                            engine::CapacityId ssd);

}  // namespace moelab
