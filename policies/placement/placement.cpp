// Counts of activations, a placement of experts on GPUs, and what it leaves to remote calls.
#include "policies/placement/placement.hpp"

#include <algorithm>
#include <cassert>

namespace moelab {

ActivationCounts::ActivationCounts(std::size_t servers, std::uint32_t layers, std::uint32_t experts)
    : servers_(servers),
      layers_(layers),
      experts_(experts),
      counts_(servers * layers * std::size_t{experts}, 0) {}

void ActivationCounts::add(const ActivationCounts& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

void ActivationCounts::scale(double factor) {
  for (double& count : counts_) count *= factor;
}

Placement::Placement(const PlacementShape& shape)
    : layers_(shape.layers),
      experts_(shape.experts),
      first_gpu_{0},
      copies_(std::size_t{shape.layers} * shape.experts, 0),
      holders_(copies_.size()) {
  for (std::size_t server = 0; server < shape.servers.size(); ++server) {
    const std::size_t gpus = shape.servers[server].gpu_bytes.size();
    first_gpu_.push_back(first_gpu_.back() + static_cast<std::uint32_t>(gpus));
    server_of_.insert(server_of_.end(), gpus, static_cast<std::uint32_t>(server));
  }
  on_gpu_.resize(gpus() * copies_.size(), 0);
  on_server_.resize(servers() * copies_.size(), 0);
  held_.resize(gpus(), 0);
}

void Placement::place(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert) {
  assert(!on_gpu(gpu, layer, expert));
  on_gpu_[at(gpu, layer, expert)] = 1;
  if (on_server_[at(server_of_[gpu], layer, expert)]++ == 0) ++copies_[at(0, layer, expert)];
  std::vector<std::uint32_t>& holders = holders_[at(0, layer, expert)];
  holders.insert(std::upper_bound(holders.begin(), holders.end(), gpu), gpu);
  ++held_[gpu];
}

void Placement::remove(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert) {
  assert(on_gpu(gpu, layer, expert));
  on_gpu_[at(gpu, layer, expert)] = 0;
  if (--on_server_[at(server_of_[gpu], layer, expert)] == 0) --copies_[at(0, layer, expert)];
  std::vector<std::uint32_t>& holders = holders_[at(0, layer, expert)];
  holders.erase(std::lower_bound(holders.begin(), holders.end(), gpu));
  --held_[gpu];
}

bool Placement::operator==(const Placement& other) const {
  return layers_ == other.layers_ && experts_ == other.experts_ && first_gpu_ == other.first_gpu_ &&
         on_gpu_ == other.on_gpu_;
}

double remote_mass(const ActivationCounts& counts, const Placement& placement) {
  double mass = 0;
  for (std::size_t server = 0; server < counts.servers(); ++server)
    for (std::uint32_t layer = 0; layer < counts.layers(); ++layer)
      for (std::uint32_t expert = 0; expert < counts.experts(); ++expert)
        if (!placement.on_server(server, layer, expert)) mass += counts.at(server, layer, expert);
  return mass;
}

double local_mass(const ActivationCounts& counts, const Placement& placement, std::size_t server) {
  double mass = 0;
  for (std::uint32_t layer = 0; layer < counts.layers(); ++layer)
    for (std::uint32_t expert = 0; expert < counts.experts(); ++expert)
      if (placement.on_server(server, layer, expert)) mass += counts.at(server, layer, expert);
  return mass;
}

}  // namespace moelab
