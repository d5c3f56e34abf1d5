// vllm-v1 where requests have tokens in common: steps against the rules implemented with lists of tokens, hit
// counts in closed form, and a few steps by hand.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "tests/policies/vllm_v1_streams.hpp"
#include "tests/random_runs.hpp"

namespace moelab::vllm_v1_prefix_test {

using namespace moelab::vllm_v1_streams;

namespace {

/// Requests of which most have parts, of their prompts alone or of what they generate too.
struct SharedStream {
  Stream stream;
  std::deque<std::vector<TokenPart>> parts;

  explicit SharedStream(std::mt19937_64& random) : stream(random_stream(random)) {
    const Texts texts(random);
    for (BatchRequest& request : stream.requests) {
      if (random() % 5 == 0) continue;
      const std::uint32_t most = request.prompt_tokens + (random() % 2 == 0 ? request.output_tokens : 0);
      request.parts = parts.emplace_back(texts.draw(random, most));
    }
  }
};

/// Tokens that a request found when it was admitted, each by its id.
std::map<std::uint32_t, std::uint32_t> found_by(BatchingPolicy& policy) {
  std::map<std::uint32_t, std::uint32_t> found;
  for (BatchStep step; policy.form(step); policy.complete())
    for (const StepShare& share : step.shares) found.emplace(share.request, share.context);
  return found;
}

}  // namespace

TEST_CASE("vllm-v1 finds the blocks that lists of tokens find") {
  std::mt19937_64 random(67);
  Seen seen;
  std::uint64_t requests = 0;
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    const SharedStream shared(random);
    requests += shared.stream.requests.size();
    compare(random, shared.stream, seen);
  }
  CHECK(seen.finished == requests);
  CHECK(seen.preempted > moelab::test::random_runs(3000));
  CHECK(seen.found > moelab::test::random_runs(10000));
  CHECK(seen.found_in_use > moelab::test::random_runs(3000));
  CHECK(seen.copies > moelab::test::random_runs(1000));
}

TEST_CASE("vllm-v1: requests that share p of n tokens find p, in whole blocks, but for their last token") {
  for (const std::uint32_t block : {1u, 16u, 24u})
    for (const std::uint32_t shared : {1u, 15u, 16u, 47u, 48u, 96u, 100u})
      for (const double async : {0.0, 1.0}) {
        constexpr std::uint32_t kPrompt = 100;
        const std::array<TokenPart, 1> parts{{{7, shared}}};
        BatchingShape shape = shape_of(block, 1000);
        shape.max_tokens = 1000;
        const auto policy = make(kName, shape, {{"async", async}});
        for (std::uint32_t id = 0; id < 20; ++id)
          policy->arrive({.id = id, .prompt_tokens = kPrompt, .output_tokens = 3, .parts = parts});
        const auto found = found_by(*policy);
        INFO(block << " tokens a block, " << shared << " shared");
        for (const auto& [id, tokens] : found)
          CHECK(tokens == (id == 0 ? 0 : std::min(shared, kPrompt - 1) / block * block));
        CHECK(found.size() == 20);
        CHECK(policy->use() == KvUse{});
      }
}

TEST_CASE("vllm-v1 holds a block of several requests once, until the last of them has left") {
  // Blocks of 4 tokens. Request 2 has the first 8 of request 1's 10 tokens, and 3 of its own.
  const std::array<TokenPart, 1> parts{{{7, 8}}};
  const auto policy = make(kName, shape_of(4, 5), {{"async", 0}});
  policy->arrive({.id = 1, .prompt_tokens = 10, .output_tokens = 2, .parts = parts});
  policy->arrive({.id = 2, .prompt_tokens = 11, .output_tokens = 4, .parts = parts});
  CHECK(next(*policy) == "1p10@0* 2p3@8*, admitted 1+2");
  CHECK(policy->use().gpu_blocks == 4);  // 2 of both, and each 1
  CHECK(next(*policy) == "1d1@10* 2d1@11*, finished 1");
  CHECK(policy->use().gpu_blocks == 3);
  CHECK(next(*policy) == "2d1@12*");
  CHECK(next(*policy) == "2d1@13*, finished 2");
  CHECK(policy->use().gpu_blocks == 0);
  // All is free, and still there: nothing took the first two blocks.
  policy->arrive({.id = 3, .prompt_tokens = 9, .output_tokens = 1, .parts = parts});
  CHECK(next(*policy) == "3p1@8*, admitted 3, finished 3");
}

TEST_CASE("vllm-v1: a request joins where blocks that others hold leave room for the rest") {
  // 5 blocks of 4 tokens, 3 of them in use by request 1. Request 2 needs 4, two of which 1 holds.
  const std::array<TokenPart, 1> parts{{{7, 8}}};
  for (const double prefix_cache : {0.0, 1.0}) {
    const auto policy = make(kName, shape_of(4, 5), {{"async", 0}, {"prefix_cache", prefix_cache}});
    policy->arrive({.id = 1, .prompt_tokens = 10, .output_tokens = 1, .parts = parts});
    policy->arrive({.id = 2, .prompt_tokens = 16, .output_tokens = 1, .parts = parts});
    CHECK(next(*policy) == (prefix_cache == 0 ? "1p10@0*, admitted 1, finished 1"
                                              : "1p10@0* 2p8@8*, admitted 1+2, finished 1+2"));
  }
}

TEST_CASE("vllm-v1: the next turn of a conversation finds the answer before it too") {
  // Turn 1: 6 tokens and an answer of 5, of which the last one is never run; turn 2 goes on with 3 more. Of
  // 10 tokens in the cache blocks of 2 hold all.
  const std::array<TokenPart, 1> first{{{1, 11}}};
  const std::array<TokenPart, 2> second{{{1, 11}, {2, 14}}};
  for (const double async : {0.0, 1.0}) {
    const auto policy = make(kName, shape_of(2, 50), {{"async", async}});
    policy->arrive({.id = 1, .prompt_tokens = 6, .output_tokens = 5, .parts = first});
    found_by(*policy);
    policy->arrive({.id = 2, .prompt_tokens = 14, .output_tokens = 1, .parts = second});
    CHECK(next(*policy) == "2p4@10*, admitted 2, finished 2");
  }
}

TEST_CASE("vllm-v1: requests with states, prefilled ones and others without the cache find nothing") {
  const std::array<TokenPart, 1> parts{{{7, 8}}};
  const auto second = [&](const BatchingShape& shape, double prefix_cache, bool prefilled) {
    const auto policy = make(kName, shape, {{"prefix_cache", prefix_cache}});
    for (std::uint32_t id = 0; id < 2; ++id)
      policy->arrive(
          {.id = id, .prompt_tokens = 9, .output_tokens = 1, .prefilled = prefilled, .parts = parts});
    return found_by(*policy).at(1);
  };
  BatchingShape with_states = shape_of(4, 50);
  with_states.kv.state_blocks = 1;
  BatchingShape with_windows = with_states;
  with_states.kv.shares_beginnings = false;
  CHECK(second(shape_of(4, 50), 1, false) == 8);
  CHECK(second(shape_of(4, 50), 0, false) == 0);
  CHECK(second(with_states, 1, false) == 0);
  CHECK(second(with_windows, 1, false) == 8);
  CHECK(second(shape_of(4, 50), 1, true) == 9);  // its own prompt, that came with it
}

}  // namespace moelab::vllm_v1_prefix_test
