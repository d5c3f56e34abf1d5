// sglang: steps against the rules implemented once more in SGLang's own terms, and a few by hand.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "models/input_error.hpp"
#include "policies/batching/sglang_requests.hpp"
#include "tests/policies/sglang_streams.hpp"
#include "tests/random_runs.hpp"

namespace moelab::sglang_test {

using namespace moelab::sglang_streams;

TEST_CASE("sglang forms the steps of the rules implemented with lists of tokens") {
  std::mt19937_64 random(83);
  Seen seen;
  std::uint64_t requests = 0;
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    INFO("stream " << i);
    const Stream stream = random_stream(random);
    requests += stream.requests.size();
    compare(random, stream, seen);
  }
  CHECK(seen.finished == requests);
  CHECK(seen.steps > moelab::test::random_runs(50000));
  CHECK(seen.retracted > moelab::test::random_runs(1000));
  CHECK(seen.restarted == seen.retracted);
  CHECK(seen.chunks > moelab::test::random_runs(3000));
  CHECK(seen.mixed > moelab::test::random_runs(1000));
  CHECK(seen.found > moelab::test::random_runs(10000));
  CHECK(seen.found_in_use > moelab::test::random_runs(1000));
  CHECK(seen.doubles > moelab::test::random_runs(1000));
}

namespace {

/// Counts how often a request is put somewhere.
struct MovedRequest : SglangRequest {
  static inline std::uint64_t moves = 0;
  MovedRequest() = default;
  MovedRequest(const MovedRequest& other) : SglangRequest(other) { ++moves; }
  MovedRequest& operator=(const MovedRequest& other) {
    SglangRequest::operator=(other);
    ++moves;
    return *this;
  }
};

}  // namespace

TEST_CASE("sglang: those that wait are ordered by length in n log n moves, as by a stable sort") {
  std::mt19937_64 random(3);
  for (const bool rising : {false, true}) {
    std::vector<MovedRequest> waiting(20000);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      waiting[i].turn = i;
      waiting[i].ask.id = static_cast<std::uint32_t>(i);
      waiting[i].ask.output_tokens = static_cast<std::uint32_t>(rising ? i / 4 : random() % 500);
    }
    std::vector<MovedRequest> due = waiting;
    std::ranges::stable_sort(due, [](const MovedRequest& a, const MovedRequest& b) {
      return a.ask.output_tokens > b.ask.output_tokens;
    });
    MovedRequest::moves = 0;
    longest_first(waiting.begin(), waiting.end());
    const auto n = static_cast<double>(waiting.size());
    CHECK(static_cast<double>(MovedRequest::moves) < 4 * n * std::log2(n));  // by insertion n^2 / 4 and more
    CHECK(std::ranges::equal(
        waiting, due, {}, [](const MovedRequest& q) { return q.ask.id; },
        [](const MovedRequest& q) { return q.ask.id; }));
  }
}

namespace {

constexpr const char* kOneAfterTheOther = "disable_overlap_schedule";

}  // namespace

TEST_CASE("sglang runs prompts first, decodes wait") {
  const auto policy = make(kName, shape_of(4, 100), {{kOneAfterTheOther, 1}});
  policy->arrive({1, 4, 3});
  CHECK(next(*policy) == "1p4@0*, admitted 1");
  policy->arrive({2, 5, 2});
  CHECK(next(*policy) == "2p5@0*, admitted 2");
  CHECK(next(*policy) == "1d1@4* 2d1@5*, finished 2");
  CHECK(next(*policy) == "1d1@5*, finished 1");
  CHECK(next(*policy) == "-");
}

TEST_CASE("sglang cuts a prompt at chunked_prefill_size, whose rest goes before others") {
  PolicyParameters parameters{{kOneAfterTheOther, 1}, {"chunked_prefill_size", 10}};
  const auto cut = make(kName, shape_of(1, 100), parameters);
  cut->arrive({1, 25, 2});
  cut->arrive({2, 4, 1});
  CHECK(next(*cut) == "1p10@0, admitted 1");
  CHECK(next(*cut) == "1p10@10");
  CHECK(next(*cut) == "1p5@20* 2p4@0*, admitted 2, finished 2");
  CHECK(next(*cut) == "1d1@25*, finished 1");
  parameters["chunked_prefill_size"] = 0;
  const auto whole = make(kName, shape_of(1, 100), parameters);
  whole->arrive({1, 25, 2});
  CHECK(next(*whole) == "1p25@0*, admitted 1");
  // All that it may have to compute again, 99 tokens and the first 1 of 2 that it makes.
  CHECK(whole->misfit({2, 99, 2}).empty());
  CHECK(whole->misfit({2, 100, 1}).empty());
  CHECK(make(kName, shape_of(1, 200), parameters)->misfit({2, 100, 2}) ==
        "needs a step of 101 tokens to compute all that it has again, uncut, a step has at most 100");
}

