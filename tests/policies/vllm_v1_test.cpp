// vllm-v1: steps against the rules implemented once more with real pages, and a few by hand.
#include <catch2/catch.hpp>
#include <random>

#include "models/input_error.hpp"
#include "policies/batching/free_blocks.hpp"
#include "tests/policies/vllm_v1_streams.hpp"
#include "tests/random_runs.hpp"

namespace moelab::vllm_v1_test {

using namespace moelab::vllm_v1_streams;

TEST_CASE("vllm-v1 forms the steps of the rules implemented with real pages") {
  std::mt19937_64 random(51);
  Seen seen;
  std::uint64_t requests = 0;
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    const Stream stream = random_stream(random);
    requests += stream.requests.size();
    compare(random, stream, seen);
  }
  CHECK(seen.finished == requests);
  CHECK(seen.steps > moelab::test::random_runs(50000));
  CHECK(seen.preempted > moelab::test::random_runs(5000));
  CHECK(seen.restarted == seen.preempted);
  CHECK(seen.chunks > moelab::test::random_runs(3000));
  CHECK(seen.found > moelab::test::random_runs(1000));
  CHECK(seen.taken_back > moelab::test::random_runs(50));
}

TEST_CASE("vllm-v1 fills one budget: running requests first, then as much of a prompt as is left") {
  BatchingShape shape = shape_of(4, 100);
  shape.max_tokens = 10;
  const auto policy = make(kName, shape, {{"async", 0}});
  policy->arrive({1, 4, 3});
  policy->arrive({2, 13, 2});
  CHECK(next(*policy) == "1p4@0* 2p6@0, admitted 1+2");
  policy->arrive({3, 5, 1});
  CHECK(next(*policy) == "1d1@4* 2p7@6* 3p2@0, admitted 3");
  CHECK(next(*policy) == "1d1@5* 2d1@13* 3p3@2*, finished 1+2+3");
  CHECK(next(*policy) == "-");
}

TEST_CASE("vllm-v1 preempts the last admitted, which finds the beginning of what it lost again") {
  // Blocks of 2 tokens, 6 of them. After the prompts 2 + 2 are used, and each request grows by a block every
  // second step: with 3 + 3 the cache is full when both have 6 tokens, and then 1 needs one more.
  BatchingShape shape = shape_of(2, 6);
  const std::string again = [&] {
    const auto policy = make(kName, shape, {{"async", 0}});
    policy->arrive({1, 4, 5});
    policy->arrive({2, 4, 5});
    CHECK(next(*policy) == "1p4@0* 2p4@0*, admitted 1+2");
    CHECK(next(*policy) == "1d1@4* 2d1@4*");
    CHECK(next(*policy) == "1d1@5* 2d1@5*");
    CHECK(next(*policy) == "1d1@6*, dropped 2");
    CHECK(next(*policy) == "1d1@7*, finished 1");
    return next(*policy);
  }();
  // Request 1 took the one of 2's three blocks that held its tokens 4 and 5; it has 7 tokens to its next.
  CHECK(again == "2p3@4*, restarted 2, again 2");
  const auto none = make(kName, shape, {{"async", 0}, {"prefix_cache", 0}});
  none->arrive({1, 4, 5});
  none->arrive({2, 4, 5});
  for (int i = 0; i < 5; ++i) next(*none);
  CHECK(next(*none) == "2p7@0*, restarted 2, again 6");
}

