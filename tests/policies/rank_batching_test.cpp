// Batches of several ranks: whose a request is, and that each rank does what it would do alone.
#include "policies/batching/rank_batching.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/policies/random_numbers.hpp"

namespace moelab::rank_batching_test {
namespace {

using namespace moelab::test;

std::unique_ptr<BatchingPolicy> small_policy(std::uint32_t most = 2) {
  const BatchingShape shape{{4, 20, 12, 0}, most, 64, 0};
  return find_batching_policy("continuous")->make(shape, {{"swap", 1}});
}
std::unique_ptr<BatchingPolicy> small_ranks(std::size_t count) {
  std::vector<std::unique_ptr<BatchingPolicy>> ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(small_policy());
  return make_rank_batching(std::move(ranks));
}

/// Ranks that were never joined, and whose each request is.
struct Apart {
  std::vector<std::unique_ptr<BatchingPolicy>> ranks;
  std::vector<std::uint16_t> rank_of;  // by request
  bool busy() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return !(rank->use() == KvUse{}); });
  }
  void arrive(const BatchRequest& request) {
    std::uint16_t best = 0;
    std::uint64_t least = ~std::uint64_t{0};
    for (std::uint16_t r = 0; r < ranks.size(); ++r) {
      const KvUse use = ranks[r]->use();
      const std::uint64_t score = 4 * (use.waiting + use.swapped) + use.running;
      if (score < least) {
        least = score;
        best = r;
      }
    }
    rank_of.push_back(best);
    ranks[best]->arrive(request);
  }
};

}  // namespace

TEST_CASE("rank batching: requests that come at once go around, later ones to who has least to do") {
  const auto policy = small_ranks(3);
  for (std::uint32_t id = 0; id < 6; ++id) policy->arrive({id, 3, 2});
  BatchStep step;
  REQUIRE(policy->form(step));
  REQUIRE(step.shares.size() == 6);
  for (const StepShare& share : step.shares) CHECK(share.rank == share.request % 3);
  CHECK(step.of_ranks == std::vector<BlockMoves>(3));
  CHECK(policy->use().running == 6);
}

TEST_CASE("rank batching: each rank does what it would do alone") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const std::size_t count = 2 + below(random, 3);
    const auto policy = small_ranks(count);
    Apart apart;
    for (std::size_t i = 0; i < count; ++i) apart.ranks.push_back(small_policy());
    BatchStep step;
    std::vector<BatchStep> own(count);
    for (std::uint32_t turn = 0, id = 0; turn < 60 || apart.busy(); ++turn) {
      for (std::uint64_t more = turn < 60 ? below(random, 3) : 0; more > 0; --more) {
        const BatchRequest request{id++, 1 + below(random, 12), 1 + below(random, 12)};
        policy->arrive(request);
        apart.arrive(request);
      }
      bool any = false;
      std::vector<StepShare> shares;
      BatchStep all;
      std::vector<bool> runs;
      for (std::uint16_t r = 0; r < count; ++r) {
        runs.push_back(apart.ranks[r]->form(own[r]));
        any |= runs.back();
        for (StepShare share : own[r].shares) {
          CHECK(apart.rank_of[share.request] == r);
          share.rank = r;
          shares.push_back(share);
        }
        all.rows += own[r].rows;
        all.blocks_out += own[r].blocks_out;
        all.blocks_in += own[r].blocks_in;
      }
      REQUIRE(policy->form(step) == any);
      REQUIRE(step.shares == shares);
      REQUIRE(step.rows == all.rows);
      REQUIRE(step.blocks_out == all.blocks_out);
      REQUIRE(step.blocks_in == all.blocks_in);
      std::uint64_t blocks = 0, running = 0;
      for (std::size_t r = 0; r < count; ++r) {
        REQUIRE(step.of_ranks[r] == BlockMoves{own[r].blocks_out, own[r].blocks_in});
        blocks += apart.ranks[r]->use().gpu_blocks;
        running += apart.ranks[r]->use().running;
        if (runs[r]) apart.ranks[r]->complete();
      }
      REQUIRE(policy->use().gpu_blocks == blocks);
      REQUIRE(policy->use().running == running);
      if (any) policy->complete();
    }
    CHECK(policy->use() == KvUse{});  // all were answered
  }
}

TEST_CASE("rank batching: blocks are divided evenly when there are others") {
  const auto policy = small_ranks(2);
  CHECK(policy->misfit({0, 60, 40}).find("there are 20") != std::string::npos);
  policy->resize(16);
  CHECK(policy->misfit({0, 30, 10}).find("there are 8") != std::string::npos);
}

}  // namespace moelab::rank_batching_test
