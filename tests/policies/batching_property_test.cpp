// Batching: random streams of requests, the cache growing and shrinking. Steps against the rules implemented
// once more with real pages, books recounted from the shares, what fits found by trying.
#include "tests/policies/batching_books.hpp"
#include "tests/policies/batching_reference.hpp"
#include "tests/random_runs.hpp"

namespace moelab::batching_property_test {

using namespace moelab::batching_steps;

namespace {

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

}  // namespace

TEST_CASE("batching: books balance in every step, and all that fits alone is served") {
  for (const BatchingPolicyEntry& entry : batching_policies()) {
    // Give way by other rules: vllm_v1_test.cpp, sglang_test.cpp.
    if (entry.info.name == "vllm-v1" || entry.info.name == "sglang") continue;
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
  for (int i = 0; i < moelab::test::random_runs(8000); ++i) {
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
  CHECK(steps > moelab::test::random_runs(100000));
  CHECK(preempted > moelab::test::random_runs(10000));
  CHECK(resumed > moelab::test::random_runs(2000));
  CHECK(chunks > moelab::test::random_runs(3000));
}

TEST_CASE("batching: a request alone is served if and only if it fits") {
  // Without chunks the rule is stricter: it must fit into one step even where it is never preempted.
  Random random(43);
  int fit = 0, misfit = 0;
  for (int i = 0; i < moelab::test::random_runs(4000); ++i) {
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
  CHECK(fit > moelab::test::random_runs(500, 75));
  CHECK(misfit > moelab::test::random_runs(500, 75));
}

TEST_CASE("static batching takes the longest run of waiting requests that fits") {
  Random random(44);
  for (int i = 0; i < moelab::test::random_runs(1500); ++i) {
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
              blocks += instance.shape.kv.state_blocks +
                        (final_tokens(waiting[k]) + instance.shape.kv.block_tokens - 1) /
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

}  // namespace moelab::batching_property_test
