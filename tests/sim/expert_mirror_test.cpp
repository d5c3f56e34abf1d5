// What a serving loop tells a mirror, against what it counts itself: on random systems of every kind.
#include "sim/engine/expert_mirror.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::expert_mirror_test {

using namespace moelab::test;
using engine::ExpertPlace;
using engine::Kept;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(600u, 120u);

/// Follows the states by what it is told, and notes what breaks the rules.
class Follower final : public engine::ExpertMirror {
 public:
  Follower(std::size_t layers, std::uint32_t experts, const std::array<double, kStates>& bytes,
           double capacity)
      : experts_(experts),
        kept_(layers * experts, Kept::nothing),
        uses_(kept_.size(), 0),
        bytes_(bytes),
        capacity_(capacity) {}

  void preload(ExpertPlace e, Kept as) override {
    sound &= kept_[number(e)] == Kept::nothing && as != Kept::nothing;
    sound &= !began_;
    held_ += bytes_[static_cast<std::size_t>(as)];
    sound &= held_ <= capacity_ * (1 + 1e-9);
    kept_[number(e)] = as;
    ++preloaded;
  }
  void use(ExpertPlace e) override {
    began_ = true;
    ++uses_[number(e)];
    ++found[static_cast<std::size_t>(kept_[number(e)])];
  }
  void release(ExpertPlace e) override { sound &= --uses_[number(e)] >= 0; }
  void keep(ExpertPlace e, Kept from, Kept to) override {
    Kept& kept = kept_[number(e)];
    sound &= kept == from && from != to;
    sound &= from != Kept::full || (to != Kept::both_planes && to != Kept::exponents);
    sound &= to == Kept::nothing || uses_[number(e)] > 0;  // nothing is kept that was not just loaded
    held_ += bytes_[static_cast<std::size_t>(to)] - bytes_[static_cast<std::size_t>(from)];
    sound &= held_ <= capacity_ * (1 + 1e-9);  // at every step: who leaves goes before who comes
    kept = to;
  }
  bool all_released() const {
    return std::all_of(uses_.begin(), uses_.end(), [](int n) { return n == 0; });
  }

  std::array<std::uint64_t, kStates> found{};  // at each use
  bool sound = true;
  std::uint64_t preloaded = 0;

 private:
  std::size_t number(ExpertPlace e) const { return std::size_t{e.layer} * experts_ + e.expert; }
  std::uint32_t experts_;
  std::vector<Kept> kept_;
  std::vector<int> uses_;
  std::array<double, kStates> bytes_;
  double capacity_, held_ = 0;
  bool began_ = false;  // to serve
};

}  // namespace

TEST_CASE("mirror: it is told what the cache holds, when that changes, and changes no result") {
  std::uint64_t compared = 0, kept = 0, preloaded = 0;
  for (std::uint64_t seed = 0; seed < kRandomRuns; ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    const ExpertCosts costs = run.costs();
    std::unique_ptr<Follower> follower;
    RunOptions options;
    options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan& memory) -> Platform {
      follower = std::make_unique<Follower>(run.trace.layers(), run.trace.experts(), costs.bytes,
                                            memory.expert_cache.value());
      return {engine::make_fast_engine(), follower.get()};
    };
    const RunResult with = run_system(run.scenario, run.system(), run.trace, options);
    const RunResult without = run.run();
    CHECK(follower->sound);
    CHECK(follower->all_released());
    if (!find_cache_policy(run.system().cache.name)->preloads) CHECK(follower->preloaded == 0);
    preloaded += follower->preloaded;
    CHECK(with.metrics.wall_s == without.metrics.wall_s);
    CHECK(with.metrics.hits == without.metrics.hits);
    CHECK(with.operations == without.operations);
    // A fetch is a use as well, and so is an expert that is loaded only because the whole layer is.
    if (run.system().prefetch.name != "none" || run.system().fetch_whole_layer) continue;
    CHECK(follower->found == with.metrics.hits);
    ++compared;
    kept += with.metrics.hits[index(State::F)] + with.metrics.hits[index(State::C)];
  }
  CHECK(compared > kRandomRuns / 16);
  CHECK(kept > 100);
  CHECK(preloaded > 50);
}

}  // namespace moelab::expert_mirror_test
