// Caches from outside. Callers never read the policy's own states: after each call of it, its guard takes
// over what has changed, once it is found to keep the rules. Beside what cache.hpp says of bytes and states,
// parts of an expert are held only from a use or prefetch on that brought them, since nothing else brings
// parts into memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

using StateParts = std::uint8_t;  // of an expert in memory: bits
constexpr StateParts kNoParts = 0, kSmParts = 1, kEParts = 2;

StateParts parts_of(State state) {
  return static_cast<StateParts>((has_sm(state) ? kSmParts : kNoParts) | (has_e(state) ? kEParts : kNoParts));
}

/// States that are looked at together, without branches, so that a processor takes many at once; the last of
/// a domain are filled up with M.
constexpr std::size_t kBlock = 64;
using Block = std::array<std::uint8_t, kBlock>;

Block block_of(std::span<const State> states) {
  Block block;
  if (states.size() == kBlock) {
    std::memcpy(block.data(), states.data(), kBlock);
    return block;
  }
  block.fill(static_cast<std::uint8_t>(State::M));
  std::memcpy(block.data(), states.data(), states.size());
  return block;
}

using Counts = std::array<std::uint8_t, kStates>;  // of a block's experts in each state

std::uint8_t count_of(State state, const Block& block) {
  std::uint8_t count = 0;
  for (const std::uint8_t one : block)
    count = static_cast<std::uint8_t>(count + (one == static_cast<std::uint8_t>(state) ? 1 : 0));
  return count;
}

/// Whether an expert is in no state, or has a part that it had not before.
bool any_grows(const Block& now, const Block& before) {
  const auto sm = [](std::uint8_t state) -> unsigned { return has_sm(static_cast<State>(state)); };
  const auto e = [](std::uint8_t state) -> unsigned { return has_e(static_cast<State>(state)); };
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    any = static_cast<std::uint8_t>(any | (sm(now[i]) & ~sm(before[i])) | (e(now[i]) & ~e(before[i])) |
                                    unsigned{now[i] >= kStates});
  return any != 0;
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
        states_(shape.objects, State::M),
        block_counts_((shape.objects + kBlock - 1) / kBlock) {
    shape_.profile = {};  // the caller's
    policy_states_ = guard_.ask([&] { return policy_->states(); });
    if (policy_states_.size() != shape.objects)
      guard_.broken("gives the states of " + counted(policy_states_.size(), "expert") + ", its domain has " +
                    std::to_string(shape.objects));
    look_for_the_first_time();
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
  /// All that is in the policy's states is new; where it says that it preloads it may be anything.
  void look_for_the_first_time() {
    std::vector<ExpertUse> whole;
    for (std::uint32_t object = 0; preloads_ && object < shape_.objects; ++object)
      whole.push_back({.object = object});
    take_changes(whole);
    take_bytes();
    made_ = true;
  }

  /// After a call in which the policy was given `whole`, experts with all their parts, in ascending order.
  /// Throws where what it holds now breaks a rule.
  void look_after(std::span<const ExpertUse> whole) {
    if (preloads_) whole = {};  // it keeps what it has
    if (take_changes(whole) || !whole.empty()) take_bytes();
  }

  /// Takes over the policy's states. Returns whether they are others than they were.
  bool take_changes(std::span<const ExpertUse> whole) {
    const std::span<const State> now = guard_.ask([&] { return policy_->states(); });
    if (now.data() != policy_states_.data() || now.size() != policy_states_.size())
      guard_.broken("has moved its states, which stay where they are as long as it lives");
    bool changed = false;
    for (std::size_t begin = 0, block = 0; begin < now.size(); begin += kBlock, ++block) {
      const std::size_t size = std::min(kBlock, now.size() - begin);
      if (std::memcmp(&now[begin], &states_[begin], size) == 0) continue;
      changed = true;
      take_block(block, now.subspan(begin, size), whole);
    }
    return changed;
  }

  void take_block(std::size_t number, std::span<const State> now, std::span<const ExpertUse> whole) {
    const std::size_t begin = number * kBlock;
    Block could = block_of(std::span(states_).subspan(begin, now.size()));
    const auto first = std::ranges::lower_bound(whole, begin, {}, &ExpertUse::object);
    for (auto use = first; use != whole.end() && use->object < begin + now.size(); ++use)
      could[use->object - begin] = static_cast<std::uint8_t>(State::F);
    const Block is = block_of(now);
    if (any_grows(is, could) || (preloads_ && made_)) check_block(now, could, begin);
    count_block(number, is);
    std::memcpy(&states_[begin], now.data(), now.size());
  }

  /// A block's experts in each state, for the sums of the domain. Of policies without pools there are two.
  void count_block(std::size_t number, const Block& is) {
    Counts counts{};
    if (uses_pools_) {
      for (const State state : {State::F, State::C, State::S, State::E})
        counts[index(state)] = count_of(state, is);
    } else {
      std::uint8_t& kept = counts[index(shape_.kept_as)] = count_of(shape_.kept_as, is);
      if (kept + count_of(State::M, is) != kBlock) check_kept_as(number, is);
    }
    for (std::size_t state = 0; state < kStates; ++state)
      counts_[state] += std::uint32_t{counts[state]} - block_counts_[number][state];
    block_counts_[number] = counts;
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

  /// Says which expert of a block, the first of which is number `first`, is as it may not be; `could`: the
  /// states whose parts they may have.
  void check_block(std::span<const State> now, const Block& could, std::size_t first) const {
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto object = static_cast<std::uint32_t>(first + i);
      if (index(now[i]) >= kStates)
        guard_.broken("says of expert " + std::to_string(object) + " that it is in state number " +
                      std::to_string(index(now[i])) + ", there are " + std::to_string(kStates));
      const StateParts parts = parts_of(now[i]), had = parts_of(static_cast<State>(could[i]));
      if ((parts & ~had) != 0)
        guard_.broken("holds " + expert_in(object, now[i]) +
                      (had == kNoParts ? ", which was neither used nor prefetched"
                                       : ", of which it had another part, and was given none"));
      if (preloads_ && made_ && parts != had)
        guard_.broken("holds expert " + std::to_string(object) +
                      " no more, and its entry says that it keeps what it held from the start");
    }
  }

  void check_kept_as(std::size_t number, const Block& is) const {
    for (std::size_t i = 0; i < kBlock; ++i)
      if (const auto state = static_cast<State>(is[i]); state != State::M && state != shape_.kept_as)
        guard_.broken("keeps " + expert_in(static_cast<std::uint32_t>(number * kBlock + i), state) +
                      ", it is to keep experts in " + std::string(kStateNames[index(shape_.kept_as)]));
  }

  static std::string expert_in(std::uint32_t object, State state) {
    return "expert " + std::to_string(object) + " in " + std::string(kStateNames[index(state)]);
  }

  std::unique_ptr<CachePolicy> policy_;
  PolicyGuard guard_;
  CacheShape shape_;
  bool uses_pools_, preloads_;
  std::span<const State> policy_states_;  // where the policy has its own
  std::vector<State> states_;             // [objects], as of the last call
  std::vector<Counts> block_counts_;
  std::array<std::uint32_t, kStates> counts_{};  // of the domain's experts in each state; of M none
  double held_ = 0;                              // bytes
  bool made_ = false;                            // its first states are known
};

}  // namespace

std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyEntry& entry, const CacheShape& shape,
                                               const PolicyParameters& parameters,
                                               const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(shape, parameters);
  return std::make_unique<GuardedCache>(entry, shape, parameters, options);
}

}  // namespace moelab
