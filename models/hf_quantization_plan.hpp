// What a configuration says of which linear layers are converted to which format, and what that makes of a
// model. Only hf_*.cpp use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/hf_config.hpp"
#include "models/hf_linear_layers.hpp"
#include "models/name_list.hpp"

namespace moelab::hf {

/// Layers that one entry of a configuration converts.
struct QuantizationRule {
  NameList names;           // those whose names fit, before any rule's `all_linear`
  bool all_linear = false;  // else every layer of PyTorch's class Linear
  LinearFormat format;
};

struct QuantizationPlan {
  NameList kept;             // stay as they are, whatever the rules say
  std::string kept_key;      // of the file
  bool kept_linear = false;  // all layers of class Linear stay
  std::vector<QuantizationRule> rules;
  double kv = 2;             // bytes of a cached value
  std::string kv_name = {};  // of its format; empty: 16 bits
};

/// A list of names of the file; a pattern that is none is a problem, and nothing.
std::optional<NameList> name_list(const HfMap& map, std::string_view key, NameList::Rule rule,
                                  std::vector<std::string> entries);

/// The bytes of each part: those of its layers as the plan has them and 16 bits for the rest of it; of layers
/// in several formats their mean. A plan that converts nothing is a problem. `note` gets what a reader of the
/// result should know.
StoredWeights stored_by(const QuantizationPlan& plan, const Architecture& a, const HfConfig& config,
                        std::string& note);

// One for each method. Nothing after a problem.
std::optional<QuantizationPlan> compressed_tensors_plan(const HfMap& map);
std::optional<QuantizationPlan> modelopt_plan(const HfMap& map);
std::optional<QuantizationPlan> bitsandbytes_plan(const HfMap& map, std::string_view model_type);

/// "kv_cache_scheme" or "kv_cache_quant_algo" of a map.
void read_cache_format(const HfMap& map, QuantizationPlan& plan);

}  // namespace moelab::hf
