// Checks of policies: all that moelab ships pass, and what is wrong with others is found and told.
#include "policies/check/policy_check.hpp"
#include "policies/policy_families.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/policies/guard_cases.hpp"
#include "tests/random_runs.hpp"

namespace moelab::policy_check_test {

using namespace moelab::guard_cases;
using moelab::test::random_runs;

namespace {

class KeepsNothing : public CachePolicy {
 public:
  explicit KeepsNothing(const CacheShape& shape) : shape_(shape), states_(shape.objects, State::M) {}
  std::span<const State> states() const override { return states_; }
  void use(const ExpertUse&) override {}
  double bytes_held() const override { return 0; }

 protected:
  CacheShape shape_;
  std::vector<State> states_;
};

template <class Policy>
CachePolicyEntry cache_of() {
  return {.info = from_library(),
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Policy>(shape);
          }};
}

/// Another answer each time it is asked.
class Capricious : public KeepsNothing {
 public:
  using KeepsNothing::KeepsNothing;
  void use(const ExpertUse& use) override {
    static std::uint64_t uses = 0;
    if (shape_.bytes[index(shape_.kept_as)] > shape_.capacity_bytes || ++uses % 3 != 0) return;
    if (held_ != kNone) states_[held_] = State::M;
    held_ = use.object;
    states_[held_] = shape_.kept_as;
  }
  double bytes_held() const override { return held_ == kNone ? 0 : shape_.bytes[index(shape_.kept_as)]; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t held_ = kNone;
};

/// Keeps all that was used: fits large memories only.
class Unbounded : public KeepsNothing {
 public:
  using KeepsNothing::KeepsNothing;
  void use(const ExpertUse& use) override { states_[use.object] = shape_.kept_as; }
  double bytes_held() const override {
    double bytes = 0;
    for (const State state : states_) bytes += shape_.bytes[index(state)];
    return bytes;
  }
};

}  // namespace

TEST_CASE("check: every policy that moelab ships keeps the rules of its family") {
  std::size_t policies = 0;
  for (const auto& [family, shipped] : policy_families())
    for (const PolicyInfo& info : shipped) {
      const std::string name(info.name);
      // An exhaustive search takes a hundred times as long as the others.
      const std::uint64_t instances =
          name == "exhaustive" ? random_runs(300u, 40u) : random_runs(3000u, 400u);
      const PolicyCheck check = check_policy(family, name, {.instances = instances, .seed = 7});
      CAPTURE(family, name);
      CHECK(check.broken == "");
      CHECK(check.instances == instances);
      CHECK(check.refused < instances / 2);
      CHECK(check.policy == name);
      CHECK(check.family == family);
      ++policies;
    }
  CHECK(policies == cache_policies().size() + prefetch_policies().size() + schedule_policies().size() +
                        routing_policies().size() + execution_policies().size() + batching_policies().size() +
                        storage_policies().size() + residency_policies().size() +
                        placement_policies().size() + planning_policies().size() +
                        pressure_policies().size());
}

TEST_CASE("check: a policy that breaks a rule is told with the instance, and no more are played") {
  const PolicyCheck check = check_policy(cache_of<Unbounded>());
  CHECK_THAT(check.broken,
             StartsWith("instance 0: policy 'mine' (broken.so), step ") && Contains(", its memory is 0 B"));
  CHECK(check.instances == 1);
  CHECK(check_policy(cache_of<KeepsNothing>(), {.instances = 50}).broken == "");
}

TEST_CASE("check: a policy answers the same when it is asked the same") {
  CHECK_THAT(check_policy(cache_of<Capricious>()).broken,
             Contains(": answers otherwise when it is asked the same again"));
}

TEST_CASE("check: a policy that refuses every instance is no policy") {
  CachePolicyEntry refuses = cache_of<KeepsNothing>();
  refuses.make = [](const CacheShape&, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    throw InputError("", "not this one");
  };
  const PolicyCheck check = check_policy(refuses, {.instances = 20});
  CHECK(check.refused == 20);
  CHECK(check.broken == "it refuses every instance, the last one so: not this one");
  CachePolicyEntry choosy = refuses;  // some it takes
  choosy.make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    if (shape.objects == 1) throw InputError("", "a single expert");
    return std::make_unique<KeepsNothing>(shape);
  };
  const PolicyCheck some = check_policy(choosy, {.instances = 200});
  CHECK(some.broken == "");
  CHECK(some.refused >= 2);  // the smallest ones
  CHECK(some.refused < 100);
}

