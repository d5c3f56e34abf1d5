// Caches from a library: each rule that one breaks is told with the policy's name, its library and the step.
#include <algorithm>
#include <limits>
#include <typeinfo>

#include "tests/policies/guard_cases.hpp"
#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::guard_cache_test {

using namespace moelab::guard_cases;
using moelab::test::below;
using moelab::test::Random;
using moelab::test::random_runs;

namespace {

/// Keeps the last experts used, as many of 10 bytes as fit; breaks no rule.
class SoundCache : public CachePolicy {
 public:
  explicit SoundCache(const CacheShape& shape) : shape_(shape), states_(shape.objects, State::M) {}
  std::span<const State> states() const override { return states_; }
  void use(const ExpertUse& use) override { keep(use.object); }
  bool insert(std::uint32_t object) override {
    keep(object);
    return states_[object] != State::M;
  }
  double bytes_held() const override { return 10.0 * static_cast<double>(order_.size()); }

 protected:
  void keep(std::uint32_t object) {
    if (states_[object] != State::M || shape_.capacity_bytes < 10) return;
    if (bytes_held() + 10 > shape_.capacity_bytes) {
      states_[order_.front()] = State::M;
      order_.erase(order_.begin());
    }
    states_[object] = State::F;
    order_.push_back(object);
  }
  CacheShape shape_;
  std::vector<State> states_;
  std::vector<std::uint32_t> order_;
};

template <class Policy>
CachePolicyEntry entry_of() {
  return {.info = from_library(),
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Policy>(shape);
          }};
}

CacheShape shape_of_four() {
  CacheShape shape;
  shape.objects = 4;
  shape.capacity_bytes = 25;
  shape.bytes = {10, 7, 5, 2, 0};
  return shape;
}

/// A request of `steps` steps, each of which uses experts 0 to 2, and prefetches expert 3 after the second.
std::string complaint_of(const CachePolicyEntry& entry, const GuardOptions& options = {}, int steps = 4) {
  return complaint([&] {
    const auto policy = make_cache_policy(entry, shape_of_four(), {}, options);
    policy->begin_request();
    for (int step = 0; step < steps; ++step) {
      policy->begin_step({});
      for (std::uint32_t object = 0; object < 3; ++object) policy->use({.object = object});
      if (step == 1) policy->insert(3);
    }
    policy->begin_step({});
  });
}

class Hoarder : public SoundCache {
 public:
  using SoundCache::SoundCache;
  void use(const ExpertUse& use) override {
    if (use.object == 2 && ++steps_ > 1) states_[use.object] = State::F, order_.push_back(use.object);
    SoundCache::use(use);
  }
  int steps_ = 0;
};

class WrongSum : public SoundCache {
 public:
  using SoundCache::SoundCache;
  double bytes_held() const override { return SoundCache::bytes_held() / 2; }
};

class Unbooked : public SoundCache {  // drops an expert and counts it still
 public:
  using SoundCache::SoundCache;
  void begin_step(const CacheStep&) override { std::ranges::fill(states_, State::M); }
};

class NoNumber : public SoundCache {
 public:
  using SoundCache::SoundCache;
  double bytes_held() const override { return std::numeric_limits<double>::quiet_NaN(); }
};

class WrongState : public SoundCache {
 public:
  using SoundCache::SoundCache;
  void use(const ExpertUse& use) override { states_[use.object] = State::C; }
};

class NoState : public SoundCache {
 public:
  using SoundCache::SoundCache;
  void use(const ExpertUse& use) override { states_[use.object] = static_cast<State>(9); }
};

class Boaster : public SoundCache {
 public:
  using SoundCache::SoundCache;
  bool insert(std::uint32_t) override { return true; }
};

class Conjurer : public SoundCache {
 public:
  using SoundCache::SoundCache;
  void use(const ExpertUse&) override { keep(3); }
};

