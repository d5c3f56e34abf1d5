// Caches from outside. Beside what cache.hpp says of bytes and states: an expert is held only where it was
// used or prefetched before, with parts that it had then, since nothing else brings parts into memory.
#include <algorithm>
#include <array>
#include <cmath>

#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

using StateParts = std::uint8_t;  // of an expert in memory: bits
constexpr StateParts kNoParts = 0, kSmParts = 1, kEParts = 2, kAllParts = kSmParts | kEParts;

StateParts parts_of(State state) {
  return static_cast<StateParts>((has_sm(state) ? kSmParts : kNoParts) | (has_e(state) ? kEParts : kNoParts));
}

class GuardedCache final : public CachePolicy {
 public:
  GuardedCache(const CachePolicyEntry& entry, const CacheShape& shape, const PolicyParameters& parameters,
               const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(shape, parameters); })),
        guard_(entry.info, options),
        shape_(shape),
        uses_pools_(entry.uses_pools),
        preloads_(entry.preloads),
        known_(shape.objects) {
    shape_.profile = {};  // the caller's
    for (std::size_t parts = 0; parts < expected_.size(); ++parts)
      expected_[parts] = expected_with(static_cast<StateParts>(parts));
    for (std::uint32_t object = 0; object < shape.objects; ++object) {
      known_[object] = preloads_ ? kAllParts : kNoParts;
      if (preloads_) known_[object] = parts_of(state(object));
    }
    check_all();
  }

  State state(std::uint32_t object) const override {
    const State state = guard_.ask([&] { return policy_->state(object); });
    const std::size_t number = index(state);
    if (number < kStates && (expected_[known_[object]] >> number & 1) != 0) return state;
    return unexpected(object, state);
  }

  void use(const ExpertUse& use) override { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) override {
    guard_.ask([&] { policy_->use_all(uses); });
    if (!preloads_)
      for (const ExpertUse& use : uses) known_[use.object] = kAllParts;
    if (guard_.closely()) check_all();
  }

  void begin_step(const CacheStep& step) override {
    check_step();
    if (shape_.layers > 1)
      guard_.begin_step(step.layer);
    else
      guard_.begin_step();
    guard_.ask([&] { policy_->begin_step(step); });
  }
  void observe(std::span<const float> scores) override {
    guard_.ask([&] { policy_->observe(scores); });
  }
  void begin_request() override {
    guard_.ask([&] { policy_->begin_request(); });
  }

  bool insert(std::uint32_t object) override {
    const bool taken = guard_.ask([&] { return policy_->insert(object); });
    if (taken && !preloads_) known_[object] = kAllParts;
    if (taken && state(object) == State::M)
      guard_.broken("says that it took expert " + std::to_string(object) + ", and does not hold it");
    if (guard_.closely())
      check_all();
    else
      check_capacity();
    return taken;
  }

  double bytes_held() const override { return check_capacity(); }

 private:
  /// What a look at the state changes, or whether it breaks a rule.
  State unexpected(std::uint32_t object, State state) const {
    if (state == State::M) {
      if (!preloads_) known_[object] = kNoParts;  // it has to be given again
      return state;
    }
    if (index(state) < kStates && (parts_of(state) & ~known_[object]) != 0) check_parts(object, state);
    if (index(state) >= kStates)
      guard_.broken("says of expert " + std::to_string(object) + " that it is in state number " +
                    std::to_string(index(state)) + ", there are " + std::to_string(kStates));
    if (!uses_pools_)
      guard_.broken("keeps " + expert_in(object, state) + ", it is to keep experts in " +
                    std::string(kStateNames[index(shape_.kept_as)]));
    return state;
  }

  /// Bits by State, of an expert of which these parts may be held: states of which nothing is to be said,
  /// those with no more than the parts in which the policy may keep experts, and M where nothing is known, or
  /// it may come back.
  std::uint8_t expected_with(StateParts known) const {
    unsigned states = preloads_ || known == kNoParts ? 1U << index(State::M) : 0U;
    for (const State state : {State::F, State::C, State::S, State::E})
      if ((uses_pools_ || state == shape_.kept_as) && (parts_of(state) & ~known) == 0)
        states |= 1U << index(state);
    return static_cast<std::uint8_t>(states);
  }

  static std::string expert_in(std::uint32_t object, State state) {
    return "expert " + std::to_string(object) + " in " + std::string(kStateNames[index(state)]);
  }

  double check_capacity() const {
    const double held = guard_.ask([&] { return policy_->bytes_held(); });
    if (!within(held, shape_.capacity_bytes))
      guard_.broken("holds " + to_string(Bytes(held)) + ", its memory is " +
                    to_string(Bytes(shape_.capacity_bytes)));
    return held;
  }

  void check_step() {
    if (guard_.looks_at_all())
      check_all();
    else
      check_capacity();
  }

  void check_all() {
    const double held = check_capacity();
    double bytes = 0;
    for (std::uint32_t object = 0; object < shape_.objects; ++object) {
      const State now = state(object);
      bytes += shape_.bytes[index(now)];
      note_parts(object, now);
    }
    if (std::abs(bytes - held) > 2 * kGuardRounding * std::max(bytes, held))
      guard_.broken("says that it holds " + to_string(Bytes(held)) + ", its experts' states come to " +
                    to_string(Bytes(bytes)));
  }

  void check_parts(std::uint32_t object, State now) const {
    if ((parts_of(now) & ~known_[object]) != 0)
      guard_.broken("holds " + expert_in(object, now) +
                    (known_[object] == kNoParts ? ", which was neither used nor prefetched"
                                                : ", of which it had another part, and was given none"));
  }

  /// What left with the step is not held again before it is given again.
  void note_parts(std::uint32_t object, State now) {
    check_parts(object, now);
    const StateParts parts = parts_of(now);
    if (preloads_ && parts != known_[object])
      guard_.broken("holds expert " + std::to_string(object) +
                    " no more, and its entry says that it keeps what it held from the start");
    known_[object] = parts;
  }

  std::unique_ptr<CachePolicy> policy_;
  PolicyGuard guard_;
  CacheShape shape_;
  bool uses_pools_, preloads_;
  mutable std::vector<StateParts>
      known_;  // [objects]: what it may hold, as of the last look and what came since
  std::array<std::uint8_t, kAllParts + 1> expected_{};  // by known parts: see expected_with()
};

}  // namespace

std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyEntry& entry, const CacheShape& shape,
                                               const PolicyParameters& parameters,
                                               const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(shape, parameters);
  return std::make_unique<GuardedCache>(entry, shape, parameters, options);
}

}  // namespace moelab
