// Splits of experts over backends, made once and changed step by step; placements on a cluster's GPUs.
#include <algorithm>
#include <array>
#include <limits>

#include "policies/check/trial.hpp"

namespace moelab {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

StorageShape draw_storage_shape(Trial& trial) {
  Draws& draws = trial.draws;
  StorageShape shape{.layers = trial.smallest ? 1 : draws.between(1, 6),
                     .experts = trial.smallest ? 1 : draws.between(1, 12),
                     .expert_bytes = draws.uniform(0.5, 2)};
  const std::uint32_t count = trial.smallest ? 1 : draws.between(2, 4);
  for (std::uint32_t k = 0; k < count; ++k) {
    StorageBackend backend{.name = "backend " + std::to_string(k)};
    backend.bytes_per_second = draws.one_in(5) ? kNoLimit : draws.uniform(0.5, 8);
    if (k == 0 || (k + 1 < count && draws.one_in(2))) backend.gpu_bytes_per_byte = draws.uniform(0.5, 1);
    shape.backends.push_back(backend);
  }
  if (draws.one_in(2)) shape.compute_s = draws.uniform(0, 10);
  return shape;
}

/// Capacities and a budget that often, but not always, leave room.
void draw_limits(Draws& draws, StorageShape& shape) {
  const double all = shape.layers * shape.experts * shape.expert_bytes;
  for (std::size_t k = 0; k + 1 < shape.backends.size(); ++k)
    if (draws.one_in(3)) shape.backends[k].capacity_bytes = draws.uniform(0, 1.2) * all;
  if (draws.one_in(4)) shape.backends.back().capacity_bytes = draws.uniform(0.5, 2) * all;
  if (draws.one_in(2)) shape.gpu_budget_bytes = draws.uniform(0, 1) * all;
}

void add_split(Trial& trial, const StorageSplit& split) {
  for (std::uint32_t layer = 0; layer < split.shape().layers; ++layer)
    for (std::size_t k = 0; k < split.shape().backends.size(); ++k)
      trial.answers.add(std::uint64_t{split.experts(layer, k)});
}

void play_storage(Trial& trial, const StoragePolicyEntry& entry) {
  StorageShape shape = draw_storage_shape(trial);
  if (!trial.smallest) draw_limits(trial.draws, shape);
  add_split(trial, split_storage(entry, shape, trial.parameters, kClosely));
}

void play_residency(Trial& trial, const ResidencyPolicyEntry& entry) {
  Draws& draws = trial.draws;
  const StorageShape shape = draw_storage_shape(trial);
  const auto policy = make_residency_policy(entry, trial.parameters, kClosely);
  StorageSplit split(shape);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    for (std::size_t k = 1; k < shape.backends.size(); ++k)
      split.move(layer, 0, k, draws.below(split.experts(layer, 0) + 1));
  // The memory of both, as at the start, is theirs for good.
  const double memory = split.gpu_bytes() + (trial.smallest ? 0 : draws.uniform(0, 20));
  const bool may_leave = shape.backends.back().gpu_bytes_per_byte == 0;
  ResidencyState state{.gpu_bytes = memory};
  for (std::uint32_t step = draws.between(1, 30); step > 0; --step) {
    state.iteration += draws.between(1, 200);
    state.compute_s = draws.uniform(0.1, 20);
    state.kv_bytes = (may_leave ? memory : memory - split.gpu_bytes()) * draws.uniform(0, 1);
    trial.answers.add(std::uint64_t{policy->adjust(state, split)});
    add_split(trial, split);
  }
}

/// Different experts for which the server has room.
std::uint64_t room_on(const PlacementShape& shape, const PlacementServer& server) {
  std::uint64_t room = 0;
  for (const double bytes : server.gpu_bytes) room += static_cast<std::uint64_t>(bytes / shape.expert_bytes);
  return server.up ? std::min(room, std::uint64_t{shape.layers} * shape.experts) : 0;
}

/// Adds room to random GPUs until all copies have some: often exactly enough. The first `copies` servers are
/// up and have a GPU.
void add_room(Draws& draws, PlacementShape& shape) {
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts;
  for (;;) {
    std::uint64_t room = 0;
    for (const PlacementServer& server : shape.servers) room += room_on(shape, server);
    if (room >= all * shape.copies) return;
    PlacementServer& server = shape.servers[draws.below(static_cast<std::uint32_t>(shape.servers.size()))];
    if (server.gpu_bytes.empty() || room_on(shape, server) >= all) continue;
    server.gpu_bytes[draws.below(static_cast<std::uint32_t>(server.gpu_bytes.size()))] += shape.expert_bytes;
  }
}

PlacementShape draw_cluster(Trial& trial) {
  Draws& draws = trial.draws;
  PlacementShape shape{.layers = trial.smallest ? 1 : draws.between(1, 4),
                       .experts = trial.smallest ? 1 : draws.between(1, 12),
                       .expert_bytes = std::array{0.5, 1.0, 24.0, 17301504.0}[draws.below(4)],
                       .copies = trial.smallest ? 1 : draws.below(4),
                       .seed = draws.bits()};
  const std::uint32_t needed = std::max(shape.copies, 1U);
  const std::uint32_t servers = trial.smallest ? 1 : needed + draws.below(4);
  for (std::uint32_t n = 0; n < servers; ++n) {
    PlacementServer server{.load_bytes_per_second = draws.uniform(1e6, 1e9)};
    server.up = n < needed || !draws.one_in(6);
    const std::uint32_t gpus = n < needed ? draws.between(1, 3) : draws.below(4);
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu)
      server.gpu_bytes.push_back((draws.below(shape.layers * shape.experts + 2) + draws.uniform(0, 1)) *
                                 shape.expert_bytes);
    shape.servers.push_back(server);
  }
  add_room(draws, shape);
  return shape;
}

void play_placement(Trial& trial, const PlacementPolicyEntry& entry) {
  Draws& draws = trial.draws;
  const PlacementShape shape = draw_cluster(trial);
  ActivationCounts counts(shape.servers.size(), shape.layers, shape.experts);
  for (std::size_t server = 0; server < shape.servers.size(); ++server)
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
      for (std::uint32_t kind = draws.below(4), expert = 0; expert < shape.experts; ++expert)
        counts.add(server, layer, expert, kind == 0 ? 0 : kind == 1 ? draws.below(4) : draws.uniform(0, 1e4));
  const Placement placement = place_experts(entry, shape, counts, trial.parameters, kClosely);
  for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu)
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape.experts; ++expert)
        trial.answers.add(std::uint64_t{placement.on_gpu(gpu, layer, expert)});
}

}  // namespace

PolicyCheck check_policy(const StoragePolicyEntry& entry, const CheckOptions& options) {
  return play_trials("storage", entry.info, options, [&](Trial& trial) { play_storage(trial, entry); });
}

PolicyCheck check_policy(const ResidencyPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("residency", entry.info, options, [&](Trial& trial) { play_residency(trial, entry); });
}

PolicyCheck check_policy(const PlacementPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("placement", entry.info, options, [&](Trial& trial) { play_placement(trial, entry); });
}

}  // namespace moelab