TEST_CASE("sglang with mixed chunks runs decodes beside prompts") {
  const auto policy = make(kName, shape_of(4, 100), {{kOneAfterTheOther, 1}, {"enable_mixed_chunk", 1}});
  policy->arrive({1, 4, 3});
  CHECK(next(*policy) == "1p4@0*, admitted 1");
  policy->arrive({2, 5, 2});
  CHECK(next(*policy) == "2p5@0* 1d1@4*, admitted 2");
  CHECK(next(*policy) == "2d1@5* 1d1@5*, finished 2+1");
}

TEST_CASE("sglang admits while a request's tokens fit beside 0.7 of those that others may still make") {
  // 100 tokens. Request 1 holds 10 and may make 39 more: 90 - 0.7 * 39 = 62.7.
  for (const std::uint32_t output : {50u, 51u})
    for (const double conservativeness : {0.0, 1.0}) {
      const auto policy = make(kName, shape_of(1, 100),
                               {{kOneAfterTheOther, 1}, {"schedule_conservativeness", conservativeness}});
      policy->arrive({1, 10, 40});
      CHECK(next(*policy) == "1p10@0*, admitted 1");
      policy->arrive({2, 12, output});
      const bool joins = conservativeness == 0 || output == 50;
      CHECK(next(*policy) == (joins ? "2p12@0*, admitted 2" : "1d1@10*"));
    }
}

TEST_CASE("sglang retracts who made least, of these the longest prompt, which then waits behind all others") {
  // 12 tokens, nothing expected. 4 + 3 prompt tokens, and 2 a step: with 11 there is no room for 2 more.
  const auto policy =
      make(kName, shape_of(1, 12), {{kOneAfterTheOther, 1}, {"schedule_conservativeness", 0}});
  policy->arrive({1, 4, 6});
  CHECK(next(*policy) == "1p4@0*, admitted 1");
  policy->arrive({2, 3, 4});
  CHECK(next(*policy) == "2p3@0*, admitted 2");
  CHECK(next(*policy) == "1d1@4* 2d1@3*");
  CHECK(next(*policy) == "1d1@5* 2d1@4*");
  policy->arrive({3, 2, 1});  // finds no room, and is before request 1 from now on
  CHECK(next(*policy) == "2d1@5*, dropped 1, finished 2");
  CHECK(next(*policy) == "3p2@0*, admitted 3, finished 3");
  // Its prompt is in the cache still, and what it made is not: request 3 took the 2 blocks in which nothing
  // was.
  CHECK(next(*policy) == "1p3@4*, restarted 1, again 2");
}

TEST_CASE("sglang orders those that wait: lpm, the longest found beginning; lof, the most tokens to make") {
  const std::array<TokenPart, 1> parts{{{7, 8}}};
  BatchingShape shape = shape_of(4, 1000);
  shape.max_requests = 1;
  const auto first_of = [&](double order, std::uint32_t others) {
    const auto policy = make(kName, shape, {{kOneAfterTheOther, 1}, {"schedule_policy", order}});
    policy->arrive({.id = 0, .prompt_tokens = 9, .output_tokens = 1, .parts = parts});
    next(*policy);
    for (std::uint32_t i = 0; i < others; ++i) policy->arrive({.id = 1000 + i, .prompt_tokens = 9});
    policy->arrive({.id = 1, .prompt_tokens = 10, .parts = parts});
    policy->arrive({.id = 2, .prompt_tokens = 3, .output_tokens = 5});
    return next(*policy);
  };
  CHECK(first_of(0, 1) == "1000p9@0*, admitted 1000, finished 1000");
  CHECK(first_of(1, 1) == "1p2@8*, admitted 1, finished 1");
  CHECK(first_of(2, 1) == "2p3@0*, admitted 2");
  CHECK(first_of(1, 126) == "1p2@8*, admitted 1, finished 1");
  CHECK(first_of(1, 127) == "1000p9@0*, admitted 1000, finished 1000");  // 129 wait
}