TEST_CASE("vllm-v1 learns a step late of what comes and ends while a step runs") {
  BatchingShape shape = shape_of(16, 100);
  shape.max_requests = 1;
  const auto policy = make(kName, shape);
  policy->arrive({1, 4, 2});
  CHECK(next(*policy) == "1p4@0*, admitted 1");  // nothing ran before: it is seen at once
  policy->arrive({2, 4, 1});
  policy->arrive({3, 4, 1});
  CHECK(next(*policy) == "1d1@4*, finished 1");
  // Whose place is taken until the scheduler knows; with nothing else to run it looks again.
  CHECK(next(*policy) == "2p4@0*, admitted 2, finished 2");
  shape.max_requests = 2;
  const auto two = make(kName, shape);
  two->arrive({1, 4, 3});
  CHECK(next(*two) == "1p4@0*, admitted 1");
  two->arrive({2, 4, 1});
  CHECK(next(*two) == "1d1@4*");  // formed while the step before ran
  CHECK(next(*two) == "1d1@5* 2p4@0*, admitted 2, finished 1+2");
}

TEST_CASE("vllm-v1 joins a request where all of its tokens have room, or those of its first chunk") {
  BatchingShape shape = shape_of(1, 10);
  shape.max_tokens = 8;
  for (const double reserve : {0.0, 1.0}) {
    const auto policy = make(kName, shape, {{"async", 0}, {"reserve", reserve}});
    policy->arrive({1, 3, 2});
    policy->arrive({2, 8, 1});
    const std::string both = "1p3@0* 2p5@0, admitted 1+2", alone = "1p3@0*, admitted 1";
    CHECK(next(*policy) == (reserve == 0 ? both : alone));
  }
}

TEST_CASE("vllm-v1 by priority admits the lowest first, and preempts the highest, who came last of these") {
  for (const double scheduling : {0.0, 1.0}) {
    BatchingShape shape = shape_of(16, 100);
    shape.max_requests = 1;
    const auto policy = make(kName, shape, {{"async", 0}, {"scheduling", scheduling}});
    for (const auto& [id, priority] :
         std::vector<std::pair<std::uint32_t, int>>{{1, 2}, {2, 1}, {3, -1}, {4, 1}})
      policy->arrive({.id = id, .prompt_tokens = 3, .output_tokens = 1, .priority = priority});
    std::string order;
    for (BatchStep step; policy->form(step); policy->complete()) order += std::to_string(step.admitted.at(0));
    CHECK(order == (scheduling == 0 ? "1234" : "3241"));
  }
  // 6 blocks of 2 tokens. When request 2 needs a fourth one, request 1 is in the step, has 3 and gives way:
  // its row is budget again.
  const auto policy = make(kName, shape_of(2, 6), {{"async", 0}, {"scheduling", 1}, {"reserve", 0}});
  policy->arrive({.id = 1, .prompt_tokens = 3, .output_tokens = 6, .priority = 1});
  CHECK(next(*policy) == "1p3@0*, admitted 1");
  policy->arrive({.id = 2, .prompt_tokens = 5, .output_tokens = 4, .priority = 0});
  CHECK(next(*policy) == "1d1@3* 2p5@0*, admitted 2");
  CHECK(next(*policy) == "1d1@4* 2d1@5*");
  CHECK(next(*policy) == "2d1@6*, dropped 1");
  CHECK(next(*policy) == "2d1@7*, finished 2");
  CHECK(next(*policy) == "1p2@4*, restarted 1, again 1");
}

TEST_CASE("vllm-v1: parameters that it does not have are named") {
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"async", 0.5}}), InputError);
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"reserve", 2}}), InputError);
  CHECK_THROWS_AS(make(kName, shape_of(16, 10), {{"prefix_cache", -1}}), InputError);
}

TEST_CASE("free blocks are taken in the order in which they became free, a request's last ones first") {
  FreeBlocks free;
  free.reset(3);
  free.give(7, 4);
  free.give(FreeBlocks::kNoOwner, 2);
  CHECK(free.count() == 9);
  free.take(3);
  CHECK(free.kept(7) == 4);
  free.take(1);
  CHECK(free.kept(7) == 3);
  free.claim(7, 2);
  CHECK(free.kept(7) == 0);
  CHECK(free.count() == 3);
  free.give(7, 1);
  free.take(3);  // one that it left, and two of none
  CHECK(free.kept(7) == 1);
}

}  // namespace moelab::vllm_v1_test
