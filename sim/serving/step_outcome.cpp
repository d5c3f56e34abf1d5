#include "sim/serving/step_outcome.hpp"

#include <algorithm>
#include <bit>

namespace moelab {

std::array<double, kTiers> bytes_read(const LabelledGraph& graph) {
  std::array<double, kTiers> bytes{};
  for (engine::OpIndex op = 0; op < graph.graph.size(); ++op) {
    const OpLabel& label = graph.labels[op];
    if (label.tier == Tier::none || !graph.graph.was_started(op)) continue;
    bytes[static_cast<std::size_t>(label.tier)] += label.bytes;
  }
  return bytes;
}

std::size_t LayerMemo::hash() const {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  std::uint64_t h = std::bit_cast<std::uint64_t>(key_.shared_s) ^ key_.experts;
  for (std::size_t i = 0; i < key_.experts; ++i) {
    h = (h ^ key_.codes[i]) * kGolden;
    h ^= h >> 32;
  }
  return static_cast<std::size_t>(h);
}

const StepOutcome* LayerMemo::find(std::span<const std::uint64_t> codes, double shared_s) {
  keepable_ = false;
  if (codes.size() > kMostExperts) return nullptr;
  key_.shared_s = shared_s;
  key_.experts = static_cast<std::uint32_t>(codes.size());
  std::fill(std::copy(codes.begin(), codes.end(), key_.codes.begin()), key_.codes.end(), std::uint64_t{0});

  if (table_.empty()) {
    table_.resize(2 * kMostLayers);
    keys_.reserve(kMostLayers);
    outcomes_.reserve(kMostLayers);
  }
  for (place_ = hash() % table_.size(); table_[place_] != 0; place_ = (place_ + 1) % table_.size())
    if (keys_[table_[place_] - 1] == key_) return &outcomes_[table_[place_] - 1];
  keepable_ = keys_.size() < kMostLayers;
  return nullptr;
}

void LayerMemo::keep(const StepOutcome& outcome) {
  if (!keepable_) return;
  keepable_ = false;
  keys_.push_back(key_);
  outcomes_.push_back(outcome);
  table_[place_] = static_cast<std::uint32_t>(keys_.size());
}

}  // namespace moelab
