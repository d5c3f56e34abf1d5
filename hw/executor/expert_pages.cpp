#include "hw/executor/expert_pages.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace moelab {
namespace {

constexpr std::size_t kTensorAlignment = 64;  // of a cache line, and of the widest vector
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

/// Large ranges begin where large pages do, so that these are moved whole.
std::size_t ExpertPages::whole_range(std::size_t bytes) const {
  return rounded_up(bytes, bytes >= kLargePage ? std::max(kLargePage, page_) : page_);
}

ExpertPages::ExpertPages(PagingDevice& gpu, const ExpertWeights& weights, const engine::StoredExperts& stored,
                         const std::vector<bool>& streamed)
    : weights_(weights),
      page_(gpu.page_bytes()),
      experts_(stored.experts),
      backends_(stored.backends.size()),
      slots_(stored.places.size(), kNoSlot),
      counts_(weights.layers.size()),
      writers_(kHalves * kTypes * stored.backends.size(), kNoLayer) {
  for (auto& types : mapped_) types.fill(kNoLayer);
  for (std::uint32_t kind = 0; kind < weights.kinds.size(); ++kind) {
    std::size_t& slot = slot_bytes_[type_of(kind)];
    in_slot_.push_back(slot);
    slot += rounded_up(2 * weights.kinds[kind].elements(), kTensorAlignment);
  }
  number_experts(stored, streamed);
  if (most_ == 0) return;
  std::array<std::size_t, kHalves * kTypes> pieces{};
  for (std::size_t type = 0; type < kTypes; ++type) {
    frames_of_type_[type] = half_bytes_;
    for (std::size_t half = 0; half < kHalves; ++half)
      pieces[half * kTypes + type] = whole_range(most_ * slot_bytes_[type]);
    half_bytes_ += pieces[type];
  }
  for (std::size_t layer = 0; layer < counts_.size(); ++layer)  // room for the whole piece at each
    for (std::size_t type = 0; type < kTypes; ++type)
      ranges_.push_back(layer * half_bytes_ + frames_of_type_[type]);
  memory_ = gpu.make_paged(counts_.size() * half_bytes_, pieces);
}

void ExpertPages::number_experts(const engine::StoredExperts& stored, const std::vector<bool>& streamed) {
  for (std::uint32_t layer = 0; layer < counts_.size(); ++layer) {
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      if (streamed[stored.backend_of(layer, expert)])
        slots_[std::size_t{layer} * experts_ + expert] = counts_[layer]++;
    most_ = std::max(most_, counts_[layer]);
  }
}

std::uint64_t ExpertPages::tensor_bytes(std::uint16_t type) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind)
    if (type_of(kind) == type) bytes += 2 * weights_.kinds[kind].elements();
  return bytes;
}

std::uint64_t ExpertPages::bytes() const {
  return kHalves * std::uint64_t{most_} * (tensor_bytes(0) + tensor_bytes(1));
}

void ExpertPages::require_unread(std::uint32_t half, const char* doing) const {
  if (readers_[half].load() > 0)
    throw std::logic_error("hardware: half " + std::to_string(half) + " of the window is " + doing +
                           " while a kernel reads it");
}

void ExpertPages::remap(std::uint32_t layer, std::uint16_t type, std::uint32_t half) {
  require_unread(half, "remapped");
  const auto move = [&](std::uint32_t of, bool map) {
    const std::size_t range = ranges_[std::size_t{of} * kTypes + type];
    const std::size_t frame = half * half_bytes_ + frames_of_type_[type];
    const std::size_t bytes = rounded_up(counts_[of] * slot_bytes_[type], page_);
    if (map)
      memory_->map(range, frame, bytes);
    else
      memory_->unmap(range, frame, bytes);
  };
  std::uint32_t& mapped = mapped_[half][type];
  if (mapped != kNoLayer) move(mapped, false);
  mapped = kNoLayer;
  move(layer, true);
  mapped = layer;
}

std::span<std::uint16_t> ExpertPages::tensor(TensorPlace place) const {
  const std::uint16_t type = type_of(place.kind);
  const std::size_t elements = weights_.kinds[place.kind].elements();
  const std::size_t address = ranges_[std::size_t{place.layer} * kTypes + type] +
                              slot_of(place.layer, place.expert) * slot_bytes_[type] + in_slot_[place.kind];
  const std::span<std::byte> bytes = memory_->at(address, 2 * elements);
  return {reinterpret_cast<std::uint16_t*>(bytes.data()), elements};
}

void ExpertPages::begin_write(std::uint32_t layer, std::uint16_t type, std::uint32_t half,
                              std::size_t backend) {
  require_unread(half, "written");
  writer(half, type, backend) = layer;
}

ExpertPages::Reading::Reading(ExpertPages& pages, std::uint32_t layer, std::uint32_t half,
                              std::span<const std::size_t> backends)
    : pages_(pages), half_(half) {
  for (const std::size_t backend : backends)
    for (std::uint16_t type = 0; type < kTypes; ++type)
      if (pages_.writer(half, type, backend) != layer)
        throw std::logic_error("hardware: experts of MoE layer " + std::to_string(layer) +
                               " compute before all of them are in the window");
  ++pages_.readers_[half_];
}

ExpertPages::Reading::~Reading() {
  --pages_.readers_[half_];
}

}  // namespace moelab