class FullFromTheStart : public SoundCache {
 public:
  explicit FullFromTheStart(const CacheShape& shape) : SoundCache(shape) { keep(2); }
  void use(const ExpertUse&) override {}
};

template <Failure kFailure>
class FailingCache : public SoundCache {
 public:
  using SoundCache::SoundCache;
  void use(const ExpertUse& use) override {
    if (use.object == 1) fail_by(kFailure);
  }
};

}  // namespace

TEST_CASE("guard: a cache from a library that keeps the rules is let be") {
  CHECK(complaint_of(entry_of<SoundCache>()) == "");
  CHECK(complaint_of(entry_of<SoundCache>(), {.closely = true}, 300) == "");
}

TEST_CASE("guard: a policy of moelab has no guard around it") {
  const auto is_of_one_type = [](const CachePolicy& a, const CachePolicy& b) {
    return typeid(a) == typeid(b);
  };
  const CachePolicyEntry& lru = *find_cache_policy("lru");
  const auto direct = lru.make(shape_of_four(), {});
  CHECK(is_of_one_type(*make_cache_policy(lru, shape_of_four(), {}), *direct));
  CHECK_FALSE(is_of_one_type(*make_cache_policy(lru, shape_of_four(), {}, {.closely = true}), *direct));
}

TEST_CASE("guard: a cache that holds more than its memory, by step and layer") {
  CHECK(complaint_of(entry_of<Hoarder>(), {.layer = 3}) ==
        "policy 'mine' (broken.so), step 2 of layer 3: holds 30 B, its memory is 25 B");
  CHECK(complaint_of(entry_of<NoNumber>()) != "");
}

TEST_CASE("guard: a cache of the whole model names the layer that ran") {
  CacheShape shape = shape_of_four();
  shape.layers = 2;
  const auto policy = make_cache_policy(entry_of<Hoarder>(), shape, {});
  CHECK_THAT(complaint([&] {
               for (std::uint32_t step = 0; step < 4; ++step) {
                 policy->begin_step({.layer = step % 2});
                 policy->use({.object = 2});
                 policy->use({.object = 0});
                 policy->use({.object = 1});
               }
             }),
             StartsWith("policy 'mine' (broken.so), step 2 of layer 1: holds 30 B"));
}

TEST_CASE("guard: what a cache says that it holds is what its states come to") {
  CHECK(complaint_of(entry_of<WrongSum>()) ==
        "policy 'mine' (broken.so), step 1: says that it holds 5 B, its experts' states come to 10 B");
  CHECK(complaint_of(entry_of<Unbooked>()) ==
        "policy 'mine' (broken.so), step 2: says that it holds 20 B, its experts' states come to 0 B");
}

TEST_CASE("guard: a cache's states are those that there are, and those that it may keep") {
  CHECK_THAT(
      complaint_of(entry_of<WrongState>()),
      StartsWith("policy 'mine' (broken.so), step 1: keeps expert 0 in C, it is to keep experts in F"));
  CHECK_THAT(complaint_of(entry_of<NoState>()),
             Contains("step 1: says of expert 0 that it is in state number 9, there are 5"));
  CachePolicyEntry with_pools = entry_of<NoState>();
  with_pools.uses_pools = true;
  CHECK_THAT(complaint_of(with_pools), Contains("state number 9"));
}

TEST_CASE("guard: an expert that a cache says it took is there") {
  CHECK(complaint_of(entry_of<Boaster>()) ==
        "policy 'mine' (broken.so), step 2: says that it took expert 3, and does not hold it");
}

TEST_CASE("guard: a cache holds no expert that was neither used nor prefetched") {
  CHECK(complaint_of(entry_of<Conjurer>()) ==
        "policy 'mine' (broken.so), step 1: holds expert 3 in F, which was neither used nor prefetched");
  CHECK(complaint_of(entry_of<FullFromTheStart>()) ==
        "policy 'mine' (broken.so): holds expert 2 in F, which was neither used nor prefetched");
  CachePolicyEntry preloads = entry_of<FullFromTheStart>();
  preloads.preloads = true;
  CHECK(complaint([&] { make_cache_policy(preloads, shape_of_four(), {})->begin_step({}); }) == "");
}

