// A server's run in this program's terms: a scenario of one system, its routing, and the KV cache it has.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/load/serving_folder.hpp"
#include "models/part.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/memory_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::replay {

/// What the command line says, in the place of what the folder does.
struct Named {
  std::string model, gpu;           // empty: as the folder says
  int gpus = 0;                     // 0: likewise
  std::string runtime = "vllm-v1";  // whose constants count
};

struct Setup {
  Scenario scenario;  // as its one system meets it; its log has the folder's requests
  RoutingTrace trace;
  MemoryPlan memory;  // with the KV cache that is replayed
  /// Blocks that the engine is predicted to have, by the GPU's memory.
  std::uint64_t predicted_blocks = 0;
  std::string gpu;  // the catalogue's title
  const SystemConfig& system() const { return scenario.systems.front(); }
};

/// The model of this program that a folder's name means: "meta-llama/Llama-3.1-8B-Instruct" is llama-3.1-8b.
/// Throws InputError with the nearest name.
std::string model_of(const std::string& name);
/// The catalogue's part: "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000". Throws InputError with
/// the nearest name.
std::string gpu_of(const std::string& name);
/// What the driver shows of a GPU's memory: less by 0.48 to 0.52 GiB on boards of 12 to 48 GiB (11.53, 15.48,
/// 23.52 and 47.53 GiB in messages of PyTorch), by a hundredth on larger ones (79.15 of 80 GiB).
double visible_bytes(const GpuPart& gpu);

/// Replays with the engine's number of KV blocks where the folder has it, else with the predicted one. Throws
/// InputError for a model or a GPU that is not known, for a cache that the GPU has no memory for, and for
/// requests that no cache of this size could serve.
Setup set_up(const ServingFolder& folder, const Named& named);

}  // namespace moelab::replay
