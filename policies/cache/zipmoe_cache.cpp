// ZipMoE's compression-aware cache (section 3.4, "Pool Dispatching"): pools F, C, S, E, sized by a plan
// (policies/planning) in experts, any of them possibly empty; an expert's rank by runtime frequency says in
// which pool it belongs.
//
//   use(o):  freq(o) += 1;  r = number of experts with a greater freq
//            target = first pool i, in the order F, C, S, E and among those with places, with
//                     r < tau_i = sum_{j <= i} S_j + delta;  none: o leaves memory at once
//            o moves there; if that pool is full, its expert with the lowest freq leaves memory for it
//            (among equals the one used least recently).
//
// Symbols: S_j places of pool j; delta = margin * N ranks for N experts. Where the paper leaves a choice:
// - delta. A rank is a whole number, so 0.1 ranks (the published artifact's default is 0.1) would tolerate
//   nothing. The artifact multiplies it by the experts of a layer, and so do we: a share of the ranks. Each
//   tau_i gets it once, as the formula says (the artifact adds it up from pool to pool).
// - Ranks count from 0 and equals share the best one, as in the artifact.
// - freq counts layer steps, as the planner's inclusion probabilities do; `count_tokens` makes it count
//   tokens, as the artifact does. The two agree for single-token decoding.
// - freq is kept for the whole run; `reset` makes it start anew with every batch, as the artifact's
//   evaluation does (reset_access_counts() in evaluation/evaluate.py). What is in memory stays there.
// - Who leaves is decided by freq, as the text says; `slot_counts` makes it the uses since the expert came to
//   its pool, 1 for that coming, as in the artifact (access_counts_ of CachePolicyZipMoE). Those are not
//   reset.
// - The newcomer is not a candidate for leaving: an expert let in by the margin would otherwise, being the
//   lowest of a full pool by construction, be thrown out of memory on the spot.
// - An expert can only go where its parts are. After a use, whatever was loaded or held this step is in
//   memory: experts found in C, S, E or M can go to any pool. One found in F was not read at all, so it has
//   no E-chunks: for a target of C or E it stays in F (where it is the next to leave); for S its
//   exponent plane is dropped.
// - `spill` (the artifact's rule, ProactiveDecision(), off by default): an expert whose target is full, or
//   that has none, takes a free place of another pool instead: one further down if there is any, else one
//   further up, nearest first. Its own place is not free, so that an expert found in a full S goes up to F;
//   one found in F stays there, whatever its rank.
// - The artifact has one F and one S for the whole model and holds ranks within a layer against their sizes,
//   so that F is every expert's target: here a system with `domain: model` in its cache, `margin: 1`,
//   `spill: 1`, `count_tokens: 1`, `reset: 1` and `slot_counts: 1`.
// - insert(): taken into F if that has a free place, whatever its rank, also out of another pool. No
//   expert leaves for a prefetched one.
//
// O(1) for the rank of a step (O(N) at worst when counting tokens), O(log S_i) for a pool's order.
#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/cache/eviction_heap.hpp"
#include "policies/cache/frequency_ranks.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

constexpr std::size_t kPools = 4;  // F, C, S, E: the states before M

struct ZipmoeOptions {
  double margin = 0;
  bool count_tokens = false;
  bool spill = false;
  bool reset = false;
  bool slot_counts = false;
};

class ZipmoeCache final : public CachePolicy {
 public:
  ZipmoeCache(const CacheShape& shape, const ZipmoeOptions& options)
      : options_(options),
        ranks_(shape.objects),
        states_(shape.objects, State::M),
        found_(shape.objects, State::M),
        last_use_(shape.objects, 0),
        slot_uses_(shape.objects, 0),
        pools_{EvictionHeap(shape.objects), EvictionHeap(shape.objects), EvictionHeap(shape.objects),
               EvictionHeap(shape.objects)} {
    double places = 0, bytes = 0;
    for (std::size_t p = 0; p < kPools; ++p) {
      places_[p] = shape.pool_experts[p];
      bytes_each_[p] = shape.bytes[p];
      places += places_[p];
      bytes += places_[p] * bytes_each_[p];
      thresholds_[p] = places + options.margin * shape.objects;
    }
    // A plan cuts every pool to its share; the shares themselves add up to the capacity only up to rounding.
    if (bytes > shape.capacity_bytes * (1 + 1e-12))
      throw InputError("cache policy 'zipmoe'", "its pools need " + std::to_string(bytes) +
                                                    " bytes, but the cache has " +
                                                    std::to_string(shape.capacity_bytes));
  }

  std::span<const State> states() const override { return states_; }

  void use(const ExpertUse& use) override { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) override {
    for (const ExpertUse& use : uses) found_[use.object] = states_[use.object];
    for (const ExpertUse& use : uses) dispatch(use);
  }

  void begin_request() override {
    if (!options_.reset) return;
    ranks_ = FrequencyRanks(static_cast<std::uint32_t>(states_.size()));
    for (std::uint32_t object = 0; object < states_.size(); ++object)
      if (states_[object] != State::M) set_key(object);
  }

