// How much memory a run on hardware may take, and for what: the plan's, and what the plan does not count.
#pragma once

#include <cstdint>

#include "hw/executor/kv_swaps.hpp"
#include "models/units.hpp"

namespace moelab {

class RoutingTrace;
class ValidationStore;
struct MemoryPlan;
struct Scenario;
struct SystemConfig;

/// Bytes of experts that a step may have in use beyond those of a decode step, for which alone the plan has
/// room: steps run prompts, whole or in chunks, beside decodes or not, and again what gave way.
Bytes experts_beyond_plan(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Bytes of experts that may be in memory: the plan's; those above; chunks that are larger than the ratio
/// says; and, since staging holds twice an expert's size (hw/executor/README.md), the E-chunks of codecs that
/// hardly compress.
std::uint64_t memory_limit(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                           const MemoryPlan& plan, const ValidationStore& store);

/// The same of a system that pages its experts: what is stored in the GPU's memory, and the window.
std::uint64_t window_memory_limit(const MemoryPlan& plan, const ValidationStore& store);

/// The plan of either kind of system.
MemoryPlan plan_of_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Of blocks of the KV cache: all of the GPU's, and as many of the host's as requests that run at once can
/// fill. Nothing where none ever gives way, or it is computed again.
KvSwapRoom swap_room(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                     const MemoryPlan& plan);

}  // namespace moelab
