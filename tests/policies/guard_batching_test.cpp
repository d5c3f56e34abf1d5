// Batching policies from a library: the steps of 'continuous' with one mistake each, held against the books.
#include <algorithm>

#include "tests/policies/guard_cases.hpp"

namespace moelab::guard_batching_test {

using namespace moelab::guard_cases;

namespace {

void (*step_of)(BatchStep&, int step) = nullptr;  // makes a mistake in a step; they count from 1
void (*use_of)(KvUse&, int step) = nullptr;
PolicyParameters parameters_of_inner;

class Mistaken final : public BatchingPolicy {
 public:
  explicit Mistaken(const BatchingShape& shape)
      : inner_(find_batching_policy("continuous")->make(shape, parameters_of_inner)) {}
  std::string misfit(const BatchRequest&) const override { return ""; }
  void arrive(const BatchRequest& request) override { inner_->arrive(request); }
  bool form(BatchStep& step) override {
    inner_->form(step);
    step_of(step, ++step_);
    return !step.shares.empty();
  }
  void complete() override { inner_->complete(); }
  void resize(std::uint64_t gpu_blocks) override { inner_->resize(gpu_blocks); }
  KvUse use() const override {
    KvUse use = inner_->use();
    use_of(use, step_);
    return use;
  }

 private:
  std::unique_ptr<BatchingPolicy> inner_;
  int step_ = 0;
};

BatchingPolicyEntry mistaken() {
  return {.info = from_library(),
          .make = [](const BatchingShape& shape, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
            return std::make_unique<Mistaken>(shape);
          }};
}

/// Two requests of 5 tokens and then 4 more each; blocks of 2 tokens. Step 1 runs both prompts, then each
/// step a token of each.
std::string complaint_of(
    void (*step)(BatchStep&, int), const BatchingShape& shape,
    void (*use)(KvUse&, int) = [](KvUse&, int) {}) {
  step_of = step;
  use_of = use;
  return complaint([&] {
    const auto policy = make_batching_policy(mistaken(), shape, {});
    policy->arrive({.id = 1, .prompt_tokens = 5, .output_tokens = 4});
    policy->arrive({.id = 2, .prompt_tokens = 5, .output_tokens = 4});
    BatchStep formed;
    while (policy->form(formed)) policy->complete();
  });
}

BatchingShape roomy() {
  return {.kv = {.block_tokens = 2, .gpu_blocks = 20}, .max_requests = 2, .max_tokens = 12};
}
/// The second request gives way to the first before its end.
BatchingShape tight() {
  return {.kv = {.block_tokens = 2, .gpu_blocks = 7, .host_blocks = 7}, .max_requests = 2, .max_tokens = 12};
}

std::string in_step(int step, const std::string& rule) {
  return "policy 'mine' (broken.so), step " + std::to_string(step) + ": " + rule;
}

}  // namespace

TEST_CASE("guard: a batching policy that keeps the rules is let be, also where requests give way") {
  for (const double swap : {0.0, 1.0}) {
    parameters_of_inner = {{"swap", swap}};
    CHECK(complaint_of([](BatchStep&, int) {}, roomy()) == "");
    static bool gave_way = false;
    gave_way = false;
    CHECK(complaint_of([](BatchStep& s, int) { gave_way |= !s.dropped.empty() || !s.swapped_out.empty(); },
                       tight()) == "");
    CHECK(gave_way);
  }
  parameters_of_inner = {};
}

TEST_CASE("guard: shares are of requests that run, once, after what is in their cache") {
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.shares.push_back(s.shares.front());
            },
            roomy()) == in_step(2, "has request 1 twice in the step"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.shares[0].request = 9;
            },
            roomy()) == in_step(2, "runs request 9, which is not there"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.shares[1].context = 4;
            },
            roomy()) == in_step(2, "runs request 2 after 4 tokens in its cache, it has 5"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[1].tokens = 6;
            },
            roomy()) == in_step(1, "runs 6 tokens of request 2, expected 1 to 5"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[1].tokens = 0;
            },
            roomy()) == in_step(1, "runs 0 tokens of request 2, expected 1 to 5"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[0].rank = 1;
            },
            roomy()) == in_step(1, "gives request 1 to rank 1"));
}

