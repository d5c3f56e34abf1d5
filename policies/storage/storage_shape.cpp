// The checks that storage policies share.
#include <cmath>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "policies/storage/split_check.hpp"

namespace moelab {
namespace {

// Bound the table of a split, and the load times that are compared, to some megabytes.
constexpr std::uint32_t kMostLayers = 65536, kMostExperts = 65536;
constexpr std::size_t kMostBackends = 16;
constexpr double kMostExpertBytes = 1e15;  // no sum of sizes overflows

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("", "storage: " + what);
}

bool at_least_zero(double x) {  // infinity too, not a NaN
  return x >= 0;
}

void check_backend(const StorageBackend& backend) {
  if (backend.name.empty()) refuse("a backend has no name: expected one, such as 'host'");
  const std::string who = "backend '" + backend.name + "' ";
  if (!(backend.bytes_per_second > 0))
    refuse(who + "has a bandwidth of " + std::to_string(backend.bytes_per_second) +
           " B/s, expected one above 0: state it, or leave the backend out");
  if (!std::isfinite(backend.gpu_bytes_per_byte) || backend.gpu_bytes_per_byte < 0)
    refuse(who + "takes " + std::to_string(backend.gpu_bytes_per_byte) +
           " B of GPU memory a byte, expected 0 (not on the GPU) or more (1: uncompressed)");
  if (!at_least_zero(backend.capacity_bytes))
    refuse(who + "has a capacity of " + std::to_string(backend.capacity_bytes) +
           " B, expected 0 or more: leave it out where it is ample");
}

void check_count(std::uint32_t count, std::uint32_t most, const char* what) {
  if (count == 0 || count > most)
    refuse(std::to_string(count) + " " + what + ", expected 1 to " + std::to_string(most));
}

}  // namespace

void check_storage_shape(const StorageShape& shape) {
  check_count(shape.layers, kMostLayers, "layers");
  check_count(shape.experts, kMostExperts, "experts a layer");
  if (!(shape.expert_bytes > 0 && shape.expert_bytes <= kMostExpertBytes))
    refuse("an expert takes " + std::to_string(shape.expert_bytes) + " B, expected above 0, at most 1 PB");
  if (shape.backends.empty() || shape.backends.size() > kMostBackends)
    refuse(std::to_string(shape.backends.size()) + " backends, expected 1 to " +
           std::to_string(kMostBackends));
  for (std::size_t k = 0; k < shape.backends.size(); ++k) {
    check_backend(shape.backends[k]);
    for (std::size_t before = 0; before < k; ++before)
      if (shape.backends[before].name == shape.backends[k].name)
        refuse("two backends are named '" + shape.backends[k].name + "': expected names of their own");
  }
  if (!at_least_zero(shape.gpu_budget_bytes))
    refuse("the GPU budget for experts is " + std::to_string(shape.gpu_budget_bytes) +
           " B, expected 0 or more: lower what else the GPU holds");
  if (!std::isfinite(shape.compute_s) || shape.compute_s < 0)
    refuse("a layer computes for " + std::to_string(shape.compute_s) + " s, expected 0 or more");
}

void check_fits(const StorageSplit& split, std::string_view policy) {
  const StorageShape& shape = split.shape();
  const std::string who = "policy '" + std::string(policy) + "' ";
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if (split.total(k) > expert_capacity(shape, k))
      refuse(who + "puts " + std::to_string(split.total(k)) + " experts on backend '" +
             shape.backends[k].name + "', which has capacity for " +
             std::to_string(expert_capacity(shape, k)) + ": raise its capacity or change what is offloaded");
  if (split.gpu_bytes() > shape.gpu_budget_bytes)
    refuse(who + "takes " + to_string(Bytes(split.gpu_bytes())) +
           " of GPU memory for experts, the budget is " + to_string(Bytes(shape.gpu_budget_bytes)) +
           ": needs " + to_string(Bytes(split.gpu_bytes() - shape.gpu_budget_bytes)) +
           " more, or more experts offloaded");
}

}  // namespace moelab