  bool insert(std::uint32_t object) override {
    if (states_[object] == State::F) return true;
    if (full(State::F)) return false;
    leave(object);
    slot_uses_[object] = 1;
    keep(object, State::F);
    return true;
  }

  double bytes_held() const override {
    double bytes = 0;
    for (std::size_t p = 0; p < kPools; ++p) bytes += pools_[p].size() * bytes_each_[p];
    return bytes;
  }

 private:
  bool full(State pool) const { return pools_[index(pool)].size() == places_[index(pool)]; }

  /// What was read for it goes by the state in which the step found it; another of the step's may have made
  /// it leave since.
  void dispatch(const ExpertUse& use) {
    const std::uint32_t object = use.object;
    const std::uint64_t weight = options_.count_tokens ? use.tokens : 1;
    ranks_.raise(object, weight);
    const State now = states_[object];
    const State target = destination(found_[object], ranks_.rank(object));
    if (target != now) leave(object);
    if (target == State::M) return;
    if (target != now && full(target)) leave(pools_[index(target)].front());
    slot_uses_[object] = target == now ? slot_uses_[object] + weight : 1;
    keep(object, target);
  }
  /// Where an expert found in one state goes at its rank; M: nowhere.
  State destination(State found, std::uint32_t rank) const {
    std::size_t target = 0;
    while (target < kPools && (places_[target] == 0 || !(rank < thresholds_[target]))) ++target;
    if (!reachable(found, kAllStates[target]) || (options_.spill && found == State::F)) return State::F;
    return options_.spill ? with_room(target) : kAllStates[target];
  }
  /// False for the moves that would need chunks which were not read.
  static bool reachable(State found, State target) {
    return found != State::F || (target != State::C && target != State::E);
  }
  /// The target if it has a free place, else the nearest pool that has; the target after all if none has.
  State with_room(std::size_t target) const {
    const auto room = [&](std::size_t p) { return !full(kAllStates[p]); };
    for (std::size_t p = target; p < kPools; ++p)
      if (room(p)) return kAllStates[p];
    for (std::size_t p = target; p-- > 0;)
      if (room(p)) return kAllStates[p];
    return kAllStates[target];
  }
  void keep(std::uint32_t object, State pool) {
    states_[object] = pool;
    last_use_[object] = ++clock_;
    set_key(object);
  }
  void set_key(std::uint32_t object) {
    const std::uint64_t uses = options_.slot_counts ? slot_uses_[object] : ranks_.frequency(object);
    pools_[index(states_[object])].set(object, {uses, last_use_[object]});
  }
  void leave(std::uint32_t object) {
    if (states_[object] == State::M) return;
    pools_[index(states_[object])].erase(object);
    states_[object] = State::M;
  }

  ZipmoeOptions options_;
  FrequencyRanks ranks_;
  std::vector<State> states_;
  std::vector<State> found_;                // by expert: as the last step that used it was told of
  std::vector<std::uint64_t> last_use_;     // by expert: the clock then
  std::vector<std::uint64_t> slot_uses_;    // by expert: uses since it came to its pool
  std::array<EvictionHeap, kPools> pools_;  // the lowest frequency, then the least recent use, in front
  std::array<std::uint32_t, kPools> places_{};
  std::array<double, kPools> bytes_each_{};
  std::array<double, kPools> thresholds_{};  // tau
  std::uint64_t clock_ = 0;
};

PolicyInfo zipmoe_info() {
  return {
      .name = "zipmoe",
      .help = "pools of full, compressed, sign-mantissa and exponent parts by popularity rank",
      .source = "ZipMoE, section 3.4",
      .parameters = {
          {"margin", "", 0.1, 0, 1, "ranks by which a pool's limit is widened, as a share of the experts"},
          {"count_tokens", "", 0, 0, 1, "1: frequencies count tokens; 0: they count steps"},
          {"spill", "", 0, 0, 1, "1: an expert whose pool is full takes a free place in another"},
          {"reset", "", 0, 0, 1, "1: frequencies start anew with every batch; 0: they are kept"},
          {"slot_counts", "", 0, 0, 1,
           "1: the one with the fewest uses since it came to its pool leaves; 0: the one least frequent"}}};
}

}  // namespace

CachePolicyEntry zipmoe_cache_entry() {
  return {
      .info = zipmoe_info(),
      .may_span_model = true,
      .uses_pools = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        const PolicyInfo info = zipmoe_info();
        return std::make_unique<ZipmoeCache>(
            shape, ZipmoeOptions{.margin = parameter(info, values, "margin"),
                                 .count_tokens = checked_count(info, values, "count_tokens") != 0,
                                 .spill = checked_count(info, values, "spill") != 0,
                                 .reset = checked_count(info, values, "reset") != 0,
                                 .slot_counts = checked_count(info, values, "slot_counts") != 0});
      }};
}

}  // namespace moelab