TEST_CASE("guard: a request finds whole blocks of parts that some request has run") {
  // Requests of 9 tokens, of which the first 6 are the same; blocks of 2. 'continuous' looks for none of
  // them.
  static const std::vector<TokenPart> parts{{7, 6}};
  const auto finding = [](void (*step)(BatchStep&, int), std::uint32_t first_prompt) {
    step_of = step;
    use_of = [](KvUse&, int) {};
    return complaint([&] {
      const auto policy = make_batching_policy(mistaken(), roomy(), {});
      policy->arrive({.id = 1, .prompt_tokens = first_prompt, .output_tokens = 1, .parts = parts});
      policy->arrive({.id = 2, .prompt_tokens = 9, .output_tokens = 1, .parts = parts});
      BatchStep formed;
      policy->form(formed);
    });
  };
  const auto find = [](BatchStep& s, std::uint32_t tokens) {
    if (s.shares.size() < 2) return;
    s.shares[1].context = tokens;
    s.shares[1].tokens -= tokens;
    s.rows -= tokens;
  };
  static const auto found = find;
  CHECK(finding([](BatchStep& s, int) { found(s, 2); }, 3) == "");
  CHECK(finding([](BatchStep& s, int) { found(s, 4); }, 3) ==
        in_step(1, "runs request 2 after 4 tokens in its cache, it has 0"));
  CHECK(finding([](BatchStep& s, int) { found(s, 1); }, 3) ==
        in_step(1, "runs request 2 after 1 token in its cache, it has 0"));
}

TEST_CASE("guard: a share says whether it is of a prompt, and whether it produces a token") {
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.shares[0].prompt = true;
            },
            roomy()) == in_step(2, "takes the token that request 1 decodes for one of a prompt"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[0].prompt = false;
            },
            roomy()) == in_step(1, "takes what request 1 runs of its prompt for a decoded token"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[0].produces = false;
            },
            roomy()) == in_step(1, "has request 1 produce no token, though all others are in its cache"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 1) s.shares[0].tokens = 4;
            },
            roomy()) == in_step(1, "has request 1 produce a token before all others are in its cache"));
}

TEST_CASE("guard: the sums of a step are those of its shares, and within its bounds") {
  CHECK(complaint_of([](BatchStep& s, int) { ++s.rows; }, roomy()) ==
        in_step(1, "says that the step runs 11 rows, its shares have 10"));
  CHECK(complaint_of([](BatchStep& s, int) { ++s.recomputed; }, roomy()) ==
        in_step(1, "says that the step computes 1 token again, it does 0"));
  CHECK(complaint_of([](BatchStep& s, int) { s.of_ranks.push_back({}); }, roomy()) ==
        in_step(1, "forms a step of several ranks"));
  CHECK(complaint_of([](BatchStep& s, int) { s.blocks_in = 1; }, roomy()) ==
        in_step(1, "moves 1 block to the GPU, its requests have 0 to 0"));
  CHECK(complaint_of([](BatchStep& s, int) { s.blocks_out = 2; }, roomy()) ==
        in_step(1, "moves 2 blocks to the host, its requests have 0 to 0"));
}

TEST_CASE("guard: who joins, gives way and ends is who did") {
  CHECK(complaint_of([](BatchStep& s, int) { s.admitted.pop_back(); }, roomy()) ==
        in_step(1, "runs request 2, which waits"));
  CHECK(complaint_of([](BatchStep& s, int) { s.admitted.push_back(1); }, roomy()) ==
        in_step(1, "admits request 1, which runs"));
  CHECK(complaint_of([](BatchStep& s, int) { s.restarted.swap(s.admitted); }, roomy()) ==
        in_step(1, "restarts request 1, which was never admitted"));
  CHECK(complaint_of([](BatchStep& s, int) { s.resumed.push_back(1); }, roomy()) ==
        in_step(1, "resumes request 1, which waits"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.dropped.push_back(2);
            },
            roomy()) == in_step(2, "runs request 2, which waits"));
  CHECK(complaint_of(
            [](BatchStep& s, int step) {
              if (step == 2) s.finished.push_back(2);
            },
            roomy()) == in_step(2, "says that request 2 gets its last token, and it does not"));
  CHECK(complaint_of([](BatchStep& s, int) { s.finished.clear(); }, roomy()) ==
        in_step(4, "names 0 requests that get their last token, there are 2"));
  CHECK_THAT(complaint_of(
                 [](BatchStep& s, int) {
                   s.admitted.insert(s.admitted.end(), s.restarted.begin(), s.restarted.end());
                   s.restarted.clear();
                 },
                 tight()),
             Contains("admits request 2, which was admitted before"));
}