TEST_CASE("check: what an entry says that it needs is there, and what it does not say is not") {
  class Needing : public KeepsNothing {
   public:
    explicit Needing(const CacheShape& shape) : KeepsNothing(shape), experts_(shape.objects / shape.layers) {
      if (shape.profile.size() != shape.objects) throw std::logic_error("no profile");
    }
    void begin_step(const CacheStep&) override { observed_ = false; }
    void observe(std::span<const float> scores) override { observed_ = scores.size() == experts_; }
    void use(const ExpertUse&) override {
      if (!observed_) throw std::logic_error("no scores");
    }
    std::size_t experts_;
    bool observed_ = false;
  };
  CachePolicyEntry entry = cache_of<Needing>();
  CHECK_THAT(check_policy(entry).broken, Contains("throws: no profile"));
  entry.needs_profile = true;
  CHECK_THAT(check_policy(entry).broken, Contains("throws: no scores"));
  entry.needs_all_scores = true;
  CHECK(check_policy(entry, {.instances = 100}).broken == "");
}

TEST_CASE("check: parameters come at their defaults, their bounds and between") {
  static double least = 0, most = 0;
  static bool as_default = false, between = false;
  least = 100, most = -100;
  CachePolicyEntry entry = cache_of<KeepsNothing>();
  entry.info.parameters = {{"alpha", "", 0.5, -1, 4, ""}};
  entry.make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
    as_default |= values.empty();
    if (const auto alpha = values.find("alpha"); alpha != values.end()) {
      least = std::min(least, alpha->second);
      most = std::max(most, alpha->second);
      between |= alpha->second > -1 && alpha->second < 4;
    }
    return std::make_unique<KeepsNothing>(shape);
  };
  CHECK(check_policy(entry, {.instances = 200}).broken == "");
  CHECK(least == -1);
  CHECK(most == 4);
  CHECK(as_default);
  CHECK(between);
}

TEST_CASE("check: a batching policy holds nothing when all requests are answered") {
  class NeverDone final : public BatchingPolicy {  // of its last request it keeps a promise
   public:
    explicit NeverDone(const BatchingShape& shape)
        : inner_(find_batching_policy("static")->make(shape, {})) {}
    std::string misfit(const BatchRequest& request) const override { return inner_->misfit(request); }
    void arrive(const BatchRequest& request) override { inner_->arrive(request); }
    bool form(BatchStep& step) override { return inner_->form(step); }
    void complete() override { inner_->complete(); }
    void resize(std::uint64_t blocks) override { inner_->resize(blocks); }
    KvUse use() const override {
      KvUse use = inner_->use();
      use.gpu_floor = std::max<std::uint64_t>(use.gpu_floor, 1);
      return use;
    }
    std::unique_ptr<BatchingPolicy> inner_;
  };
  const BatchingPolicyEntry entry{
      .info = from_library(),
      .make = [](const BatchingShape& shape, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
        return std::make_unique<NeverDone>(shape);
      }};
  CHECK_THAT(check_policy(entry).broken,
             Contains("when all requests are answered 0 blocks are in use, and 1 promised"));
}

TEST_CASE("check: names that there are not, and the nearest ones") {
  CHECK_THROWS_WITH(check_policy("cach", "lru"), "no family 'cach' (did you mean 'cache'?)");
  CHECK_THROWS_WITH(check_policy("cache", "lruu"), "no policy 'lruu' of family cache (did you mean 'lru'?)");
  CHECK_THROWS_AS(check_policy("caches and more", "lru"), InputError);
}

}  // namespace moelab::policy_check_test
