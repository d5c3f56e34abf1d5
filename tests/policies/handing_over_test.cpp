// Disaggregated prefill as batching policies have it: blocks that are kept for others to fetch, and blocks
// that are taken for what is to come.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "policies/batching/batching.hpp"
#include "tests/random_runs.hpp"

namespace moelab::handing_over_test {

using namespace moelab::test;

namespace {

std::unique_ptr<BatchingPolicy> make(const std::string& name, const BatchingShape& shape) {
  PolicyParameters parameters;
  if (name == "continuous") parameters = {{"chunked", 1}, {"watermark", 0}};
  return find_batching_policy(name)->make(shape, parameters);
}

BatchingShape shape_of(std::uint64_t blocks) {
  BatchingShape shape;
  shape.kv = {.block_tokens = 4, .gpu_blocks = blocks};
  shape.max_requests = 3;
  shape.max_tokens = 16;
  return shape;
}

}  // namespace

TEST_CASE("handing over: a kept request's blocks are in use until it is released") {
  const std::string name = GENERATE("vllm-v1", "continuous");
  const auto policy = make(name, shape_of(3));
  policy->arrive({.id = 1, .prompt_tokens = 9, .output_tokens = 1, .kept = true});  // 3 blocks
  policy->arrive({.id = 2, .prompt_tokens = 1, .output_tokens = 1});
  BatchStep step;
  REQUIRE(policy->form(step));
  CHECK(step.finished == std::vector<std::uint32_t>{1});
  policy->complete();
  CHECK_FALSE(policy->form(step));
  CHECK(policy->use().gpu_blocks == 3);
  CHECK(policy->use().running == 0);
  policy->release(1);
  CHECK(policy->use().gpu_blocks == 0);
  REQUIRE(policy->form(step));
  CHECK(step.admitted == std::vector<std::uint32_t>{2});
}

TEST_CASE("handing over: a fetched request has its blocks first, and runs when what they are for is there") {
  const std::string name = GENERATE("vllm-v1", "continuous");
  const auto policy = make(name, shape_of(4));
  const BatchRequest first{.id = 1,
                           .prompt_tokens = 8,
                           .output_tokens = 2,
                           .prefilled = true,
                           .fetched = true};  // 8 + 1: 3 blocks
  BatchRequest second = first;
  second.id = 2;
  policy->arrive(first);
  policy->arrive(second);
  BatchStep step;
  CHECK_FALSE(policy->form(step));
  CHECK(step.fetches == std::vector<std::uint32_t>{1});
  CHECK(policy->use().gpu_blocks == 3);
  CHECK_FALSE(policy->form(step));
  CHECK(step.fetches.empty());
  policy->receive(1);
  for (std::uint32_t token = 0; token < 2; ++token) {
    REQUIRE(policy->form(step));
    CHECK(step.shares ==
          std::vector<StepShare>{{.request = 1, .tokens = 1, .context = 8 + token, .produces = true}});
    policy->complete();
  }
  CHECK_FALSE(policy->form(step));
  CHECK(step.fetches == std::vector<std::uint32_t>{2});
}

// Of random requests of all kinds, in a cache that is often too small for all that have come.
TEST_CASE("handing over: whatever comes, all is answered and no block is lost") {
  const std::string name = GENERATE("vllm-v1", "continuous");
  for (std::uint32_t seed = 1; seed <= random_runs(3000u); ++seed) {
    INFO(name << ", seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const BatchingShape shape = shape_of(8 + below(10));
    const auto policy = make(name, shape);
    std::map<std::uint32_t, BatchRequest> asked;
    std::set<std::uint32_t> fetching, kept, left;
    const std::uint32_t count = 1 + below(12);
    BatchStep step;
    for (std::uint32_t turn = 0; turn < 4000 && (asked.size() < count || !left.empty() || !kept.empty());
         ++turn) {
      if (asked.size() < count && below(3) == 0) {
        const auto id = static_cast<std::uint32_t>(asked.size());
        BatchRequest request{.id = id, .prompt_tokens = 1 + below(20), .output_tokens = 1 + below(10)};
        request.prefilled = request.fetched = below(2) == 0;
        request.kept = below(2) == 0;
        asked.emplace(id, request);
        left.insert(id);
        policy->arrive(request);
      }
      std::uint64_t least = 0;  // blocks that are held without running
      for (const std::uint32_t id : fetching) least += request_blocks(asked[id].prompt_tokens + 1, shape.kv);
      for (const std::uint32_t id : kept) least += request_blocks(final_tokens(asked[id]), shape.kv);
      const bool runs = policy->form(step);
      CHECK(policy->use().gpu_blocks >= least);
      CHECK(policy->use().gpu_blocks <= shape.kv.gpu_blocks);
      for (const std::uint32_t id : step.fetches) CHECK(fetching.insert(id).second);
      for (const StepShare& share : step.shares) CHECK_FALSE(fetching.contains(share.request));
      if (runs) {
        for (const std::uint32_t id : step.finished) {
          CHECK(left.erase(id) == 1);
          if (asked[id].kept) kept.insert(id);
        }
        policy->complete();
      }
      if (!fetching.empty() && below(2) == 0) {
        policy->receive(*fetching.begin());
        fetching.erase(fetching.begin());
      }
      if (!kept.empty() && below(2) == 0) {
        policy->release(*kept.begin());
        kept.erase(kept.begin());
      }
    }
    CHECK(left.empty());
    policy->form(step);
    CHECK(policy->use().gpu_blocks == 0);
    CHECK(policy->use().waiting == 0);
  }
}

}  // namespace moelab::handing_over_test
