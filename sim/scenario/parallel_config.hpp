// How the GPUs of a node share a model (scenario keys tensor_parallel, data_parallel, expert_parallel), named
// and meant as vLLM's --tensor-parallel-size, --data-parallel-size and --enable-expert-parallel:
//
//   tensor_parallel: N    each GPU has a part of every matrix
//   data_parallel: N      each GPU has all but the routed experts, up to workload.batch requests and a KV
//                         cache of its own; experts are divided over the GPUs
//   expert_parallel: true they are divided into whole ones, else each into slices
#pragma once

#include <string>
#include <vector>

#include "models/yaml_reader.hpp"

namespace moelab {

struct Scenario;
struct SystemConfig;

/// Reads the keys. `known`: the scenario's model and device were read; from here on its model is one GPU's
/// part. Problems: more GPUs than the device has, an exchange that was not measured, what does not divide.
void read_parallelism(const YamlMap& root, bool known, Scenario& scenario);

/// Whether a system can run where experts or requests are divided over GPUs; problems at `where`.
void check_on_gpus(const SystemConfig& system, const Scenario& scenario, const YamlNode& where);

/// "each of 2 GPUs (expert parallel)"; "" of one.
std::string gpus_text(const Scenario& scenario);

/// What a reader of its results should know of a machine of parts: GPUs that take no part, and what makes
/// them; a slot that is slower than the SSD in it.
std::vector<std::string> machine_notes(const Scenario& s);

}  // namespace moelab
