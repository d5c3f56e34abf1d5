// @name@: a residency policy. Where the KV cache takes memory that experts hold, experts of the last layers
// go to the last backend.
#include <moelab/policy/input_error.hpp>
#include <moelab/policy/policy_library.hpp>

namespace {

class Mine final : public moelab::ResidencyPolicy {
 public:
  bool adjust(const moelab::ResidencyState& state, moelab::StorageSplit& split) override {
    if (!(state.compute_s >= 0 && state.kv_bytes >= 0 && state.kv_bytes <= state.gpu_bytes))
      throw moelab::InputError("", "@name@: a state that cannot be");
    bool moved = false;
    for (std::uint32_t layer = split.shape().layers; layer-- > 0;)
      while (split.gpu_bytes() > state.gpu_bytes - state.kv_bytes && move_one(layer, split)) moved = true;
    if (split.gpu_bytes() > state.gpu_bytes - state.kv_bytes)
      throw moelab::InputError("", "@name@: experts have no place off the GPU");
    return moved;
  }

 private:
  /// An expert of the layer from a backend in GPU memory to the last one, if there is one of each.
  static bool move_one(std::uint32_t layer, moelab::StorageSplit& split) {
    const auto& backends = split.shape().backends;
    const std::size_t last = backends.size() - 1;
    if (backends[last].gpu_bytes_per_byte > 0 || split.room(last) == 0) return false;
    for (std::size_t from = 0; from < last; ++from)
      if (backends[from].gpu_bytes_per_byte > 0 && split.experts(layer, from) > 0) {
        split.move(layer, from, last, 1);
        return true;
      }
    return false;
  }
};

moelab::ResidencyPolicyEntry mine() {
  return {.info = {.name = "@name@",
                   .help = "experts of the last layers give way to the KV cache",
                   .source = "mine"},
          .make = [](const moelab::PolicyParameters&) -> std::unique_ptr<moelab::ResidencyPolicy> {
            return std::make_unique<Mine>();
          }};
}

}  // namespace

MOELAB_POLICIES(mine())
