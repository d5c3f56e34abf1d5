#include "hw/store/chunk_store.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <set>

#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr std::uint64_t kMostLayers = 10'000, kMostExperts = 65'536, kMostKinds = 8, kMostShards = 4'096;
constexpr std::uint64_t kMostRows = 10'000'000;
constexpr std::uint64_t kMostTensors = 100'000'000;
constexpr double kMostWeights = 1e15;

void require_within(const std::string& file, const std::string& what, std::uint64_t found,
                    std::uint64_t most) {
  if (found >= 1 && found <= most) return;
  throw InputError(file, what + ": " + std::to_string(found) + ", expected 1 to " + std::to_string(most));
}

std::string shape_text(const ExpertWeights& weights) {
  std::string text = std::to_string(weights.layers.size()) + " layers of " + std::to_string(weights.experts) +
                     " experts with";
  for (const ExpertTensorKind& kind : weights.kinds)
    text += " " + kind.name + " [" + std::to_string(kind.rows) + ", " + std::to_string(kind.columns) + "]";
  return text;
}

/// The matrices as checkpoints that fuse gate and up keep them, in either orientation.
bool is_fused_form(const ExpertWeights& found, const ExpertWeights& split) {
  if (found.kinds.size() != 2 || split.kinds.size() != 3 || found.kinds[0].name != "gate_up") return false;
  const std::uint64_t width = split.kinds[0].rows, hidden = split.kinds[0].columns;
  const auto is = [](const ExpertTensorKind& kind, std::uint64_t a, std::uint64_t b) {
    return std::minmax(kind.rows, kind.columns) == std::minmax(a, b);
  };
  return is(found.kinds[0], 2 * width, hidden) && is(found.kinds[1], width, hidden);
}

}  // namespace

std::uint64_t ExpertWeights::weights() const {
  std::uint64_t elements = 0;
  for (const ExpertTensorKind& kind : kinds) elements += kind.elements();
  return elements * experts * layers.size();
}

std::uint64_t ordinal_of(const ExpertWeights& weights, TensorPlace place) {
  assert(place.layer < weights.layers.size() && place.expert < weights.experts &&
         place.kind < weights.kinds.size());
  return (std::uint64_t{place.layer} * weights.experts + place.expert) * weights.kinds.size() + place.kind;
}

TensorPlace place_of(const ExpertWeights& weights, std::uint64_t ordinal) {
  const std::uint64_t expert = ordinal / weights.kinds.size();
  return {static_cast<std::uint32_t>(expert / weights.experts),
          static_cast<std::uint32_t>(expert % weights.experts),
          static_cast<std::uint32_t>(ordinal % weights.kinds.size())};
}

std::string to_string(const ExpertWeights& weights, TensorPlace place) {
  return "layer " + std::to_string(weights.layers[place.layer]) + ", expert " + std::to_string(place.expert) +
         ", " + weights.kinds[place.kind].name;
}

void require_sound(const ChunkStoreDescription& description, const std::string& file) {
  const ExpertWeights& weights = description.weights;
  require_within(file, "MoE layers", weights.layers.size(), kMostLayers);
  require_within(file, "experts", weights.experts, kMostExperts);
  require_within(file, "tensors of an expert", weights.kinds.size(), kMostKinds);
  require_within(file, "shards", description.shards, kMostShards);
  require_within(file, "tensors", weights.tensors(), kMostTensors);
  if (std::adjacent_find(weights.layers.begin(), weights.layers.end(), std::greater_equal<>()) !=
      weights.layers.end())
    throw InputError(file, "the layers' numbers do not rise");
  std::set<std::string_view> names;
  for (const ExpertTensorKind& kind : weights.kinds) {
    require_within(file, "rows of " + kind.name, kind.rows, kMostRows);
    require_within(file, "columns of " + kind.name, kind.columns, kMostRows);
    if (kind.name.empty() || kind.name.find(',') != std::string::npos || !names.insert(kind.name).second)
      throw InputError(file, "tensor kind '" + kind.name + "': expected different names without commas");
  }
  double all = 0;  // which a sum of integers might not hold
  for (const ExpertTensorKind& kind : weights.kinds)
    all += static_cast<double>(kind.elements()) * static_cast<double>(weights.tensors());
  if (all > kMostWeights) throw InputError(file, "more than 1e15 weights in all");
  try {
    if (find_codec(description.codec)->name() == description.codec) return;
  } catch (const InputError& error) {
    throw InputError(file, error.problems().front().what);
  }
  throw InputError(file, "codec '" + description.codec + "': expected its name with its level");
}

void require_model(const ExpertWeights& weights, const Architecture& model, const std::string& file) {
  const ExpertWeights due = expert_weights_of(model);
  if (weights.layers == due.layers && weights.experts == due.experts &&
      (weights.kinds == due.kinds || is_fused_form(weights, due)))
    return;
  throw InputError(file, "holds " + shape_text(weights) + ", of " + weights.model + "; " + model.name +
                             " has " + shape_text(due) +
                             (weights.layers.size() == due.layers.size() && weights.layers != due.layers
                                  ? ", at other places among its layers"
                                  : ""));
}

ExpertWeights expert_weights_of(const Architecture& model) {
  if (!model.is_moe()) throw InputError(model.name, "has no MoE layers, so there is nothing to pack");
  const FeedForward& ff = model.moe();
  ExpertWeights weights{model.name, {}, {}, static_cast<std::uint32_t>(ff.experts), {}};
  for (const int layer : model.moe_layers()) weights.layers.push_back(static_cast<std::uint32_t>(layer));
  const auto hidden = static_cast<std::uint64_t>(model.hidden), width = static_cast<std::uint64_t>(ff.width);
  if (ff.matrices == 3) weights.kinds.push_back({"gate", width, hidden});
  weights.kinds.push_back({"up", width, hidden});
  weights.kinds.push_back({"down", hidden, width});
  return weights;
}

}  // namespace moelab
