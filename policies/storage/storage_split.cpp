// A split of the layers' experts over storage backends, and what it costs.
#include <algorithm>
#include <cassert>

#include "policies/storage/storage.hpp"

namespace moelab {

StorageSplit::StorageSplit(const StorageShape& shape)
    : shape_(std::make_shared<const StorageShape>(shape)),
      experts_(std::size_t{shape.layers} * shape.backends.size(), 0),
      totals_(shape.backends.size(), 0) {
  for (std::size_t at = 0; at < experts_.size(); at += totals_.size()) experts_[at] = shape.experts;
  totals_[0] = std::uint64_t{shape.layers} * shape.experts;
}

std::uint64_t StorageSplit::room(std::size_t backend) const {
  const std::uint64_t capacity = expert_capacity(*shape_, backend);
  return capacity > totals_[backend] ? capacity - totals_[backend] : 0;
}

void StorageSplit::move(std::uint32_t layer, std::size_t from, std::size_t to, std::uint32_t count) {
  assert(count <= experts(layer, from));
  experts_[layer * totals_.size() + from] -= count;
  experts_[layer * totals_.size() + to] += count;
  totals_[from] -= count;
  totals_[to] += count;
}

double StorageSplit::load_seconds(std::uint32_t layer, std::size_t backend) const {
  return moelab::load_seconds(*shape_, backend, experts(layer, backend));
}

double StorageSplit::load_seconds(std::uint32_t layer) const {
  double longest = 0;
  for (std::size_t k = 0; k < totals_.size(); ++k) longest = std::max(longest, load_seconds(layer, k));
  return longest;
}

double StorageSplit::load_seconds() const {
  double sum = 0;
  for (std::uint32_t layer = 0; layer < shape_->layers; ++layer) sum += load_seconds(layer);
  return sum;
}

double StorageSplit::longest_load_seconds() const {
  double longest = 0;
  for (std::uint32_t layer = 0; layer < shape_->layers; ++layer)
    longest = std::max(longest, load_seconds(layer));
  return longest;
}

double StorageSplit::gpu_bytes() const {
  return moelab::gpu_bytes(*shape_, totals_);
}

double StorageSplit::gpu_share() const {
  if (shape_->layers == 0) return 1;  // a dense model's
  std::uint64_t on_gpu = 0;
  for (std::size_t k = 0; k < totals_.size(); ++k)
    if (shape_->backends[k].gpu_bytes_per_byte > 0) on_gpu += totals_[k];
  return static_cast<double>(on_gpu) / (static_cast<double>(shape_->layers) * shape_->experts);
}

std::uint64_t expert_capacity(const StorageShape& shape, std::size_t backend) {
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts;
  const double experts = shape.backends[backend].capacity_bytes / shape.expert_bytes;
  return experts < static_cast<double>(all) ? static_cast<std::uint64_t>(experts) : all;
}

double gpu_bytes(const StorageShape& shape, const std::vector<std::uint64_t>& totals) {
  double per_expert_byte = 0;
  for (std::size_t k = 0; k < totals.size(); ++k)
    per_expert_byte += static_cast<double>(totals[k]) * shape.backends[k].gpu_bytes_per_byte;
  return per_expert_byte * shape.expert_bytes;
}

}  // namespace moelab
