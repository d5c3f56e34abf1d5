// @name@: a placement policy. Each copy of an expert goes to the server with the most room, and there to the
// GPU with the most.
#include <moelab/policy/policy_library.hpp>
#include <moelab/policy/slots.hpp>

#include <vector>

namespace {

class Dealer {
 public:
  explicit Dealer(const moelab::PlacementShape& shape)
      : shape_(shape), placement_(shape), room_(moelab::gpu_slots(shape)) {}

  moelab::Placement deal() {
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        for (std::uint32_t copy = 0; copy < shape_.copies; ++copy) place(layer, expert);
    return placement_;
  }

 private:
  /// On the server with the most room that lacks it.
  void place(std::uint32_t layer, std::uint32_t expert) {
    std::size_t best = shape_.servers.size();
    for (std::size_t server = 0; server < shape_.servers.size(); ++server)
      if (room_of(server) > 0 && !placement_.on_server(server, layer, expert) &&
          (best == shape_.servers.size() || room_of(server) > room_of(best)))
        best = server;
    if (best == shape_.servers.size()) return;
    const std::uint32_t gpu = emptiest(best);
    placement_.place(gpu, layer, expert);
    --room_[gpu];
  }
  std::uint64_t room_of(std::size_t server) const {
    std::uint64_t room = 0;
    for (std::uint32_t gpu = placement_.first_gpu(server); gpu < placement_.first_gpu(server + 1); ++gpu)
      room += room_[gpu];
    return room;
  }
  std::uint32_t emptiest(std::size_t server) const {
    std::uint32_t best = placement_.gpus();
    for (std::uint32_t gpu = placement_.first_gpu(server); gpu < placement_.first_gpu(server + 1); ++gpu)
      if (room_[gpu] > 0 && (best == placement_.gpus() || room_[gpu] > room_[best])) best = gpu;
    return best;
  }

  const moelab::PlacementShape& shape_;
  moelab::Placement placement_;
  std::vector<std::uint64_t> room_;  // [gpus] experts more
};

moelab::Placement place(const moelab::PlacementShape& shape, const moelab::ActivationCounts& counts,
                        const moelab::PolicyParameters&) {
  moelab::check_placement_shape(shape);
  moelab::check_activation_counts(shape, counts);
  return Dealer(shape).deal();
}

moelab::PlacementPolicyEntry mine() {
  return {.info = {.name = "@name@",
                   .help = "every copy of an expert goes where there is the most room",
                   .source = "mine"},
          .place = place};
}

}  // namespace

MOELAB_POLICIES(mine())