TEST_CASE("guard: a cache that holds experts from the start keeps them, and no others") {
  class Forgetful : public FullFromTheStart {
   public:
    using FullFromTheStart::FullFromTheStart;
    void use(const ExpertUse&) override { states_[2] = State::M, order_.clear(); }
  };
  class Greedy : public FullFromTheStart {
   public:
    using FullFromTheStart::FullFromTheStart;
    void use(const ExpertUse& use) override { keep(use.object); }
  };
  CachePolicyEntry forgetful = entry_of<Forgetful>(), greedy = entry_of<Greedy>();
  forgetful.preloads = greedy.preloads = true;
  CHECK_THAT(complaint_of(forgetful), Contains("step 1: holds expert 2 no more"));
  CHECK_THAT(complaint_of(greedy), Contains("step 1: "));
}

TEST_CASE("guard: a cache with pools has no parts that nothing brought") {
  class Grower : public SoundCache {  // S, then F without a use
   public:
    using SoundCache::SoundCache;
    void begin_step(const CacheStep&) override {
      if (++steps_ == 3) states_[1] = State::F;
    }
    void use(const ExpertUse& use) override { states_[use.object] = State::S; }
    double bytes_held() const override {
      return states_[1] == State::F ? 10 : states_[1] == State::S ? 5 : 0;
    }
    int steps_ = 0;
  };
  CachePolicyEntry entry = entry_of<Grower>();
  entry.uses_pools = true;
  const auto policy = make_cache_policy(entry, shape_of_four(), {});
  policy->begin_step({});
  policy->use({.object = 1});
  policy->begin_step({});
  CHECK(complaint([&] { policy->begin_step({}); }) ==
        "policy 'mine' (broken.so), step 3: holds expert 1 in F, of which it had another part, and was given "
        "none");
}

TEST_CASE("guard: what a cache throws is told, whatever it is") {
  CHECK(complaint_of(entry_of<FailingCache<Failure::standard>>()) ==
        "policy 'mine' (broken.so), step 1: throws: no expert 12");
  CHECK(complaint_of(entry_of<FailingCache<Failure::input>>()) ==
        "policy 'mine' (broken.so), step 1: throws: alpha is 2");
  CHECK(complaint_of(entry_of<FailingCache<Failure::foreign>>()) ==
        "policy 'mine' (broken.so), step 1: throws what is no std::exception");
}

TEST_CASE("guard: a maker may refuse its parameters, and may neither fail nor make nothing") {
  CachePolicyEntry entry = entry_of<SoundCache>();
  entry.make = [](const CacheShape&, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    return nullptr;
  };
  CHECK(complaint_of(entry) == "policy 'mine' (broken.so): its maker gives no policy");
  entry.make = [](const CacheShape&, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    fail_by(Failure::foreign);
  };
  CHECK(complaint_of(entry) == "policy 'mine' (broken.so): throws what is no std::exception");
  entry.make = [](const CacheShape&, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    fail_by(Failure::input);
  };
  try {
    make_cache_policy(entry, shape_of_four(), {});
    FAIL("no error");
  } catch (const PolicyError&) {
    FAIL("a refusal of parameters is no broken rule");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()) == "alpha is 2");
  }
}

