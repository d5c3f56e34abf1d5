// Batching: steps worked by hand, one for each rule; the rules implemented once more with real pages
// (batching_reference.hpp); and bookkeeping of random runs recounted from the shares of their steps.
#include "policies/batching/batching.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "models/input_error.hpp"
#include "tests/policies/batching_reference.hpp"

using namespace moelab;

namespace {

using Ids = std::vector<std::uint32_t>;
using Random = std::mt19937_64;

std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (high - low + 1));
}

std::unique_ptr<BatchingPolicy> make(std::string_view name, const BatchingShape& shape,
                                     const PolicyParameters& parameters = {}) {
  const BatchingPolicyEntry* const entry = find_batching_policy(name);
  REQUIRE(entry != nullptr);
  return entry->make(shape, parameters);
}

BatchingShape shape_of(std::uint32_t block_tokens, std::uint64_t gpu_blocks, std::uint64_t host_blocks = 0) {
  return {.kv = {block_tokens, gpu_blocks, host_blocks}, .max_requests = 8, .max_tokens = 100};
}

/// A step in short: "7p4@2*" is request 7 running 4 prompt rows after 2 tokens, and getting a token; d:
/// decode.
std::string text(const BatchStep& step) {
  std::string all;
  for (const StepShare& share : step.shares)
    all += (all.empty() ? "" : " ") + std::to_string(share.request) + (share.prompt ? "p" : "d") +
           std::to_string(share.tokens) + "@" + std::to_string(share.context) + (share.produces ? "*" : "");
  const auto list = [&all](const char* what, const Ids& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      all += (i == 0 ? std::string(", ") + what + " " : "+") + std::to_string(ids[i]);
  };
  list("admitted", step.admitted);
  list("restarted", step.restarted);
  list("resumed", step.resumed);
  list("swapped", step.swapped_out);
  list("dropped", step.dropped);
  list("finished", step.finished);
  if (step.recomputed > 0) all += ", again " + std::to_string(step.recomputed);
  if (step.blocks_out > 0) all += ", out " + std::to_string(step.blocks_out);
  if (step.blocks_in > 0) all += ", in " + std::to_string(step.blocks_in);
  return all;
}

/// Forms the next step, runs it, and says what it was; "-" where there is none.
std::string next(BatchingPolicy& policy) {
  BatchStep step;
  const bool runs = policy.form(step);
  CHECK(runs == !step.shares.empty());
  if (!runs) return "-" + text(step);
  policy.complete();
  return text(step);
}

}  // namespace

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

