#include "policies/placement/slots.hpp"

#include <algorithm>
#include <numeric>

namespace moelab {
namespace {

template <class Index>
std::vector<Index> ascending_indices(std::size_t count) {
  std::vector<Index> indices(count);
  std::iota(indices.begin(), indices.end(), Index{0});
  return indices;
}

}  // namespace

std::vector<std::uint64_t> gpu_slots(const PlacementShape& shape) {
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts;
  std::vector<std::uint64_t> slots;
  for (const PlacementServer& server : shape.servers)
    for (const double bytes : server.gpu_bytes) {
      const double experts = server.up ? bytes / shape.expert_bytes : 0;
      slots.push_back(experts < static_cast<double>(all) ? static_cast<std::uint64_t>(experts) : all);
    }
  return slots;
}

std::vector<std::uint64_t> server_slots(const PlacementShape& shape) {
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts;
  const std::vector<std::uint64_t> gpus = gpu_slots(shape);
  std::vector<std::uint64_t> slots;
  std::size_t gpu = 0;
  for (const PlacementServer& server : shape.servers) {
    std::uint64_t sum = 0;
    for (std::size_t end = gpu + server.gpu_bytes.size(); gpu < end; ++gpu) sum += gpus[gpu];
    slots.push_back(std::min(sum, all));
  }
  return slots;
}

std::vector<std::uint64_t> even_shares(const std::vector<std::uint64_t>& slots, std::uint64_t total) {
  std::vector<std::uint32_t> order = ascending_indices<std::uint32_t>(slots.size());
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return slots[a] < slots[b]; });
  std::vector<std::uint64_t> shares(slots.size(), 0);
  std::uint64_t left = slots.size();
  for (const std::uint32_t gpu : order) {
    shares[gpu] = std::min(slots[gpu], total / left--);
    total -= shares[gpu];
  }
  return shares;
}

std::vector<std::uint32_t> slots_by_layer(const std::vector<std::uint64_t>& slots, std::uint32_t layers) {
  std::vector<std::uint32_t> result(slots.size() * layers);
  std::vector<std::uint64_t> remainders(layers, 0);
  std::vector<std::uint32_t> order = ascending_indices<std::uint32_t>(layers);
  for (std::size_t gpu = 0; gpu < slots.size(); ++gpu) {
    std::uint32_t* const row = result.data() + gpu * layers;
    std::fill(row, row + layers, static_cast<std::uint32_t>(slots[gpu] / layers));
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {
      return remainders[a] != remainders[b] ? remainders[a] < remainders[b] : a < b;
    });
    for (std::uint64_t k = 0; k < slots[gpu] % layers; ++k) {
      ++row[order[k]];
      ++remainders[order[k]];
    }
  }
  return result;
}

std::vector<double> layer_load(const ActivationCounts& counts, std::uint32_t layer) {
  std::vector<double> load(counts.experts(), 0);
  for (std::size_t server = 0; server < counts.servers(); ++server)
    for (std::uint32_t expert = 0; expert < counts.experts(); ++expert)
      load[expert] += counts.at(server, layer, expert);
  return load;
}

std::vector<std::uint32_t> by_descending(std::span<const double> values) {
  std::vector<std::uint32_t> order = ascending_indices<std::uint32_t>(values.size());
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] > values[b]; });
  return order;
}

}  // namespace moelab