TEST_CASE("sglang: lpm puts off who shares 32 tokens with one that waits before it") {
  for (const std::uint32_t shared : {31u, 32u}) {
    const std::array<TokenPart, 1> parts{{{7, shared}}};
    const auto policy = make(kName, shape_of(1, 1000), {{"schedule_policy", 1}});
    policy->arrive({.id = 1, .prompt_tokens = 40, .parts = parts});
    policy->arrive({.id = 2, .prompt_tokens = 40, .parts = parts});
    policy->arrive({.id = 3, .prompt_tokens = 5});
    const std::string step = next(*policy);
    CHECK(step.substr(0, step.find(", admitted")) ==
          (shared == 31 ? "1p40@0* 2p40@0* 3p5@0*" : "1p40@0* 3p5@0* 2p40@0*"));
  }
}

TEST_CASE("sglang finds what has run, not what runs beside it, and holds it once from then on") {
  const std::array<TokenPart, 1> parts{{{7, 8}}};
  const auto policy = make(kName, shape_of(4, 100), {{kOneAfterTheOther, 1}});
  for (std::uint32_t id = 1; id <= 3; ++id)
    policy->arrive({.id = id, .prompt_tokens = 10, .output_tokens = 3, .parts = parts});
  CHECK(next(*policy) == "1p10@0* 2p10@0* 3p10@0*, admitted 1+2+3");
  CHECK(policy->use().gpu_blocks == 5);  // 2 of all, and 1 of each
  policy->arrive({.id = 4, .prompt_tokens = 10, .output_tokens = 3, .parts = parts});
  CHECK(next(*policy) == "4p2@8*, admitted 4");
  CHECK(policy->use().gpu_blocks == 6);
}

TEST_CASE("sglang: the next turn of a conversation finds the answer before it too") {
  // 6 tokens and an answer of 5, of which the last one is never run: of 10 tokens blocks of 2 hold all.
  const std::array<TokenPart, 1> first{{{1, 11}}};
  const std::array<TokenPart, 2> second{{{1, 11}, {2, 14}}};
  for (const double off : {0.0, 1.0}) {
    const auto policy = make(kName, shape_of(2, 50), {{"disable_radix_cache", off}});
    policy->arrive({.id = 1, .prompt_tokens = 6, .output_tokens = 5, .parts = first});
    for (int i = 0; i < 5; ++i) next(*policy);
    CHECK(next(*policy) == "-");
    policy->arrive({.id = 2, .prompt_tokens = 14, .output_tokens = 1, .parts = second});
    CHECK(next(*policy) ==
          (off == 0 ? "2p4@10*, admitted 2, finished 2" : "2p14@0*, admitted 2, finished 2"));
  }
}

TEST_CASE("sglang forms a step while the one before it runs") {
  const auto policy = make(kName, shape_of(16, 100));
  policy->arrive({1, 4, 3});
  CHECK(next(*policy) == "1p4@0*, admitted 1");
  policy->arrive({2, 4, 1});
  CHECK(next(*policy) == "1d1@4*");
  CHECK(next(*policy) == "2p4@0*, admitted 2, finished 2");
}

TEST_CASE(
    "sglang: when the cache shrinks, a request that came prefilled takes the place of one that has none") {
  // In 10 blocks of a token request 1 has 5 tokens; in 3 it has no room, and request 2, of 3 tokens, has.
  const auto policy = make(kName, shape_of(1, 10), {{kOneAfterTheOther, 1}});
  policy->arrive({.id = 1, .prompt_tokens = 4, .output_tokens = 3, .prefilled = true});
  CHECK(next(*policy) == "1d1@4*, admitted 1");
  policy->arrive({.id = 2, .prompt_tokens = 2, .output_tokens = 1, .prefilled = true});
  policy->resize(3);
  CHECK(next(*policy) == "2d1@2*, admitted 2, dropped 1, finished 2");
}

TEST_CASE("sglang: parameters that it does not have are named") {
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"schedule_policy", 3}}), InputError);
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"chunked_prefill_size", 2.5}}), InputError);
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"schedule_conservativeness", -1}}), InputError);
}

}  // namespace moelab::sglang_test