TEST_CASE("continuous batching: decodes leave no token for a prompt that has begun") {
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

namespace {

struct Instance {
  BatchingShape shape;
  bool swap = false, chunked = false, resizes = false;
  double watermark = 0;
  std::vector<BatchRequest> requests;  // that fit alone

  std::unique_ptr<BatchingPolicy> make_policy(std::string_view name) const {
    if (name == "static") return make(name, shape);
    return make(name, shape,
                {{"swap", swap ? 1.0 : 0.0}, {"chunked", chunked ? 1.0 : 0.0}, {"watermark", watermark}});
  }
};

Instance random_instance(Random& random, std::string_view name) {
  Instance instance;
  instance.shape.kv = {between(random, 1, 5), between(random, 1, 24),
                       random() % 3 == 0 ? 0 : between(random, 1, 30)};
  instance.shape.max_requests = between(random, 1, 8);
  instance.shape.max_tokens = instance.shape.max_requests + between(random, 0, 40);
  instance.swap = random() % 2 == 0;
  instance.chunked = random() % 2 == 0;
  instance.resizes = random() % 3 == 0;
  instance.watermark = std::vector<double>{0, 0, 0.01, 0.1, 0.3, 1}[random() % 6];
  const std::uint32_t prefilled = between(random, 0, 2);  // none, some, all
  const auto policy = instance.make_policy(name);
  for (std::uint32_t i = 0, n = between(random, 1, 14); i < n; ++i) {
    const BatchRequest request{100 - i, between(random, 1, 20), between(random, 1, 12),
                               prefilled == 2 || (prefilled == 1 && random() % 2 == 0)};
    if (policy->misfit(request).empty()) instance.requests.push_back(request);
  }
  return instance;
}

/// Runs an instance: requests arrive at random between steps, the cache shrinks and grows where it does so.
/// `formed` sees each step before it runs, `resized` each new size.
template <class Arrived, class Resized, class Formed, class Completed>
void run(Random& random, const Instance& instance, BatchingPolicy& policy, const Arrived& arrived,
         const Resized& resized, const Formed& formed, const Completed& completed) {
  std::size_t next_arrival = 0;
  BatchStep step;
  std::uint64_t blocks = instance.shape.kv.gpu_blocks;
  const auto resize = [&](std::uint64_t to) {
    blocks = std::max(to, policy.use().gpu_floor);
    policy.resize(blocks);
    resized(blocks);
  };
  for (int steps = 0;; ++steps) {
    REQUIRE(steps < 20000);
    while (next_arrival < instance.requests.size() && random() % 2 == 0) {
      policy.arrive(instance.requests[next_arrival]);
      arrived(instance.requests[next_arrival++]);
    }
    if (instance.resizes && steps < 200 && random() % 4 == 0)
      resize(random() % (instance.shape.kv.gpu_blocks + 1));
    else if (steps == 200)
      resize(instance.shape.kv.gpu_blocks);
    const bool runs = policy.form(step);
    REQUIRE(runs == !step.shares.empty());
    formed(step, blocks);
    if (runs) {
      policy.complete();
      completed();
    } else if (policy.use().waiting + policy.use().swapped > 0) {
      REQUIRE(blocks < instance.shape.kv.gpu_blocks);  // else it would be stuck for good
      resize(instance.shape.kv.gpu_blocks);
    } else if (next_arrival == instance.requests.size()) {
      return;
    }
  }
}

/// Follows requests by the shares of steps alone, and checks what must hold in each step and in the end.
class Bookkeeper {
 public:
  Bookkeeper(const Instance& instance, bool is_static) : instance_(instance), static_(is_static) {}

  void arrived(const BatchRequest& request) {
    Seen& seen = seen_[request.id];
    seen.ask = request;
    seen.place = ++places_;
    seen.cached = seen.most = request.prefilled ? request.prompt_tokens : 0;
  }

  void formed(const BatchStep& step, std::uint64_t gpu_blocks, const KvUse& use) {
    const std::uint64_t before = count('r');
    leave(step);
    enter(step, before);
    shares(step);
    std::uint64_t gpu = 0, host = 0, promised = 0;
    for (const auto& [id, seen] : seen_) {
      if (seen.where == 'r') gpu += held(seen, runs(step, id));
      if (seen.where == 'r') promised += blocks(final_tokens(seen.ask));
      if (seen.where == 's') host += seen.swapped_blocks;
    }
    CHECK(use == KvUse{gpu, static_ ? promised : 0, host, count('r'), count('w'), count('s')});
    CHECK(gpu <= gpu_blocks);
    if (static_) CHECK(promised <= gpu_blocks);
    CHECK(host <= instance_.shape.kv.host_blocks);
    CHECK(count('r') <= instance_.shape.max_requests);
    CHECK(step.rows <= instance_.shape.max_tokens);
    last_ = step;
  }

  void completed(const KvUse& use) {
    for (const StepShare& share : last_.shares) {
      Seen& seen = seen_.at(share.request);
      seen.cached += share.tokens;
      seen.most = std::max(seen.most, seen.cached);
      if (share.produces) ++seen.produced;
      seen.prefilling = seen.prefilling && !share.produces;
    }
    for (const std::uint32_t id : last_.finished) {
      Seen& seen = seen_.at(id);
      CHECK(seen.produced == seen.ask.output_tokens);
      CHECK(seen.cached == final_tokens(seen.ask));
      seen.where = 'x';
    }
    std::uint64_t gpu = 0;
    for (const auto& [id, seen] : seen_)
      if (seen.where == 'r') gpu += held(seen, false);
    CHECK(use.gpu_blocks == gpu);
    CHECK(use.running == count('r'));
  }

  void ended(const KvUse& use) const {
    CHECK(use == KvUse{});
    CHECK(in_ == out_);
    std::uint64_t rows = recomputed_;
    for (const auto& [id, seen] : seen_) {
      CHECK(seen.where == 'x');
      rows +=
          seen.ask.prefilled ? seen.ask.output_tokens : seen.ask.prompt_tokens + seen.ask.output_tokens - 1;
    }
    CHECK(rows_ == rows);
    CHECK(seen_.size() == instance_.requests.size());
  }
  std::uint64_t preempted = 0, recomputed_ = 0;

 private:
  struct Seen {
    BatchRequest ask;
    std::uint64_t place = 0, cached = 0, most = 0, produced = 0, swapped_blocks = 0;
    char where = 'w';  // waiting, running, swapped, x: gone
    bool prefilling = false;
    std::uint64_t tokens() const { return given_tokens(ask) + produced; }
  };

  std::uint64_t blocks(std::uint64_t tokens) const {
    const std::uint32_t size = instance_.shape.kv.block_tokens;
    return (tokens + size - 1) / size;
  }
  /// Blocks are taken for a step; for a prompt in chunks before its first.
  std::uint64_t held(const Seen& seen, bool in_step) const {
    return blocks(in_step || (seen.prefilling && !static_) ? seen.tokens() : seen.cached);
  }
  std::uint64_t count(char where) const {
    std::uint64_t n = 0;
    for (const auto& [id, seen] : seen_) n += seen.where == where ? 1 : 0;
    return n;
  }

  static bool runs(const BatchStep& step, std::uint32_t id) {
    for (const StepShare& share : step.shares)
      if (share.request == id) return true;
    return false;
  }

  void leave(const BatchStep& step) {
    std::uint64_t out = 0, first = ~std::uint64_t{0};
    for (const Ids* ids : {&step.swapped_out, &step.dropped})
      for (const std::uint32_t id : *ids) {
        Seen& seen = seen_.at(id);
        CHECK(seen.where == 'r');
        first = std::min(first, seen.place);
        const bool swaps = ids == &step.swapped_out;
        seen.where = swaps ? 's' : 'w';
        seen.swapped_blocks = held(seen, false);
        if (swaps)
          out += seen.swapped_blocks;
        else
          seen.cached = 0;
        ++preempted;
      }
    CHECK(step.blocks_out == out);
    for (const auto& [id, seen] : seen_)
      if (seen.where == 'r') CHECK(seen.place < first);  // the latest give way
    out_ += out;
    if (static_) CHECK(first == ~std::uint64_t{0});
    if (!instance_.swap) CHECK(step.swapped_out.empty());
  }

  void enter(const BatchStep& step, std::uint64_t before) {
    const bool enters = !step.admitted.empty() || !step.restarted.empty() || !step.resumed.empty();
    if (enters && count('r') > 0) CHECK((step.swapped_out.empty() && step.dropped.empty()));
    if (enters && static_) CHECK(before == 0);
    std::uint64_t in = 0;
    for (const std::uint32_t id : step.resumed) {
      Seen& seen = seen_.at(id);
      CHECK(seen.where == 's');
      seen.where = 'r';
      in += seen.swapped_blocks;
    }
    CHECK(step.blocks_in == in);
    in_ += in;
    for (const Ids* ids : {&step.restarted, &step.admitted})
      for (const std::uint32_t id : *ids) {
        Seen& seen = seen_.at(id);
        CHECK(seen.where == 'w');
        CHECK(count('s') == 0);
        for (const auto& [other, earlier] : seen_)  // first come, first served
          if (earlier.where == 'w') CHECK(seen.place <= earlier.place);
        CHECK((ids == &step.admitted) == (seen.most == 0 || (seen.ask.prefilled && seen.cached > 0)));
        seen.where = 'r';
        seen.prefilling = seen.cached == 0;
      }
  }

  void shares(const BatchStep& step) {
    std::uint64_t rows = 0, again = 0, decodes = 0;
    std::map<std::uint32_t, int> times;
    Ids finished;
    for (const StepShare& share : step.shares) {
      const Seen& seen = seen_.at(share.request);
      CHECK(++times[share.request] == 1);
      CHECK(seen.where == 'r');
      CHECK(share.context == seen.cached);
      CHECK(share.prompt == seen.prefilling);
      CHECK(share.tokens >= 1);
      CHECK(share.context + share.tokens <= seen.tokens());
      CHECK(share.produces == (share.context + share.tokens == seen.tokens()));
      if (share.produces && seen.produced + 1 == seen.ask.output_tokens) finished.push_back(share.request);
      rows += share.tokens;
      for (std::uint64_t t = seen.cached; t < seen.cached + share.tokens; ++t) again += t < seen.most ? 1 : 0;
      decodes += share.prompt ? 0 : 1;
    }
    CHECK(step.finished == finished);
    CHECK(step.rows == rows);
    CHECK(step.recomputed == again);
    rows_ += rows;
    recomputed_ += again;
    if (static_ || !instance_.chunked) CHECK((decodes == 0 || decodes == step.shares.size()));
    std::uint64_t could = 0;  // a step with one decode has them all
    for (const auto& [id, seen] : seen_) could += seen.where == 'r' && !seen.prefilling ? 1 : 0;
    if (decodes > 0 || (instance_.chunked && !static_)) CHECK(decodes == could);
  }

  const Instance& instance_;
  const bool static_;
  std::map<std::uint32_t, Seen> seen_;
  std::uint64_t places_ = 0, rows_ = 0, in_ = 0, out_ = 0;
  BatchStep last_;
};

}  // namespace

TEST_CASE("batching: books balance in every step, and all that fits alone is served") {
  for (const BatchingPolicyEntry& entry : batching_policies()) {
    Random random(41);
    const bool is_static = entry.info.name == "static";
    std::uint64_t served = 0, preempted = 0, recomputed = 0;
    for (int i = 0; i < 1500; ++i) {
      const Instance instance = random_instance(random, entry.info.name);
      const auto policy = instance.make_policy(entry.info.name);
      Bookkeeper books(instance, is_static);
      run(
          random, instance, *policy, [&](const BatchRequest& request) { books.arrived(request); },
          [](std::uint64_t) {},
          [&](const BatchStep& step, std::uint64_t blocks) { books.formed(step, blocks, policy->use()); },
          [&] { books.completed(policy->use()); });
      books.ended(policy->use());
      served += instance.requests.size();
      preempted += books.preempted;
      recomputed += books.recomputed_;
    }
    CHECK(served > 3000);  // it did something
    CHECK((is_static ? preempted == 0 : preempted > 1000));
    CHECK((is_static ? recomputed == 0 : recomputed > 1000));
  }
}

TEST_CASE("continuous batching forms the steps of the rules implemented with real pages") {
  Random random(42);
  std::uint64_t steps = 0, preempted = 0, resumed = 0, chunks = 0;
  for (int i = 0; i < 8000; ++i) {
    const Instance instance = random_instance(random, "continuous");
    const auto policy = instance.make_policy("continuous");
    PagedReference reference(instance.shape, instance.swap, instance.watermark, instance.chunked);
    run(
        random, instance, *policy, [&](const BatchRequest& request) { reference.arrive(request); },
        [&](std::uint64_t blocks) { reference.resize(blocks); },
        [&](const BatchStep& step, std::uint64_t) {
          const BatchStep expected = reference.form();
          if (step != expected) REQUIRE(text(step) == text(expected));
          REQUIRE(step == expected);
          REQUIRE(policy->use() == reference.use());
          ++steps;
          preempted += step.dropped.size() + step.swapped_out.size();
          resumed += step.resumed.size();
          for (const StepShare& share : step.shares) chunks += share.produces ? 0 : 1;
        },
        [&] {
          reference.complete();
          REQUIRE(policy->use() == reference.use());
        });
  }
  CHECK(steps > 100000);
  CHECK(preempted > 10000);
  CHECK(resumed > 2000);
  CHECK(chunks > 3000);
}

TEST_CASE("batching: a request alone is served if and only if it fits") {
  // Without chunks the rule is stricter: it must fit into one step even where it is never preempted.
  Random random(43);
  int fit = 0, misfit = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool is_static = i % 2 == 0;
    BatchingShape shape = shape_of(between(random, 1, 5), between(random, 0, 8));
    shape.max_tokens = is_static ? between(random, 8, 20) : 8;
    const auto policy = is_static ? make("static", shape) : make("continuous", shape, {{"chunked", 1}});
    const BatchRequest request{1, between(random, 1, 20), between(random, 1, 12), random() % 2 == 0};
    policy->arrive(request);
    BatchStep step;
    bool served = false;
    while (policy->form(step)) {
      policy->complete();
      served = served || !step.finished.empty();
    }
    REQUIRE(served == policy->misfit(request).empty());
    ++(served ? fit : misfit);
  }
  CHECK(fit > 500);
  CHECK(misfit > 500);
}

TEST_CASE("static batching takes the longest run of waiting requests that fits") {
  Random random(44);
  for (int i = 0; i < 1500; ++i) {
    const Instance instance = random_instance(random, "static");
    const auto policy = instance.make_policy("static");
    std::vector<BatchRequest> waiting;  // in order of arrival
    run(
        random, instance, *policy, [&](const BatchRequest& request) { waiting.push_back(request); },
        [](std::uint64_t) {},
        [&](const BatchStep& step, std::uint64_t gpu_blocks) {
          const std::size_t before = policy->use().running - step.admitted.size();
          std::size_t most = 0;
          for (std::size_t n = 1; before == 0 && n <= waiting.size(); ++n) {
            std::uint64_t blocks = 0;
            for (std::size_t k = 0; k < n; ++k)
              blocks += (final_tokens(waiting[k]) + instance.shape.kv.block_tokens - 1) /
                        instance.shape.kv.block_tokens;
            if (n <= instance.shape.max_requests && blocks <= gpu_blocks) most = n;
          }
          Ids expected;
          for (std::size_t k = 0; k < most; ++k) expected.push_back(waiting[k].id);
          REQUIRE(step.admitted == expected);
          waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(most));
        },
        [] {});
  }
}
