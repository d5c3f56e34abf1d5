#include <algorithm>

#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

class GuardedPrefetch final : public PrefetchPolicy {
 public:
  GuardedPrefetch(const PrefetchPolicyEntry& entry, const PrefetchShape& shape,
                  const PolicyParameters& parameters, const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(shape, parameters); })),
        guard_(entry.info, options),
        layers_(shape.layers),
        experts_(shape.experts) {}

  void begin_request() override {
    guard_.ask([&] { policy_->begin_request(); });
  }
  void begin_step() override {
    guard_.begin_step();
    guard_.ask([&] { policy_->begin_step(); });
  }
  std::uint32_t gates_ahead() const override {
    return std::min(guard_.ask([&] { return policy_->gates_ahead(); }), layers_);
  }
  void gate_ahead(std::uint32_t layer, std::span<const GateAhead> tokens,
                  std::span<const std::uint8_t> resident) override {
    guard_.enter(layer);
    guard_.ask_or_be_refused([&] { policy_->gate_ahead(layer, tokens, resident); });
  }
  void after_gate(std::uint32_t layer, std::span<const ExpertUse> uses,
                  std::vector<Fetch>& fetches) override {
    guard_.enter(layer);
    guard_.ask([&] { policy_->after_gate(layer, uses, fetches); });
    for (const Fetch& wish : fetches)
      if (wish.layer >= layers_ || wish.expert >= experts_)
        guard_.broken("wishes expert " + std::to_string(wish.expert) + " of layer " +
                      std::to_string(wish.layer) + ", there are " + counted(layers_, "layer") + " of " +
                      counted(experts_, "expert"));
  }

 private:
  std::unique_ptr<PrefetchPolicy> policy_;
  PolicyGuard guard_;
  std::uint32_t layers_, experts_;
};

}  // namespace

std::unique_ptr<PrefetchPolicy> make_prefetch_policy(const PrefetchPolicyEntry& entry,
                                                     const PrefetchShape& shape,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(shape, parameters);
  return std::make_unique<GuardedPrefetch>(entry, shape, parameters, options);
}

}  // namespace moelab
