// Batching with drafts: steps worked by hand, one for each rule; and that what is refused changes which steps
// run a request's tokens, never how many there are.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "models/input_error.hpp"
#include "policies/batching/admitted_requests.hpp"
#include "policies/batching/rank_batching.hpp"
#include "tests/policies/batching_steps.hpp"
#include "tests/random_runs.hpp"

namespace moelab::speculative_batching_test {

using namespace moelab::batching_steps;

namespace {

BatchingShape drafting(std::uint32_t drafts, std::uint32_t block_tokens = 4, std::uint64_t gpu_blocks = 40) {
  BatchingShape shape = shape_of(block_tokens, gpu_blocks);
  shape.drafts = drafts;
  return shape;
}

/// Forms the next step and runs it; `refused` by share.
std::string run(BatchingPolicy& policy, const std::vector<std::uint32_t>& refused = {}) {
  BatchStep step;
  if (!policy.form(step)) return "-";
  if (!refused.empty()) {
    REQUIRE(refused.size() == step.shares.size());
    policy.refuse(refused);
  }
  policy.complete();
  return text(step);
}

}  // namespace

TEST_CASE("drafts: a decode share runs them, and goes on where the first was refused") {
  for (const char* name : {"static", "continuous", "vllm-v1"}) {
    CAPTURE(name);
    const auto policy = make(name, drafting(3), {});
    policy->arrive({.id = 7, .prompt_tokens = 4, .output_tokens = 10});
    CHECK(run(*policy) == "7p4@0*, admitted 7");  // the first token
    CHECK(run(*policy) == "7d4@4*");              // four more: all were accepted
    CHECK(run(*policy, {2}) == "7d4@8*");         // two more: two were refused
    CHECK(run(*policy, {2}) == "7d3@10*");        // of the three that are left; one more
    CHECK(run(*policy, {1}) == "7d2@11*");        // one more
    CHECK(run(*policy) == "7d1@12*, finished 7");
    CHECK(policy->use().running == 0);
    CHECK(run(*policy) == "-");
  }
}

TEST_CASE("drafts: a request ends as soon as they are accepted") {
  for (const char* name : {"static", "continuous", "vllm-v1"}) {
    CAPTURE(name);
    const auto policy =
        make(name, drafting(5),
             name == std::string("vllm-v1") ? PolicyParameters{{"async", 0}} : PolicyParameters{});
    policy->arrive({.id = 1, .prompt_tokens = 2, .output_tokens = 4});
    CHECK(run(*policy) == "1p2@0*, admitted 1");
    CHECK(run(*policy) == "1d3@2*");  // three are left, of which it drafts two: none was refused
    CHECK(policy->use() == KvUse{});
  }
}

TEST_CASE("drafts: what a prefilled request drafts at first") {
  const auto policy = make("continuous", drafting(2));
  policy->arrive({.id = 1, .prompt_tokens = 6, .output_tokens = 3, .prefilled = true});
  CHECK(run(*policy, {2}) == "1d3@6*, admitted 1");
  CHECK(run(*policy) == "1d2@7*");
  CHECK(policy->use() == KvUse{});
}

TEST_CASE("drafts: blocks of refused tokens serve those that come in their place") {
  for (const char* name : {"static", "continuous", "vllm-v1"}) {
    CAPTURE(name);
    const auto policy = make(name, drafting(3, 2), {});
    policy->arrive({.id = 1, .prompt_tokens = 3, .output_tokens = 9});
    run(*policy);
    CHECK(run(*policy, {3}) == "1d4@3*");  // 7 tokens: 4 blocks of 2
    CHECK(policy->use().gpu_blocks == 4);
    CHECK(run(*policy, {3}) == "1d4@4*");  // 8 tokens
    CHECK(policy->use().gpu_blocks == 4);
    CHECK(run(*policy, {3}) == "1d4@5*");  // 9 tokens
    CHECK(policy->use().gpu_blocks == 5);
  }
}

TEST_CASE("drafts: they take blocks, for which the latest gives way") {
  const auto policy = make("continuous", drafting(2, 1, 10), {{"watermark", 0}});
  policy->arrive({.id = 1, .prompt_tokens = 3, .output_tokens = 6});
  policy->arrive({.id = 2, .prompt_tokens = 4, .output_tokens = 6});
  CHECK(run(*policy) == "1p3@0* 2p4@0*, admitted 1+2");  // 7 blocks of 10
  CHECK(run(*policy, {2}) == "1d3@3*, dropped 2");       // 1 needs 6, 2 would need 7
  CHECK(policy->use().gpu_blocks == 6);
}

TEST_CASE("drafts: vLLM's budget cuts them") {
  BatchingShape shape = drafting(3);
  shape.max_requests = 3;
  shape.max_tokens = 6;
  const auto policy = make("vllm-v1", shape);
  for (std::uint32_t id = 1; id <= 3; ++id) policy->arrive({id, 2, 9});
  CHECK(run(*policy) == "1p2@0* 2p2@0* 3p2@0*, admitted 1+2+3");
  CHECK(run(*policy) == "1d4@2* 2d2@2*");  // nothing is left for request 3
  for (const char* name : {"static", "continuous"})
    CHECK_THROWS_AS(make(name, shape), InputError);  // a step has no room for 3 requests of 4 rows
}

TEST_CASE("drafts: each rank hears of its own") {
  std::vector<std::unique_ptr<BatchingPolicy>> ranks;
  for (int i = 0; i < 2; ++i) ranks.push_back(make("static", drafting(2)));
  const auto policy = make_rank_batching(std::move(ranks));
  policy->arrive({.id = 1, .prompt_tokens = 2, .output_tokens = 8});
  policy->arrive({.id = 2, .prompt_tokens = 3, .output_tokens = 8});
  run(*policy);
  CHECK(run(*policy, {2, 0}) == "1d3@2* 2d3@3*");
  CHECK(run(*policy, {0, 1}) == "1d3@3* 2d3@6*");
  CHECK(run(*policy) == "1d3@6* 2d2@8*");  // 3, 2 and 2 of them have come to request 2, of 8
}

TEST_CASE("drafts: whatever is refused, every token is produced once and in order") {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  std::uint64_t refusals = 0, preempted = 0;
  for (int i = 0; i < test::random_runs(3000); ++i) {
    const auto& entry = batching_policies()[below(batching_policies().size())];
    if (!entry.speculates) continue;
    BatchingShape shape = drafting(1 + below(4), 1 + below(3), 30);
    shape.max_requests = 1 + below(4);
    const auto policy = entry.make(shape, {});
    std::map<std::uint32_t, BatchRequest> requests;
    std::map<std::uint32_t, std::uint32_t> produced;
    for (std::uint32_t id = 0; id < 6; ++id) {
      BatchRequest request{id, 1 + below(8), 1 + below(9)};
      request.prefilled = below(3) == 0;
      if (!policy->misfit(request).empty()) continue;
      policy->arrive(request);
      requests[id] = request;
    }
    BatchStep step;
    while (policy->form(step)) {
      preempted += step.dropped.size();
      std::vector<std::uint32_t> refused;
      for (const StepShare& share : step.shares) {
        const BatchRequest& request = requests.at(share.request);
        std::uint32_t& got = produced[share.request];
        const std::uint32_t drafted = share.prompt ? 0 : share.tokens - 1;
        REQUIRE(drafted <= shape.drafts);
        refused.push_back(below(drafted + 1));
        refusals += refused.back();
        if (!share.prompt) REQUIRE(share.context + 1 == given_tokens(request) + got);
        REQUIRE(share.context + share.tokens <= final_tokens(request));
        got += share.produces ? 1 + drafted - refused.back() : 0;
        REQUIRE(got <= request.output_tokens);
      }
      policy->refuse(refused);
      policy->complete();
    }
    for (const auto& [id, request] : requests) REQUIRE(produced[id] == request.output_tokens);
    REQUIRE(policy->use() == KvUse{});
  }
  CHECK(refusals > 1000);
  CHECK(preempted > 0);
}

}  // namespace moelab::speculative_batching_test
