// Placement family: which GPU of which server holds which experts when servers serve a MoE model together
// and call each other's experts over a network (Prism, arXiv 2508.12851, section III). An expert that a
// server does not hold is called remotely, so a policy wants each server to hold what its own users activate,
// and all servers together to hold everything.
//
// All experts are of one size. A policy is a pure function of the shape and of activation counts; migration
// from one placement to another is priced in migration.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

struct PlacementServer {
  std::vector<double> gpu_bytes = {};  // memory for experts on each GPU, without what staging takes
  double load_bytes_per_second = 0;    // speed_{n,g} of Eq. 3: at which experts get into a GPU of it
  bool up = true;                      // false: holds nothing and gets nothing (it has left the cluster)
};

struct PlacementShape {
  std::uint32_t layers = 0;   // with experts
  std::uint32_t experts = 0;  // a layer
  double expert_bytes = 0;
  std::vector<PlacementServer> servers = {};
  /// Servers that hold each expert, at least. 0: experts may be nowhere, because servers load what they lack.
  std::uint32_t copies = 1;
  std::uint64_t seed = 1;  // of policies that draw
};

/// Throws InputError when the shape cannot be used: no layers, experts or servers, or too many; sizes that
/// are negative or not numbers; more copies than servers that are up; GPUs that all together have no room for
/// `copies` copies of the experts on different servers (the shortfall is named); no copies, unless the policy
/// fills what room there is. Where none of this is wrong, a placement exists.
void check_placement_shape(const PlacementShape& shape, bool fills_room = false);

/// f_n^l(e): how often server n's users activated expert e of layer l; decayed or averaged counts too.
class ActivationCounts {
 public:
  /// All 0.
  ActivationCounts(std::size_t servers, std::uint32_t layers, std::uint32_t experts);

  std::size_t servers() const { return servers_; }
  std::uint32_t layers() const { return layers_; }
  std::uint32_t experts() const { return experts_; }
  double at(std::size_t server, std::uint32_t layer, std::uint32_t expert) const {
    return layer_start(server, layer)[expert];
  }
  /// [experts]
  std::span<const double> layer(std::size_t server, std::uint32_t layer) const {
    return {layer_start(server, layer), experts_};
  }
  /// [layers, experts]
  std::span<const double> of_server(std::size_t server) const {
    return {layer_start(server, 0), std::size_t{layers_} * experts_};
  }
  void add(std::size_t server, std::uint32_t layer, std::uint32_t expert, double count) {
    counts_[(server * layers_ + layer) * experts_ + expert] += count;
  }
  /// Counts of the same shape.
  void add(const ActivationCounts& other);
  /// Multiplies all counts: by less than 1, statistics that forget.
  void scale(double factor);

 private:
  const double* layer_start(std::size_t server, std::uint32_t layer) const {
    return counts_.data() + (server * layers_ + layer) * experts_;
  }
  std::size_t servers_;
  std::uint32_t layers_, experts_;
  std::vector<double> counts_;  // [servers, layers, experts]
};

/// Throws InputError when counts are of another shape, or some are negative or not finite.
void check_activation_counts(const PlacementShape& shape, const ActivationCounts& counts);

/// Which GPU holds which experts. GPUs are numbered through all servers, those of servers that are down too.
/// One byte a (GPU, expert) and one a (server, expert), so that asking is O(1).
class Placement {
 public:
  /// Nothing placed.
  explicit Placement(const PlacementShape& shape);

  std::size_t servers() const { return first_gpu_.size() - 1; }
  std::uint32_t layers() const { return layers_; }
  std::uint32_t experts() const { return experts_; }
  std::uint32_t gpus() const { return first_gpu_.back(); }
  /// Server n's GPUs are first_gpu(n) to first_gpu(n + 1) - 1; first_gpu(servers()) is gpus().
  std::uint32_t first_gpu(std::size_t server) const { return first_gpu_[server]; }
  std::size_t server_of(std::uint32_t gpu) const { return server_of_[gpu]; }

  bool on_gpu(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert) const {
    return on_gpu_[at(gpu, layer, expert)] != 0;
  }
  bool on_server(std::size_t server, std::uint32_t layer, std::uint32_t expert) const {
    return on_server_[at(server, layer, expert)] != 0;
  }
  /// How many of the server's GPUs hold it.
  std::uint32_t gpus_with(std::size_t server, std::uint32_t layer, std::uint32_t expert) const {
    return on_server_[at(server, layer, expert)];
  }
  /// Servers that hold it.
  std::uint32_t copies(std::uint32_t layer, std::uint32_t expert) const {
    return copies_[at(0, layer, expert)];
  }
  /// GPUs that hold it, ascending. Valid until that expert is placed or removed.
  std::span<const std::uint32_t> holders(std::uint32_t layer, std::uint32_t expert) const {
    return holders_[at(0, layer, expert)];
  }
  /// Experts on a GPU.
  std::uint64_t held(std::uint32_t gpu) const { return held_[gpu]; }

  /// The GPU must not hold the expert yet. Memory is the caller's affair.
  void place(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert);
  /// The GPU must hold the expert.
  void remove(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert);

  bool operator==(const Placement& other) const;

 private:
  std::size_t at(std::size_t row, std::uint32_t layer, std::uint32_t expert) const {
    return (row * layers_ + layer) * experts_ + expert;
  }
  std::uint32_t layers_, experts_;
  std::vector<std::uint32_t> first_gpu_;             // [servers + 1]
  std::vector<std::uint32_t> server_of_;             // [gpus]
  std::vector<std::uint8_t> on_gpu_;                 // [gpus, layers, experts]
  std::vector<std::uint8_t> on_server_;              // [servers, layers, experts]: GPUs of it that hold it
  std::vector<std::uint32_t> copies_;                // [layers, experts]
  std::vector<std::vector<std::uint32_t>> holders_;  // [layers, experts]
  std::vector<std::uint64_t> held_;                  // [gpus]
};

/// Eq. 2: activations of experts that the server they were counted on does not hold, of all servers. Counts
/// and placement must be of one shape.
double remote_mass(const ActivationCounts& counts, const Placement& placement);
/// Activations counted on a server of experts that it holds.
double local_mass(const ActivationCounts& counts, const Placement& placement, std::size_t server);

struct PlacementPolicyEntry {
  PolicyInfo info;
  /// No GPU holds more than fits its memory, every expert is on `copies` servers that are up, and what is not
  /// up holds nothing. Throws InputError for a shape or counts that the checks above refuse, for parameters
  /// out of range and, `optimal`, for clusters above its stated size.
  std::function<Placement(const PlacementShape& shape, const ActivationCounts& counts,
                          const PolicyParameters& parameters)>
      place;
};
/// The family's one table.
PolicyTable<PlacementPolicyEntry>& placement_policies();
/// nullptr when there is no such policy.
const PlacementPolicyEntry* find_placement_policy(std::string_view name);

}  // namespace moelab
