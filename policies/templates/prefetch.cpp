// @name@: a prefetch policy. Once a layer has routed it fetches for the next one what that layer used in the
// step before.
#include <moelab/policy/policy_library.hpp>

namespace {

class Mine final : public moelab::PrefetchPolicy {
 public:
  explicit Mine(const moelab::PrefetchShape& shape) : last_(shape.layers) {}

  // A new request begins: what earlier ones used says little of it.
  void begin_request() override {
    for (auto& experts : last_) experts.clear();
  }
  // Layer `layer` has routed; `uses` are its experts, in ascending order.
  void after_gate(std::uint32_t layer, std::span<const moelab::ExpertUse> uses,
                  std::vector<moelab::Fetch>& fetches) override {
    if (layer + 1 < last_.size())
      for (const std::uint32_t expert : last_[layer + 1]) fetches.push_back({layer + 1, expert});
    last_[layer].clear();
    for (const moelab::ExpertUse& use : uses) last_[layer].push_back(use.object);
  }

 private:
  std::vector<std::vector<std::uint32_t>> last_;  // [layers] experts of the step before
};

moelab::PrefetchPolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "what the next layer used in the step before", .source = "mine"},
          .make = [](const moelab::PrefetchShape& shape, const moelab::PolicyParameters&)
              -> std::unique_ptr<moelab::PrefetchPolicy> { return std::make_unique<Mine>(shape); }};
}

}  // namespace

MOELAB_POLICIES(mine())
