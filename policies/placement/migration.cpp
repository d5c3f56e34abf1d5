#include "policies/placement/migration.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "models/input_error.hpp"

namespace moelab {
namespace {

std::uint64_t arrivals(const Placement& from, const Placement& to, std::uint32_t gpu) {
  std::uint64_t count = 0;
  for (std::uint32_t layer = 0; layer < to.layers(); ++layer)
    for (std::uint32_t expert = 0; expert < to.experts(); ++expert)
      count += to.on_gpu(gpu, layer, expert) && !from.on_gpu(gpu, layer, expert) ? 1 : 0;
  return count;
}

/// A server's experts over its GPUs anew. Experts that are on several of its GPUs count as many times.
class Redealing {
 public:
  Redealing(const Placement& from, const Placement& to, std::size_t server)
      : from_(from), to_(to), first_(to.first_gpu(server)), end_(to.first_gpu(server + 1)), server_(server) {}

  /// Into a placement of which the server is empty. Leaves it as in `to` where an expert that is on several
  /// GPUs finds none without it for its last copy.
  void run(Placement& result) {
    for (std::uint32_t gpu = first_; gpu < end_; ++gpu) stay(gpu, result);
    if (!place_others(result)) copy_as_is(result);
  }

 private:
  template <class Visit>
  void each_expert(Visit visit) const {
    for (std::uint32_t layer = 0; layer < to_.layers(); ++layer)
      for (std::uint32_t expert = 0; expert < to_.experts(); ++expert) visit(layer, expert);
  }
  std::uint32_t missing(const Placement& result, std::uint32_t layer, std::uint32_t expert) const {
    return to_.gpus_with(server_, layer, expert) - result.gpus_with(server_, layer, expert);
  }

  void stay(std::uint32_t gpu, Placement& result) const {
    each_expert([&](std::uint32_t layer, std::uint32_t expert) {
      if (result.held(gpu) < to_.held(gpu) && from_.on_gpu(gpu, layer, expert) &&
          missing(result, layer, expert) > 0)
        result.place(gpu, layer, expert);
    });
  }

  bool place_others(Placement& result) const {
    bool complete = true;
    each_expert([&](std::uint32_t layer, std::uint32_t expert) {
      for (std::uint32_t gpu = first_; gpu < end_ && missing(result, layer, expert) > 0; ++gpu)
        if (result.held(gpu) < to_.held(gpu) && !result.on_gpu(gpu, layer, expert))
          result.place(gpu, layer, expert);
      complete = complete && missing(result, layer, expert) == 0;
    });
    return complete;
  }

  void copy_as_is(Placement& result) const {
    for (std::uint32_t gpu = first_; gpu < end_; ++gpu)
      each_expert([&](std::uint32_t layer, std::uint32_t expert) {
        if (result.on_gpu(gpu, layer, expert) && !to_.on_gpu(gpu, layer, expert))
          result.remove(gpu, layer, expert);
        if (!result.on_gpu(gpu, layer, expert) && to_.on_gpu(gpu, layer, expert))
          result.place(gpu, layer, expert);
      });
  }

  const Placement& from_;
  const Placement& to_;
  const std::uint32_t first_, end_;
  const std::size_t server_;
};

void check_term(double value, bool allowed, const char* what, const char* expected) {
  if (!std::isfinite(value) || !allowed)
    throw InputError(
        "", std::string("migration: ") + what + " is " + std::to_string(value) + " s, expected " + expected);
}

void check_terms(const MigrationTerms& terms) {
  check_term(terms.window_seconds, terms.window_seconds > 0, "the window of the counts", "above 0");
  check_term(terms.remote_call_seconds, terms.remote_call_seconds >= 0, "a remote call", "0 or more");
  check_term(terms.horizon_seconds, terms.horizon_seconds >= 0, "the horizon", "0 or more");
}

}  // namespace

MigrationCost migration_cost(const PlacementShape& shape, const Placement& from, const Placement& to) {
  MigrationCost cost;
  for (std::size_t server = 0; server < shape.servers.size(); ++server) {
    std::uint64_t come = 0;
    for (std::uint32_t gpu = to.first_gpu(server); gpu < to.first_gpu(server + 1); ++gpu)
      come += arrivals(from, to, gpu);
    if (come == 0) continue;
    const double speed = shape.servers[server].load_bytes_per_second;
    if (!(speed > 0))
      throw InputError("", "migration: " + std::to_string(come) + " experts come to server " +
                               std::to_string(server) + ", which loads at " + std::to_string(speed) +
                               " B/s: state at which speed experts get into its GPUs");
    const double bytes = static_cast<double>(come) * shape.expert_bytes;
    cost.experts += come;
    cost.bytes += bytes;
    cost.seconds += bytes / speed;
    cost.longest_seconds = std::max(cost.longest_seconds, bytes / speed);
  }
  return cost;
}

double migration_seconds(const PlacementShape& shape, const Placement& from, const Placement& to) {
  return migration_cost(shape, from, to).seconds;
}

Placement keep_in_place(const PlacementShape& shape, const Placement& from, const Placement& to) {
  Placement result(shape);
  for (std::size_t server = 0; server < to.servers(); ++server) Redealing(from, to, server).run(result);
  return result;
}

MigrationDecision decide_migration(const PlacementShape& shape, const ActivationCounts& counts,
                                   const Placement& from, const Placement& to, const MigrationTerms& terms) {
  check_terms(terms);
  check_activation_counts(shape, counts);
  MigrationDecision decision;
  decision.calls_saved_per_second =
      (remote_mass(counts, from) - remote_mass(counts, to)) / terms.window_seconds;
  decision.seconds_saved =
      decision.calls_saved_per_second * terms.horizon_seconds * terms.remote_call_seconds;
  decision.migration_seconds = migration_seconds(shape, from, to);
  decision.adopt = decision.seconds_saved > decision.migration_seconds;
  return decision;
}

}  // namespace moelab