TEST_CASE("guard: requests and tokens fit into what there is of them") {
  const auto with = [](BatchingShape shape) {  // the policy is made with more than the guard knows of
    step_of = [](BatchStep&, int) {};
    use_of = [](KvUse&, int) {};
    static BatchingShape inner;
    inner = roomy();
    BatchingPolicyEntry entry = mistaken();
    entry.make = [](const BatchingShape&, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
      return std::make_unique<Mistaken>(inner);
    };
    return complaint([&] {
      const auto policy = make_batching_policy(entry, shape, {});
      for (const std::uint32_t id : {1U, 2U})
        policy->arrive({.id = id, .prompt_tokens = 5, .output_tokens = 4});
      BatchStep formed;
      while (policy->form(formed)) policy->complete();
    });
  };
  CHECK(with(roomy()) == "");
  BatchingShape shape = roomy();
  shape.max_requests = 1;
  CHECK(with(shape) == in_step(1, "has 2 requests run at once, expected at most 1"));
  shape = roomy();
  shape.max_tokens = 9;
  CHECK(with(shape) == in_step(1, "runs 10 rows, a step has at most 9"));
  shape = roomy();
  shape.kv.gpu_blocks = 7;
  CHECK(with(shape) == in_step(3, "runs requests whose tokens need 8 blocks, there are 7"));
}

TEST_CASE("guard: what a batching policy says of blocks and requests is so") {
  const auto use = [](void (*mistake)(KvUse&, int)) {
    return complaint_of([](BatchStep&, int) {}, roomy(), mistake);
  };
  CHECK(use([](KvUse& u, int step) { u.running += step == 2 ? 1U : 0U; }) ==
        in_step(2, "says that 3 requests run, there are 2"));
  CHECK(use([](KvUse& u, int) { ++u.waiting; }) == in_step(1, "says that 1 requests wait, there are 0"));
  CHECK(use([](KvUse& u, int) { ++u.swapped; }) ==
        in_step(1, "says that 1 requests are swapped out, there are 0"));
  CHECK(use([](KvUse& u, int) { ++u.host_blocks; }) ==
        in_step(1, "says that 1 blocks are in use on the host, there are 0"));
  CHECK(use([](KvUse& u, int) { u.gpu_blocks = 5; }) ==
        in_step(1, "says that 5 blocks of the GPU are in use, its requests have 6 to 8"));
  CHECK_THAT(use([](KvUse& u, int) { u.gpu_blocks += 5; }), Contains("its requests have 6 to 8"));
  CHECK(use([](KvUse& u, int) { u.gpu_floor = 21; }) == in_step(1, "has promised 21 blocks, there are 20"));
}

TEST_CASE("guard: a policy does not leave requests that fit waiting for nothing") {
  class Idle final : public BatchingPolicy {
    std::string misfit(const BatchRequest&) const override { return ""; }
    void arrive(const BatchRequest&) override { ++waiting_; }
    bool form(BatchStep& step) override {
      step = {};
      return says_true;
    }
    void complete() override {}
    void resize(std::uint64_t) override {}
    KvUse use() const override { return {.waiting = waiting_}; }
    std::uint64_t waiting_ = 0;

   public:
    bool says_true = false;
  };
  static bool says_true = false;
  BatchingPolicyEntry entry = mistaken();
  entry.make = [](const BatchingShape&, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
    auto idle = std::make_unique<Idle>();
    idle->says_true = says_true;
    return idle;
  };
  const auto form = [&](bool with_request) {
    return complaint([&] {
      const auto policy = make_batching_policy(entry, roomy(), {});
      if (with_request) policy->arrive({.id = 1});
      BatchStep step;
      const bool runs = policy->form(step);
      CHECK_FALSE(runs);
    });
  };
  CHECK(form(false) == "");
  CHECK(form(true) ==
        in_step(1, "says that nothing can run, though each request that is there fits the KV cache"));
  says_true = true;
  CHECK(form(true) == in_step(1, "says that a step runs, and gives none of its shares"));
  const auto policy = make_batching_policy(entry, roomy(), {});
  CHECK(complaint([&] { (void)policy->misfit({.id = 1, .prompt_tokens = 50}); }) ==
        "policy 'mine' (broken.so): says that a request fits that needs 25 blocks, there are 20");
}

TEST_CASE("guard: a cache that shrinks below what is promised is refused as by any policy") {
  step_of = [](BatchStep&, int) {};
  use_of = [](KvUse& use, int) { use.gpu_floor = 3; };
  const auto policy = make_batching_policy(mistaken(), roomy(), {});
  CHECK_THROWS_AS(policy->resize(2), std::invalid_argument);
  CHECK_NOTHROW(policy->resize(3));
}

TEST_CASE("guard: what a batching policy throws is told") {
  CHECK(complaint_of([](BatchStep&, int step) { step == 3 ? fail_by(Failure::standard) : (void)step; },
                     roomy()) == in_step(3, "throws: no expert 12"));
  CHECK(complaint_of([](BatchStep&, int) { fail_by(Failure::foreign); }, roomy()) ==
        in_step(1, "throws what is no std::exception"));
}

}  // namespace moelab::guard_batching_test
