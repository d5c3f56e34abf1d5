// Blocks of Algorithm 1 against a simulation that deals all chunks of a block afresh at every question. Times
// are small whole numbers, so that sums are exact.
#include "policies/schedule/block_simulation.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/policies/random_numbers.hpp"
#include "tests/policies/schedule_reference.hpp"
#include "tests/random_runs.hpp"

namespace moelab::block_simulation_test {

using test::below;
using test::Random;

namespace {

class NaiveBlocks {
 public:
  explicit NaiveBlocks(const LayerInstance& layer) : layer_(layer) {
    for (std::uint32_t thread = 0; thread < layer.threads; ++thread) before_.insert(0);
  }

  void begin_block() {
    before_ = deal(cached_, reads_).threads;
    start_ = io_end();
    cached_ = reads_ = sm_reads_ = 0;
  }
  void add(State state) {
    if (schedule_reference::reads_sm(state)) ++sm_reads_;
    if (schedule_reference::reads_e(state))
      reads_ += layer_.shards;
    else if (state != State::F)
      cached_ += layer_.shards;
  }
  bool adds_idle(State state) const {
    const std::uint32_t more = schedule_reference::reads_e(state) ? layer_.shards : 0;
    const std::vector<bool> waits = deal(cached_, reads_ + more).waits;
    return std::find(waits.begin() + reads_, waits.end(), true) != waits.end();
  }
  bool compute_dominant() const {
    const Threads threads = deal(cached_, reads_).threads;
    auto end = threads.begin();
    for (std::uint32_t l = 1; l <= std::min(layer_.threads, layer_.shards); ++l, ++end)
      if (*end < io_end() + l * layer_.e_read_s) return false;
    return true;
  }

 private:
  using Threads = std::multiset<double>;  // when each finishes
  struct Dealt {
    Threads threads;
    std::vector<bool> waits;  // by E-read
  };

  /// Each chunk to the thread that is free first: the cached ones, then those read, as they arrive.
  Dealt deal(std::uint32_t cached, std::uint32_t reads) const {
    Dealt dealt{before_, {}};
    const auto decompress = [&](double ready) {
      const double free = *dealt.threads.begin();
      dealt.threads.erase(dealt.threads.begin());
      dealt.threads.insert(std::max(free, ready) + layer_.decompress_s);
      return free < ready;
    };
    for (std::uint32_t i = 0; i < cached; ++i) decompress(0);
    for (std::uint32_t i = 1; i <= reads; ++i)
      dealt.waits.push_back(decompress(start_ + i * layer_.e_read_s));
    return dealt;
  }
  double io_end() const { return start_ + reads_ * layer_.e_read_s + sm_reads_ * layer_.sm_read_s; }

  const LayerInstance& layer_;
  Threads before_;
  double start_ = 0;
  std::uint32_t cached_ = 0, reads_ = 0, sm_reads_ = 0;
};

LayerInstance random_times(Random& random) {
  LayerInstance layer;
  layer.threads = 1 + below(random, 4);
  layer.shards = below(random, 5);
  layer.sm_read_s = below(random, 6);
  layer.e_read_s = below(random, 6);
  layer.decompress_s = below(random, 12);
  return layer;
}

}  // namespace

TEST_CASE("schedule: blocks are what dealing their chunks afresh says, whenever asked") {
  Random random(51);
  std::uint64_t idle = 0, dominant = 0, asked = 0;
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    const LayerInstance layer = random_times(random);
    BlockSimulation blocks;
    blocks.begin(layer);
    NaiveBlocks naive(layer);
    // Rarely asked in some runs, so that many tasks are added between two questions.
    const std::uint32_t seldom = 1 + below(random, 4), new_block = 2 + below(random, 8);
    for (int step = 0; step < 25; ++step) {
      if (below(random, new_block) == 0) {
        blocks.begin_block();
        naive.begin_block();
      }
      const LayerExpert expert{.state = kAllStates[below(random, kAllStates.size())]};
      if (below(random, seldom) == 0) {
        const bool expected = naive.adds_idle(expert.state);
        REQUIRE(blocks.adds_idle(expert) == expected);
        idle += expected ? 1 : 0;
      }
      blocks.add(expert);
      naive.add(expert.state);
      if (below(random, seldom) == 0) {
        const bool expected = naive.compute_dominant();
        REQUIRE(blocks.compute_dominant() == expected);
        dominant += expected ? 1 : 0;
        ++asked;
      }
    }
  }
  CHECK(asked > moelab::test::random_runs(20000));  // of every answer many
  CHECK(idle > moelab::test::random_runs(2000));
  CHECK(dominant > moelab::test::random_runs(5000));
  CHECK(asked - dominant > moelab::test::random_runs(5000));
}

}  // namespace moelab::block_simulation_test
