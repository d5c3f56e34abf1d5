// Layers of the families whose config.json says Mamba-2 layers among others. Only hf_*.cpp use it.
#pragma once

#include "models/architecture.hpp"
#include "models/hf_config.hpp"
#include "models/hf_layers.hpp"

namespace moelab::hf {

/// Appends the layers of model_type granitemoehybrid: by "layer_types" each has Mamba-2 or attention, and
/// experts with a shared one, or where there are none a dense part as wide as the shared one
/// (transformers, configuration_granitemoehybrid.py and modeling_granitemoehybrid.py).
void read_granite_hybrid(const HfConfig& config, const Family& family, Architecture& a);

/// Appends the layers of model_type nemotron_h: by "hybrid_override_pattern" ('M' Mamba-2, '*' attention, 'E'
/// experts, '-' dense) or "layers_block_type" each is one part alone (transformers,
/// configuration_nemotron_h.py; llama.cpp, src/models/nemotron-h.cpp).
void read_nemotron_h(const HfConfig& config, const Family& family, Architecture& a);

}  // namespace moelab::hf
