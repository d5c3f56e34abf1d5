#include "policies/placement/coverage.hpp"

#include <limits>
#include <optional>
#include <stdexcept>

#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

struct Expert {
  std::uint32_t layer, expert;
};

class Cover {
 public:
  Cover(const PlacementShape& shape, const ActivationCounts& counts, Placement& placement)
      : shape_(shape), counts_(counts), placement_(placement), slots_(gpu_slots(shape)) {}

  void run() {
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        while (placement_.copies(layer, expert) < shape_.copies)
          if (!place_in_free_slot({layer, expert})) place_along_chain({layer, expert});
  }

 private:
  std::uint64_t free_slots(std::uint32_t gpu) const { return slots_[gpu] - placement_.held(gpu); }
  bool on_server(std::size_t server, Expert e) const {
    return placement_.on_server(server, e.layer, e.expert);
  }

  bool place_in_free_slot(Expert e) {
    std::uint64_t most = 0;
    std::uint32_t best = 0;
    for (std::uint32_t gpu = 0; gpu < placement_.gpus(); ++gpu)
      if (free_slots(gpu) > most && !on_server(placement_.server_of(gpu), e)) {
        most = free_slots(gpu);
        best = gpu;
      }
    if (most > 0) placement_.place(best, e.layer, e.expert);
    return most > 0;
  }

  // The first expert of a GPU, layer by layer, for which `wanted` is least and finite.
  template <class Wanted>
  std::optional<Expert> least_on(std::uint32_t gpu, Wanted wanted) const {
    std::optional<Expert> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        if (placement_.on_gpu(gpu, layer, expert))
          if (const double value = wanted(Expert{layer, expert}); value < least) {
            least = value;
            best = Expert{layer, expert};
          }
    return best;
  }

  /// A GPU of the server with a free slot, made free if need be.
  std::optional<std::uint32_t> spare_slot(std::size_t server) {
    const std::uint32_t end = placement_.first_gpu(server + 1);
    for (std::uint32_t gpu = placement_.first_gpu(server); gpu < end; ++gpu)
      if (free_slots(gpu) > 0) return gpu;
    for (std::uint32_t gpu = placement_.first_gpu(server); gpu < end; ++gpu) {
      const auto use_here = [&](Expert e) {
        if (placement_.gpus_with(server, e.layer, e.expert) > 1) return -1.0;  // costs no locality at all
        return placement_.copies(e.layer, e.expert) > shape_.copies ? counts_.at(server, e.layer, e.expert)
                                                                    : std::numeric_limits<double>::infinity();
      };
      if (const auto leaves = least_on(gpu, use_here)) {
        placement_.remove(gpu, leaves->layer, leaves->expert);
        return gpu;
      }
    }
    return std::nullopt;
  }

  std::optional<Expert> movable(std::size_t from, std::size_t to) const {
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        if (on_server(from, {layer, expert}) && !on_server(to, {layer, expert})) return Expert{layer, expert};
    return std::nullopt;
  }

  struct Step {
    std::size_t from = 0;
    std::optional<Expert> moves = {};  // from there; none: the chain starts here
    bool reached = false;
  };

  void place_along_chain(Expert e) {
    std::vector<Step> steps(placement_.servers());
    std::vector<std::size_t> queue;
    for (std::size_t server = 0; server < steps.size(); ++server) {
      if (!shape_.servers[server].up || on_server(server, e)) continue;
      steps[server].reached = true;
      queue.push_back(server);
    }
    for (std::size_t head = 0; head < queue.size(); ++head) {
      if (const auto gpu = spare_slot(queue[head])) return move_along(steps, queue[head], *gpu, e);
      reach_from(queue[head], steps, queue);
    }
    throw std::logic_error("placement: no room for coverage, though the shape passed its check");
  }

  void reach_from(std::size_t from, std::vector<Step>& steps, std::vector<std::size_t>& queue) {
    for (std::size_t to = 0; to < steps.size(); ++to) {
      if (!shape_.servers[to].up || steps[to].reached) continue;
      if (const auto expert = movable(from, to)) {
        steps[to] = {.from = from, .moves = expert, .reached = true};
        queue.push_back(to);
      }
    }
  }

  void move_along(const std::vector<Step>& steps, std::size_t server, std::uint32_t gpu, Expert e) {
    while (steps[server].moves) {
      const Expert moves = *steps[server].moves;
      server = steps[server].from;
      std::uint32_t gpu_before = placement_.first_gpu(server);
      while (!placement_.on_gpu(gpu_before, moves.layer, moves.expert)) ++gpu_before;
      placement_.remove(gpu_before, moves.layer, moves.expert);
      placement_.place(gpu, moves.layer, moves.expert);
      gpu = gpu_before;
    }
    placement_.place(gpu, e.layer, e.expert);
  }

  const PlacementShape& shape_;
  const ActivationCounts& counts_;
  Placement& placement_;
  const std::vector<std::uint64_t> slots_;  // [gpus]
};

}  // namespace

void cover(const PlacementShape& shape, const ActivationCounts& counts, Placement& placement) {
  Cover(shape, counts, placement).run();
}

}  // namespace moelab
