// Caches from outside. Callers never read the policy's own states: after each call of it, its guard takes
// over what has changed, once it is found to keep the rules. Beside what cache.hpp says of bytes and states,
// parts of an expert are held only from a use or prefetch on that brought them, since nothing else brings
// parts into memory.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

using StateParts = std::uint8_t;  // of an expert in memory: bits
constexpr StateParts kNoParts = 0, kSmParts = 1, kEParts = 2, kAllParts = kSmParts | kEParts;

StateParts parts_of(State state) {
  return static_cast<StateParts>((has_sm(state) ? kSmParts : kNoParts) | (has_e(state) ? kEParts : kNoParts));
}

/// Calls `differs` with the number of each state in which two arrays of equal size are unlike, ascending.
template <class Differs>
void compare_states(std::span<const State> a, std::span<const State> b, const Differs& differs) {
  constexpr std::size_t kBlock = 512;  // states, which memcmp sees to at many a cycle
  for (std::size_t block = 0; block < a.size(); block += kBlock) {
    const std::size_t end = std::min(block + kBlock, a.size());
    if (std::memcmp(&a[block], &b[block], end - block) == 0) continue;
    std::size_t at = block;
    for (std::uint64_t left = 0, right = 0; at + sizeof left <= end; at += sizeof left) {
      std::memcpy(&left, &a[at], sizeof left);
      std::memcpy(&right, &b[at], sizeof right);
      if (left == right) continue;
      for (std::size_t i = at; i < at + sizeof left; ++i)
        if (a[i] != b[i]) differs(static_cast<std::uint32_t>(i));
    }
    for (; at < end; ++at)
      if (a[at] != b[at]) differs(static_cast<std::uint32_t>(at));
  }
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
        states_(shape.objects, State::M) {
    shape_.profile = {};  // the caller's
    counts_[index(State::M)] = shape.objects;
    policy_states_ = guard_.ask([&] { return policy_->states(); });
    if (policy_states_.size() != shape.objects)
      guard_.broken("gives the states of " + counted(policy_states_.size(), "expert") + ", its domain has " +
                    std::to_string(shape.objects));
    take_changes(
        [&](std::uint32_t object, State now) { check_parts(object, preloads_ ? kAllParts : kNoParts, now); });
  }

  std::span<const State> states() const override { return states_; }

  void use(const ExpertUse& use) override { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) override {
    guard_.ask([&] { policy_->use_all(uses); });
    look_after(uses);
  }

  void begin_step(const CacheStep& step) override {
    if (shape_.layers > 1)
      guard_.begin_step(step.layer);
    else
      guard_.begin_step();
    guard_.ask([&] { policy_->begin_step(step); });
    look_after({});
  }
  void observe(std::span<const float> scores) override {
    guard_.ask([&] { policy_->observe(scores); });
    look_after({});
  }
  void begin_request() override {
    guard_.ask([&] { policy_->begin_request(); });
    look_after({});
  }

  bool insert(std::uint32_t object) override {
    const bool taken = guard_.ask([&] { return policy_->insert(object); });
    const ExpertUse given{.object = object};
    look_after({&given, 1});
    if (taken && states_[object] == State::M)
      guard_.broken("says that it took expert " + std::to_string(object) + ", and does not hold it");
    return taken;
  }

  double bytes_held() const override { return held_; }

 private:
  /// Of a call in which the policy was given `whole`, experts in ascending order, with all their parts.
  void look_after(std::span<const ExpertUse> whole) {
    take_changes([&](std::uint32_t object, State now) {
      const StateParts before = parts_of(states_[object]);
      const bool given = std::ranges::binary_search(whole, object, {}, &ExpertUse::object);
      check_parts(object, given && !preloads_ ? kAllParts : before, now);
      if (preloads_ && parts_of(now) != before)
        guard_.broken("holds expert " + std::to_string(object) +
                      " no more, and its entry says that it keeps what it held from the start");
    });
  }

  /// Takes over the policy's states and bytes; `check(object, now)` of each state that has changed.
  template <class Check>
  void take_changes(const Check& check) {
    const std::span<const State> now = guard_.ask([&] { return policy_->states(); });
    if (now.data() != policy_states_.data() || now.size() != policy_states_.size())
      guard_.broken("has moved its states, which stay where they are as long as it lives");
    compare_states(now, states_, [&](std::uint32_t object) {
      const State to = now[object];
      check_state(object, to);
      check(object, to);
      --counts_[index(states_[object])];
      ++counts_[index(to)];
      states_[object] = to;
    });
    take_bytes();
  }

  void take_bytes() {
    held_ = guard_.ask([&] { return policy_->bytes_held(); });
    if (!within(held_, shape_.capacity_bytes))
      guard_.broken("holds " + to_string(Bytes(held_)) + ", its memory is " +
                    to_string(Bytes(shape_.capacity_bytes)));
    double bytes = 0;
    for (std::size_t state = 0; state < kStates; ++state) bytes += counts_[state] * shape_.bytes[state];
    if (std::abs(bytes - held_) > 2 * kGuardRounding * std::max(bytes, held_))
      guard_.broken("says that it holds " + to_string(Bytes(held_)) + ", its experts' states come to " +
                    to_string(Bytes(bytes)));
  }

  void check_state(std::uint32_t object, State state) const {
    if (index(state) >= kStates)
      guard_.broken("says of expert " + std::to_string(object) + " that it is in state number " +
                    std::to_string(index(state)) + ", there are " + std::to_string(kStates));
    if (!uses_pools_ && state != State::M && state != shape_.kept_as)
      guard_.broken("keeps " + expert_in(object, state) + ", it is to keep experts in " +
                    std::string(kStateNames[index(shape_.kept_as)]));
  }

  /// `could`: the parts that it may hold.
  void check_parts(std::uint32_t object, StateParts could, State now) const {
    if ((parts_of(now) & ~could) != 0)
      guard_.broken("holds " + expert_in(object, now) +
                    (could == kNoParts ? ", which was neither used nor prefetched"
                                       : ", of which it had another part, and was given none"));
  }

  static std::string expert_in(std::uint32_t object, State state) {
    return "expert " + std::to_string(object) + " in " + std::string(kStateNames[index(state)]);
  }

  std::unique_ptr<CachePolicy> policy_;
  PolicyGuard guard_;
  CacheShape shape_;
  bool uses_pools_, preloads_;
  std::span<const State> policy_states_;         // where the policy has its own
  std::vector<State> states_;                    // [objects], as of the last call
  std::array<std::uint32_t, kStates> counts_{};  // of experts in each state
  double held_ = 0;                              // bytes
};

}  // namespace

std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyEntry& entry, const CacheShape& shape,
                                               const PolicyParameters& parameters,
                                               const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(shape, parameters);
  return std::make_unique<GuardedCache>(entry, shape, parameters, options);
}

}  // namespace moelab