TEST_CASE("guard: a cache's states stay where they are, one for each expert") {
  class Moving : public SoundCache {
   public:
    using SoundCache::SoundCache;
    std::span<const State> states() const override { return others_.empty() ? states_ : others_; }
    void begin_request() override { others_ = states_; }
    std::vector<State> others_;
  };
  class Short : public SoundCache {
   public:
    using SoundCache::SoundCache;
    std::span<const State> states() const override { return std::span(states_).first(3); }
  };
  CHECK(complaint_of(entry_of<Moving>()) ==
        "policy 'mine' (broken.so): has moved its states, which stay where they are as long as it lives");
  CHECK(complaint_of(entry_of<Short>()) ==
        "policy 'mine' (broken.so): gives the states of 3 experts, its domain has 4");
}

TEST_CASE("guard: the loop reads states that the guard has looked at") {
  class Exposed : public SoundCache {
   public:
    using SoundCache::SoundCache;
    using SoundCache::states_;
  };
  static Exposed* made = nullptr;
  CachePolicyEntry entry = entry_of<Exposed>();
  entry.make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    auto policy = std::make_unique<Exposed>(shape);
    made = policy.get();
    return policy;
  };
  const auto policy = make_cache_policy(entry, shape_of_four(), {});
  policy->begin_step({});
  policy->use({.object = 1});
  const std::span<const State> states = policy->states();
  CHECK(states[1] == State::F);
  made->states_[0] = static_cast<State>(77);  // at a time when it is not asked
  CHECK(states[0] == State::M);
  CHECK_THAT(complaint([&] { policy->begin_step({}); }),
             Contains("says of expert 0 that it is in state number 77"));
}

TEST_CASE("guard: a state that changes is found wherever it is, in domains of any size") {
  class Ghost : public SoundCache {  // shows one expert for one step, and counts it
   public:
    using SoundCache::SoundCache;
    void begin_step(const CacheStep& step) override {
      states_[step.tokens] = step.prompt_tokens == 0 ? State::M : State::F;
      shown_ = step.prompt_tokens;
    }
    double bytes_held() const override { return 10.0 * shown_; }
    std::uint32_t shown_ = 0;
  };
  for (std::uint64_t seed = 0; seed < random_runs(2000); ++seed) {
    Random draws(seed);
    CacheShape shape = shape_of_four();
    shape.objects = 1 + below(draws, seed % 4 == 0 ? 3000 : 70);
    const auto ghost = below(draws, shape.objects);
    const auto policy = make_cache_policy(entry_of<Ghost>(), shape, {});
    const std::string complained = complaint([&] {
      policy->begin_step({.tokens = below(draws, shape.objects), .prompt_tokens = 0});
      policy->begin_step({.tokens = ghost, .prompt_tokens = 1});
    });
    if (complained != "policy 'mine' (broken.so), step 2: holds expert " + std::to_string(ghost) +
                          " in F, which was neither used nor prefetched")
      FAIL("seed " << seed << ", " << shape.objects << " experts, " << ghost << ": " << complained);
  }
}

TEST_CASE("guard: what a cache keeps is seen through its guard as without it") {
  for (std::uint64_t seed = 0; seed < random_runs(2000); ++seed) {
    Random draws(seed);
    CacheShape shape = shape_of_four();
    shape.objects = 1 + below(draws, 600);
    shape.capacity_bytes = 10.0 * below(draws, shape.objects + 1);
    SoundCache plain(shape);
    const auto guarded = make_cache_policy(entry_of<SoundCache>(), shape, {});
    for (int step = 0; step < 20; ++step) {
      std::vector<ExpertUse> uses;
      for (std::uint32_t object = 0; object < shape.objects; ++object)
        if (below(draws, shape.objects) < 8) uses.push_back({.object = object});
      plain.use_all(uses);
      guarded->use_all(uses);
      const auto fetched = below(draws, shape.objects);
      if (plain.insert(fetched) != guarded->insert(fetched)) FAIL("seed " << seed << ", step " << step);
      if (!std::ranges::equal(plain.states(), guarded->states()) ||
          plain.bytes_held() != guarded->bytes_held())
        FAIL("seed " << seed << ", step " << step);
    }
  }
}

}  // namespace moelab::guard_cache_test
