#include "models/architecture.hpp"

#include <algorithm>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/lower_case.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

bool is_moe_layer(const Layer& layer) {
  return layer.feed_forward.kind == FeedForward::Kind::moe;
}

// Below 2^53, so that every count of weights is exact in a double, with room for bytes.
constexpr double kMostWeights = 1e15;
// Simulators keep a state for each routed expert of each layer; the largest model known has 23040.
constexpr double kMostRoutedExperts = 1e6;

}  // namespace

Architecture::Architecture() = default;
Architecture::Architecture(const Architecture&) = default;
Architecture::Architecture(Architecture&&) noexcept = default;
Architecture& Architecture::operator=(const Architecture&) = default;
Architecture& Architecture::operator=(Architecture&&) noexcept = default;
Architecture::~Architecture() = default;

bool Architecture::has_encoder() const {
  return std::any_of(layers.begin(), layers.end(), [](const Layer& l) { return l.stack == Stack::encoder; });
}

std::vector<int> Architecture::moe_layers() const {
  std::vector<int> indices;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (is_moe_layer(layers[i])) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

std::vector<std::int32_t> Architecture::moe_numbers() const {
  std::vector<std::int32_t> numbers(layers.size(), -1);
  std::int32_t next = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (is_moe_layer(layers[i])) numbers[i] = next++;
  return numbers;
}

const FeedForward& Architecture::moe() const {
  const auto first = std::find_if(layers.begin(), layers.end(), is_moe_layer);
  if (first == layers.end()) throw InputError(name, "the model has no layer with experts");
  const bool same = std::all_of(first, layers.end(), [&](const Layer& layer) {
    return !is_moe_layer(layer) || layer.feed_forward == first->feed_forward;
  });
  if (!same) throw InputError(name, "the model's layers have experts of different shapes");
  return first->feed_forward;
}

const FeedForward& Architecture::experts_or_none() const {
  static const FeedForward none{.kind = FeedForward::Kind::moe};
  return is_moe() ? moe() : none;
}

bool Architecture::is_moe() const {
  return std::any_of(layers.begin(), layers.end(), is_moe_layer);
}

std::optional<Fault> fault(const Attention& attention) {
  if (attention.kind == Attention::Kind::kv_heads &&
      (attention.kv_heads <= 0 || attention.heads % attention.kv_heads != 0)) {
    return Fault{"kv_heads", "kv_heads (" + std::to_string(attention.kv_heads) + ") must divide heads (" +
                                 std::to_string(attention.heads) + ")"};
  }
  if (attention.recurrent() &&
      (attention.linear_key_heads <= 0 || attention.linear_value_heads % attention.linear_key_heads != 0)) {
    const bool mamba = attention.kind == Attention::Kind::mamba2;
    const std::string keys = mamba ? "groups" : "key_heads", values = mamba ? "heads" : "value_heads";
    return Fault{keys, keys + " (" + std::to_string(attention.linear_key_heads) + ") must divide " + values +
                           " (" + std::to_string(attention.linear_value_heads) + ")"};
  }
  if (attention.qk_norm_full && !attention.qk_norm) {
    return Fault{"qk_norm",
                 "qk_norm_full says how queries and keys are normalised, but qk_norm says they are not"};
  }
  return {};
}

std::optional<Fault> fault(const FeedForward& ff) {
  if (ff.kind != FeedForward::Kind::moe) return {};
  if (ff.top_k > ff.experts) {
    return Fault{"top_k", "top_k (" + std::to_string(ff.top_k) + ") must be at most experts (" +
                              std::to_string(ff.experts) + ")"};
  }
  if (ff.shared_gate && ff.shared_width == 0) {
    return Fault{"shared_gate", "shared_gate without shared experts: give shared_width"};
  }
  return {};
}

std::optional<Fault> fault(const Layer& layer) {
  if (const std::optional<Fault> found = fault(layer.attention)) return found;
  if (const std::optional<Fault> found = fault(layer.feed_forward)) return found;
  if (!layer.has_mixer() && !layer.has_feed_forward())
    return Fault{"feed_forward", "a layer needs attention, a state space or a feed-forward part"};
  return {};
}

std::optional<Fault> fault(const Architecture& a) {
  double routed_experts = 0;
  for (const Layer& layer : a.layers) {
    if (is_moe_layer(layer)) routed_experts += layer.feed_forward.experts;
  }
  if (routed_experts > kMostRoutedExperts) {
    return Fault{"layers", "more than a million routed experts over all layers"};
  }
  if (total_weights(a) > kMostWeights) return Fault{"hidden", "the model has more than 1e15 weights"};
  return {};
}

std::optional<Fault> lack_of_experts(const Architecture& a) {
  if (a.is_moe()) return {};
  return Fault{"layers", "no layer has experts: a Mixture-of-Experts model needs one"};
}

std::string model_file_name(std::string_view title) {
  std::string name = lower_case(std::string(title.substr(0, 100)));
  for (char& c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!good) c = '-';
  }
  return name;
}

Architecture load_any_architecture(std::string_view name, const std::string& base) {
  const ConfigText config = find_config("models", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  Architecture architecture = read_architecture(document);
  problems.throw_if_any();
  return architecture;
}

Architecture load_architecture(std::string_view name, const std::string& base) {
  Architecture a = load_any_architecture(name, base);
  if (const std::optional<Fault> found = lack_of_experts(a)) throw InputError(std::string(name), found->what);
  return a;
}

}  // namespace moelab
