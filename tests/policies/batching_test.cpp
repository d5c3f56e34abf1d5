// Batching: steps worked by hand, one for each rule; and what is refused.
#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "models/input_error.hpp"
#include "tests/policies/batching_steps.hpp"
#include "tests/random_runs.hpp"

namespace moelab::batching_test {

using namespace moelab::batching_steps;

TEST_CASE("continuous batching: a request by itself, block by block") {
  const auto policy = make("continuous", shape_of(4, 2));
  BatchStep step;
  CHECK_FALSE(policy->form(step));
  policy->arrive({.id = 7, .prompt_tokens = 4, .output_tokens = 3});
  CHECK(policy->use() == KvUse{.waiting = 1});
  REQUIRE(policy->form(step));
  CHECK(text(step) == "7p4@0*, admitted 7");
  CHECK(step.rows == 4);
  CHECK(policy->use() == KvUse{.gpu_blocks = 1, .running = 1});
  policy->complete();
  CHECK(policy->use() == KvUse{.gpu_blocks = 1, .running = 1});
  REQUIRE(policy->form(step));  // token 5 needs the second block
  CHECK(text(step) == "7d1@4*");
  CHECK(policy->use() == KvUse{.gpu_blocks = 2, .running = 1});
  policy->complete();
  CHECK(next(*policy) == "7d1@5*, finished 7");  // 6 tokens: the third one produced is never run
  CHECK(policy->use() == KvUse{});
  CHECK(next(*policy) == "-");
}

TEST_CASE("continuous batching: the watermark keeps blocks free, but not from the only request") {
  for (const bool waits : {false, true}) {  // two prompts of 4 blocks: 2 of 10 are left
    const auto policy = make("continuous", shape_of(4, 10), {{"watermark", waits ? 0.3 : 0.2}});
    policy->arrive({.id = 1, .prompt_tokens = 16, .output_tokens = 2});
    policy->arrive({.id = 2, .prompt_tokens = 16, .output_tokens = 2});
    CHECK(next(*policy) == (waits ? "1p16@0*, admitted 1" : "1p16@0* 2p16@0*, admitted 1+2"));
  }
  const auto policy = make("continuous", shape_of(4, 10), {{"watermark", 0.5}});
  policy->arrive({.id = 1, .prompt_tokens = 40, .output_tokens = 1});  // all 10 blocks
  CHECK(next(*policy) == "1p40@0*, admitted 1, finished 1");
}

TEST_CASE("continuous batching: a step has so many requests and so many tokens") {
  BatchingShape shape = shape_of(4, 100);
  shape.max_requests = 2;
  shape.max_tokens = 10;
  auto policy = make("continuous", shape);
  for (std::uint32_t id = 1; id <= 3; ++id) policy->arrive({id, 3, 2});
  CHECK(next(*policy) == "1p3@0* 2p3@0*, admitted 1+2");
  CHECK(next(*policy) == "1d1@3* 2d1@3*, finished 1+2");
  CHECK(next(*policy) == "3p3@0*, admitted 3");
  policy = make("continuous", shape);
  policy->arrive({1, 6, 2});
  policy->arrive({2, 5, 2});  // 11 tokens
  CHECK(next(*policy) == "1p6@0*, admitted 1");
  CHECK(next(*policy) == "2p5@0*, admitted 2");  // prompts go before decodes
  CHECK(next(*policy) == "1d1@6* 2d1@5*, finished 1+2");
}

TEST_CASE("continuous batching: the latest is dropped and runs again") {
  const auto policy = make("continuous", shape_of(2, 4), {{"watermark", 0}});
  policy->arrive({1, 3, 4});
  policy->arrive({2, 4, 2});
  CHECK(next(*policy) == "1p3@0* 2p4@0*, admitted 1+2");  // 2 + 2 blocks
  CHECK(next(*policy) == "1d1@3*, dropped 2");            // token 5 of 2 needs a third block
  CHECK(policy->use() == KvUse{.gpu_blocks = 2, .running = 1, .waiting = 1});
  policy->arrive({3, 1, 1});         // would fit, but 2 came first
  CHECK(next(*policy) == "1d1@4*");  // 3 blocks; 2 needs 3 as well
  CHECK(next(*policy) == "1d1@5*, finished 1");
  CHECK(next(*policy) == "2p5@0* 3p1@0*, admitted 3, restarted 2, finished 2+3, again 4");
  CHECK(next(*policy) == "-");
}

TEST_CASE("continuous batching: the latest is swapped, or dropped where the host is full") {
  for (const bool room : {true, false}) {
    const auto policy = make("continuous", shape_of(2, 4, room ? 2 : 1), {{"watermark", 0}, {"swap", 1}});
    policy->arrive({1, 3, 4});
    policy->arrive({2, 4, 2});
    CHECK(next(*policy) == "1p3@0* 2p4@0*, admitted 1+2");
    CHECK(next(*policy) == (room ? "1d1@3*, swapped 2, out 2" : "1d1@3*, dropped 2"));
    CHECK(policy->use().host_blocks == (room ? 2 : 0));
    CHECK(policy->use().swapped == (room ? 1 : 0));
    CHECK(next(*policy) == "1d1@4*");
    CHECK(next(*policy) == "1d1@5*, finished 1");
    CHECK(next(*policy) ==
          (room ? "2d1@4*, resumed 2, finished 2, in 2" : "2p5@0*, restarted 2, finished 2, again 4"));
    CHECK(policy->use() == KvUse{});
  }
}

TEST_CASE("continuous batching: earlier requests preempt later ones, and come back before new ones") {
  const auto policy = make("continuous", shape_of(2, 6, 8), {{"watermark", 0}, {"swap", 1}});
  for (std::uint32_t id = 1; id <= 3; ++id) policy->arrive({id, 4, 4});
  CHECK(next(*policy) == "1p4@0* 2p4@0* 3p4@0*, admitted 1+2+3");  // 2 blocks each
  CHECK(next(*policy) == "1d1@4* 2d1@4*, swapped 3, out 2");       // 3 blocks each
  policy->arrive({4, 1, 1});
  CHECK(next(*policy) == "1d1@5* 2d1@5*");
  CHECK(next(*policy) == "1d1@6*, swapped 2, finished 1, out 3");  // 4 blocks; 2 needs 4, there are 6
  CHECK(next(*policy) == "2d1@6*, resumed 2, finished 2, in 3");   // 3 needs 3: 4 + 3 > 6
  CHECK(next(*policy) == "3d1@4*, resumed 3, in 2");               // 4 is a prompt: not in a decode step
  CHECK(next(*policy) == "4p1@0*, admitted 4, finished 4");
  CHECK(next(*policy) == "3d1@5*");
  CHECK(next(*policy) == "3d1@6*, finished 3");
  CHECK(policy->use() == KvUse{});
}

TEST_CASE("continuous batching: prompts in chunks beside decodes") {
  BatchingShape shape = shape_of(4, 20);
  shape.max_requests = 3;
  shape.max_tokens = 4;
  const auto policy = make("continuous", shape, {{"chunked", 1}});
  policy->arrive({1, 2, 5});
  policy->arrive({2, 7, 2});
  policy->arrive({3, 3, 1});
  CHECK(next(*policy) == "1p2@0* 2p2@0, admitted 1+2");
  CHECK(policy->use().gpu_blocks == 1 + 2);  // 2's blocks are taken at once
  CHECK(next(*policy) == "1d1@2* 2p3@2");
  CHECK(next(*policy) == "1d1@3* 2p2@5* 3p1@0, admitted 3");
  CHECK(next(*policy) == "1d1@4* 2d1@7* 3p2@1*, finished 2+3");
  CHECK(next(*policy) == "1d1@5*, finished 1");
}

TEST_CASE("continuous batching: decodes leave a token for a prompt that has begun") {
  BatchingShape shape = shape_of(4, 20);
  shape.max_requests = 2;
  shape.max_tokens = 2;
  const auto policy = make("continuous", shape, {{"chunked", 1}});
  policy->arrive({1, 1, 2});
  policy->arrive({2, 3, 1});
  CHECK(next(*policy) == "1p1@0* 2p1@0, admitted 1+2");
  CHECK(next(*policy) == "1d1@1* 2p1@1, finished 1");
  CHECK(next(*policy) == "2p1@2*, finished 2");
}

TEST_CASE("continuous batching: a prompt's chunks are preempted like the rest") {
  BatchingShape shape = shape_of(2, 4, 9);
  shape.max_tokens = 8;
  for (const bool swap : {true, false}) {
    const auto policy =
        make("continuous", shape, {{"chunked", 1}, {"watermark", 0}, {"swap", swap ? 1.0 : 0.0}});
    policy->arrive({.id = 1, .prompt_tokens = 2, .output_tokens = 5});
    CHECK(next(*policy) == "1p2@0*, admitted 1");
    policy->arrive({.id = 2, .prompt_tokens = 4, .output_tokens = 1});
    policy->resize(4);
    CHECK(next(*policy) == "1d1@2* 2p4@0*, admitted 2, finished 2");  // 2 + 2 blocks
    CHECK(next(*policy) == "1d1@3*");
    policy->arrive({.id = 3, .prompt_tokens = 4, .output_tokens = 2});
    policy->arrive({.id = 4, .prompt_tokens = 1, .output_tokens = 1});
    policy->resize(5);
    CHECK(next(*policy) == "1d1@4* 3p4@0*, admitted 3");  // 3 + 2 blocks
    CHECK(next(*policy) == (swap ? "1d1@5*, swapped 3, finished 1, out 2" : "1d1@5*, dropped 3, finished 1"));
    CHECK(next(*policy) == (swap ? "3d1@4* 4p1@0*, admitted 4, resumed 3, finished 3+4, in 2"
                                 : "3p5@0* 4p1@0*, admitted 4, restarted 3, finished 3+4, again 4"));
  }
}

TEST_CASE("continuous batching: prefilled requests decode from their first step on") {
  auto policy = make("continuous", shape_of(4, 20));
  policy->arrive({.id = 1, .prompt_tokens = 4, .output_tokens = 2, .prefilled = true});
  BatchStep step;
  REQUIRE(policy->form(step));
  CHECK(text(step) == "1d1@4*, admitted 1");
  CHECK(policy->use().gpu_blocks == 2);
  policy->complete();
  CHECK(next(*policy) == "1d1@5*, finished 1");

  policy->arrive({.id = 2, .prompt_tokens = 4, .output_tokens = 3, .prefilled = true});
  policy->arrive({.id = 3, .prompt_tokens = 3, .output_tokens = 2});
  policy->arrive({.id = 4, .prompt_tokens = 8, .output_tokens = 1, .prefilled = true});
  CHECK(next(*policy) == "2d1@4*, admitted 2");  // in turn: 3 is a prompt, and runs alone
  CHECK(next(*policy) == "3p3@0*, admitted 3");
  CHECK(next(*policy) == "2d1@5* 3d1@3* 4d1@8*, admitted 4, finished 3+4");
  CHECK(next(*policy) == "2d1@6*, finished 2");

  policy = make("continuous", shape_of(2, 6), {{"watermark", 0}});  // dropped, it has to run its prompt
  policy->arrive({.id = 1, .prompt_tokens = 5, .output_tokens = 3, .prefilled = true});
  policy->arrive({.id = 2, .prompt_tokens = 5, .output_tokens = 3, .prefilled = true});
  CHECK(next(*policy) == "1d1@5* 2d1@5*, admitted 1+2");
  CHECK(next(*policy) == "1d1@6*, dropped 2");
  CHECK(next(*policy) == "1d1@7*, finished 1");
  CHECK(next(*policy) == "2p7@0*, restarted 2, again 6");
  CHECK(next(*policy) == "2d1@7*, finished 2");
}

TEST_CASE("continuous batching: the cache shrinks and grows between steps") {
  for (const bool swap : {false, true}) {
    const auto policy = make("continuous", shape_of(2, 8, 8), {{"watermark", 0}, {"swap", swap ? 1.0 : 0.0}});
    policy->arrive({1, 4, 3});
    policy->arrive({2, 4, 3});
    CHECK(next(*policy) == "1p4@0* 2p4@0*, admitted 1+2");
    policy->resize(3);
    CHECK(next(*policy) == (swap ? "1d1@4*, swapped 2, out 2" : "1d1@4*, dropped 2"));
    policy->resize(1);
    CHECK(next(*policy) == (swap ? "-, swapped 1, out 3" : "-, dropped 1"));
    CHECK(policy->use() == (swap ? KvUse{.host_blocks = 5, .swapped = 2} : KvUse{.waiting = 2}));
    CHECK(next(*policy) == "-");
    policy->resize(8);
    CHECK(next(*policy) == (swap ? "1d1@5* 2d1@4*, resumed 1+2, finished 1, in 5"
                                 : "1p6@0* 2p5@0*, restarted 1+2, finished 1, again 9"));
    CHECK(next(*policy) == "2d1@5*, finished 2");
  }
}

TEST_CASE("static batching: one batch after the other, promised to its end") {
  BatchingShape shape = shape_of(4, 5);
  shape.max_tokens = 12;
  const auto policy = make("static", shape);
  policy->arrive({1, 4, 3});  // 6 tokens, 2 blocks
  policy->arrive({2, 8, 1});  // 2 blocks
  policy->arrive({3, 4, 2});  // 2 blocks: the sixth
  policy->arrive({.id = 4, .prompt_tokens = 4, .output_tokens = 1, .prefilled = true});
  BatchStep step;
  REQUIRE(policy->form(step));
  CHECK(text(step) == "1p4@0* 2p8@0*, admitted 1+2, finished 2");
  CHECK(policy->use() == KvUse{.gpu_blocks = 3, .gpu_floor = 4, .running = 2, .waiting = 2});
  policy->complete();
  CHECK(policy->use() == KvUse{.gpu_blocks = 1, .gpu_floor = 2, .running = 1, .waiting = 2});
  CHECK_THROWS_AS(policy->resize(1), std::invalid_argument);
  policy->resize(2);
  CHECK(next(*policy) == "1d1@4*");  // 3 would fit by requests and tokens
  policy->resize(4);
  CHECK(next(*policy) == "1d1@5*, finished 1");
  CHECK(next(*policy) == "3p4@0*, admitted 3+4");  // prompts first
  CHECK(next(*policy) == "3d1@4* 4d1@4*, finished 3+4");
  CHECK(policy->use() == KvUse{});
  CHECK(next(*policy) == "-");

  policy->arrive({5, 7, 2});
  policy->arrive({6, 6, 1});  // 13 tokens in a step
  CHECK(next(*policy) == "5p7@0*, admitted 5+6");
  CHECK(policy->use() == KvUse{.gpu_blocks = 2, .gpu_floor = 4, .running = 2});
  CHECK(next(*policy) == "6p6@0*, finished 6");
  CHECK(next(*policy) == "5d1@7*, finished 5");
}

TEST_CASE("static batching: prompts in micro-batches, an encoder's whole") {
  BatchingShape shape = shape_of(4, 100);
  shape.max_tokens = 100;
  shape.micro_batch = 5;
  const auto policy = make("static", shape);
  policy->arrive({1, 7, 2});
  policy->arrive({2, 6, 2});
  CHECK(next(*policy) == "1p5@0, admitted 1+2");
  CHECK(next(*policy) == "1p2@5* 2p3@0");
  CHECK(next(*policy) == "2p3@3*");
  CHECK(next(*policy) == "1d1@7* 2d1@6*, finished 1+2");
  CHECK(policy->use() == KvUse{});
  policy->arrive({.id = 3, .prompt_tokens = 8, .output_tokens = 1, .encoded = true});
  CHECK(next(*policy) == "3p8@0, admitted 3");
  CHECK(next(*policy) == "3d1@8*, finished 3");
}

TEST_CASE("static batching: micro-batches are full but the last, and prompts run through them in order") {
  std::mt19937 random(31);
  for (int i = 0; i < test::random_runs(2000); ++i) {
    BatchingShape shape = shape_of(4, 10'000);
    shape.max_tokens = 1000;
    shape.micro_batch = 1 + static_cast<std::uint32_t>(random() % 40);
    const auto policy = make("static", shape);
    std::vector<std::uint32_t> prompts(1 + random() % 6);
    std::uint32_t all = 0;
    for (std::uint32_t id = 0; id < prompts.size(); ++id) {
      prompts[id] = 1 + static_cast<std::uint32_t>(random() % 60);
      all += prompts[id];
      policy->arrive({id, prompts[id], 2});
    }
    // What runs one after the other, cut into pieces of a micro-batch.
    std::uint32_t begun = 0, request = 0, cached = 0;
    BatchStep step;
    for (; begun < all; begun += static_cast<std::uint32_t>(step.rows), policy->complete()) {
      REQUIRE(policy->form(step));
      REQUIRE(step.rows == std::min(shape.micro_batch, all - begun));
      for (const StepShare& share : step.shares) {
        REQUIRE(share.prompt);
        REQUIRE((share.request == request && share.context == cached));
        cached += share.tokens;
        REQUIRE(share.produces == (cached == prompts[request]));
        if (share.produces) ++request, cached = 0;
      }
    }
    REQUIRE(policy->form(step));
    REQUIRE(step.finished.size() == prompts.size());
  }
}

TEST_CASE("batching: what could never run says so with the numbers") {
  BatchingShape shape = shape_of(16, 10);
  shape.max_tokens = 200;
  const auto chunked = make("continuous", shape, {{"chunked", 1}});
  const auto whole = make("continuous", shape);
  const auto fixed = make("static", shape);
  const BatchRequest full{1, 150, 11}, more{1, 150, 12};  // 160 and 161 tokens
  for (const BatchingPolicy* policy : {chunked.get(), whole.get(), fixed.get()}) {
    CHECK(policy->misfit(full).empty());
    CHECK(policy->misfit(more) == "needs 11 blocks of 16 tokens, there are 10");
    CHECK(policy->misfit({1, 150, 11, true}) == "needs 11 blocks of 16 tokens, there are 10");
  }
  chunked->resize(11);
  CHECK(chunked->misfit(more).empty());

  shape.kv.gpu_blocks = 1000;
  shape.max_tokens = 160;
  CHECK(make("continuous", shape, {{"chunked", 1}})->misfit({1, 300, 300}).empty());
  CHECK(make("continuous", shape)->misfit(full).empty());
  CHECK(
      make("continuous", shape)->misfit(more) ==
      "needs a step of 161 tokens to be run again if preempted late, without chunks, a step has at most 160");
  CHECK(make("static", shape)->misfit({1, 160, 300}).empty());
  CHECK(make("static", shape)->misfit({1, 161, 1}) ==
        "needs a step of 161 tokens for its prompt, a step has at most 160");
  CHECK(make("static", shape)->misfit({1, 161, 1, true}).empty());
  const auto stuck = make("static", shape);
  stuck->arrive({1, 161, 1});
  CHECK(next(*stuck) == "-");
  CHECK(stuck->use() == KvUse{.waiting = 1});
  CHECK(make("static", shape)->misfit({1, 4294967295U, 1}).find("can be counted") != std::string::npos);
}

TEST_CASE("batching: bad shapes and parameters are named") {
  for (const BatchingPolicyEntry& entry : batching_policies()) {
    BatchingShape shape = shape_of(16, 10);
    shape.max_requests = 101;
    CHECK_THROWS_AS(entry.make(shape, {}), InputError);
    shape.max_requests = 0;
    CHECK_THROWS_AS(entry.make(shape, {}), InputError);
    CHECK_THROWS_AS(entry.make(shape_of(0, 10), {}), InputError);
  }
  CHECK_THROWS_AS(make("continuous", shape_of(16, 10), {{"swap", 0.5}}), InputError);
  CHECK_THROWS_AS(make("continuous", shape_of(16, 10), {{"chunked", 2}}), InputError);
  CHECK_THROWS_AS(make("continuous", shape_of(16, 10), {{"watermark", -0.1}}), InputError);
  CHECK(find_batching_policy("orca") == nullptr);
}

}  // namespace moelab::batching_test
