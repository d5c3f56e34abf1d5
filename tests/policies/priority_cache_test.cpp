#include "policies/cache/priority_cache.hpp"

#include <limits>
#include <set>
#include <tuple>

#include "policies/check/policy_check.hpp"
#include "tests/policies/naive_cache.hpp"

namespace moelab::priority_cache_test {
namespace {

using namespace moelab::naive_cache;
using Answer = std::function<void(const CacheFeatures&, std::span<double>)>;

/// Priorities by a function, and the features that it was asked with last.
class Asked final : public PriorityCache {
 public:
  Asked(const CacheShape& shape, Answer answer) : PriorityCache(shape), answer_(std::move(answer)) {}
  std::vector<float> features;

 private:
  void prioritize(const CacheFeatures& told, std::span<double> priorities) override {
    features.assign(told.table.begin(), told.table.end());
    answer_(told, priorities);
  }
  Answer answer_;
};

/// A priority for each expert by its features alone.
Answer each(float (*priority)(const CacheFeatures&, std::uint32_t)) {
  return [priority](const CacheFeatures& told, std::span<double> priorities) {
    for (std::uint32_t o = 0; o < priorities.size(); ++o) priorities[o] = priority(told, o);
  };
}

// ---- The features and the choice again, from the whole history at every step. ----

struct PastStep {
  CacheStep step;
  std::vector<ExpertUse> uses;
  std::uint32_t request = 0;
};

const ExpertUse* find_use(const PastStep& past, std::uint32_t object) {
  for (const ExpertUse& use : past.uses)
    if (use.object == object) return &use;
  return nullptr;
}

struct NaivePriorities {
  CacheShape shape;
  std::uint32_t places;
  std::vector<PastStep> history = {};
  std::uint32_t request = 0;
  std::set<std::uint32_t> held = {}, fetched = {};
  std::vector<double> priorities = std::vector<double>(shape.objects);

  std::uint32_t layer_of(std::uint32_t object) const { return object / (shape.objects / shape.layers); }

  /// The steps of an expert's layer, the last one first.
  std::vector<PastStep> steps_of(std::uint32_t object) const {
    std::vector<PastStep> steps;
    for (std::size_t t = history.size(); t-- > 0;)
      if (history[t].step.layer == layer_of(object)) steps.push_back(history[t]);
    return steps;
  }
  double share_in(std::uint32_t object, std::uint32_t of_request) const {
    double steps = 0, used = 0;
    for (const PastStep& past : steps_of(object)) {
      if (past.request != of_request) continue;
      ++steps;
      used += find_use(past, object) != nullptr;
    }
    return steps == 0 ? 0 : used / steps;
  }
  /// Over all steps of its layer in which it was used, each counting half as much as one 16 steps later.
  double decayed(std::uint32_t object, bool scores) const {
    const std::vector<PastStep> steps = steps_of(object);
    double sum = 0;
    for (std::size_t ago = 0; ago < steps.size(); ++ago)
      if (const ExpertUse* use = find_use(steps[ago], object))
        sum += std::pow(0.5, static_cast<double>(ago) / 16) * (1 - std::pow(0.5, 1 / 16.0)) *
               (scores ? 1.0 * use->score / steps[ago].step.tokens : 1.0);
    return sum;
  }
  std::array<double, kCacheFeatures> features(std::uint32_t object) const {
    const std::vector<PastStep> steps = steps_of(object);
    std::vector<double> used;  // how many steps ago
    for (std::size_t ago = 0; ago < steps.size(); ++ago)
      if (find_use(steps[ago], object) != nullptr) used.push_back(static_cast<double>(ago));
    const double all = static_cast<double>(steps.size()), times = static_cast<double>(used.size());
    const CacheStep& now = history.back().step;
    const ExpertUse* last = steps.empty() ? nullptr : find_use(steps[0], object);
    const std::uint32_t layer = layer_of(object);
    std::uint32_t on = 1;  // layers from the one that ran to its own
    while ((now.layer + on) % shape.layers != layer) ++on;
    return {times == 0 ? all : used[0],
            times == 0 ? all : (times > 1 ? used[1] : all) - used[0],
            all == 0 ? 0 : times / all,
            decayed(object, false),
            share_in(object, request),
            request == 0 ? 0 : share_in(object, request - 1),
            decayed(object, true),
            last == nullptr ? 0 : 1.0 * last->tokens / steps[0].step.tokens,
            shape.model_layers == 1 ? 0 : (shape.first_layer + layer) / (shape.model_layers - 1.0),
            1.0 * on / shape.layers,
            1.0 * now.prompt_tokens / now.tokens,
            held.count(object) != 0 ? 1.0 : 0.0,
            fetched.count(object) != 0 ? 1.0 : 0.0};
  }

  /// In the order in which experts stay.
  void sort(std::vector<std::uint32_t>& objects) const {
    const auto used_at = [this](std::uint32_t object) {
      for (std::size_t t = history.size(); t-- > 0;)
        if (find_use(history[t], object) != nullptr) return static_cast<int>(t);
      return -1;
    };
    std::sort(objects.begin(), objects.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(-priorities[a], -used_at(a), a) < std::tuple(-priorities[b], -used_at(b), b);
    });
  }
  void choose() {
    std::set<std::uint32_t> either = held;
    for (const ExpertUse& use : history.back().uses) either.insert(use.object);
    std::vector<std::uint32_t> best(either.begin(), either.end());
    sort(best);
    best.resize(std::min<std::size_t>(best.size(), places));
    held = {best.begin(), best.end()};
    std::erase_if(fetched, [this](std::uint32_t o) { return held.count(o) == 0; });
  }
  bool insert(std::uint32_t object) {
    if (held.count(object) != 0) return true;
    if (held.size() == places) {
      std::vector<std::uint32_t> ranked(held.begin(), held.end());
      sort(ranked);
      if (ranked.empty() || priorities[ranked.back()] >= priorities[object]) return false;
      held.erase(ranked.back());
      fetched.erase(ranked.back());
    }
    held.insert(object);
    fetched.insert(object);
    return true;
  }
};

CacheShape drawn_shape(Random& random) {
  const std::uint32_t layers = 1 + below(random, 4), experts = 1 + below(random, 6);
  CacheShape shape = full_only(layers * experts, below(random, layers * experts + 1));
  shape.layers = layers;
  shape.first_layer = layers == 1 ? below(random, 3) : 0;
  shape.model_layers = shape.first_layer + layers + (layers == 1 ? below(random, 3) : 0);
  return shape;
}

PastStep drawn_step(Random& random, const CacheShape& shape, std::uint32_t layer) {
  PastStep drawn;
  const std::uint32_t tokens = 1 + below(random, 5);
  drawn.step = {layer, tokens, below(random, tokens + 1)};
  const std::uint32_t experts = shape.objects / shape.layers;
  for (std::uint32_t e = 0; e < experts; ++e)
    if (below(random, 3) == 0)
      drawn.uses.push_back({.object = layer * experts + e,
                            .tokens = 1 + below(random, tokens),
                            .score = static_cast<float>(uniform(random, 0, 2))});
  return drawn;
}

/// Steps as the serving loop takes them, with next_use; returns hits.
std::uint64_t replay_steps(CachePolicy& cache, const Trace& trace, std::uint32_t objects) {
  const auto next = next_uses(trace, objects);
  std::uint64_t hits = 0;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    std::vector<ExpertUse> uses;
    cache.begin_step({});
    for (std::size_t i = 0; i < trace[t].size(); ++i) {
      hits += cache.state(trace[t][i]) != State::M;
      uses.push_back({.object = trace[t][i], .next_use = next[t][i]});
    }
    cache.use_all(uses);
  }
  return hits;
}

/// Whether it holds what the named policy holds after each step; `single`: steps of one expert each.
void require_same_as(std::string_view name, const Answer& answer, bool single) {
  Random random(43);
  for (int instance = 0; instance < random_runs(1000); ++instance) {
    const std::uint32_t objects = 1 + below(random, 20);
    const CacheShape shape = full_only(objects, below(random, objects + 2));
    Asked asked(shape, answer);
    const auto named = make(name, shape);
    for (Step step : trace_of(kKinds[instance % 4], random, objects, 60)) {
      if (single) step.resize(1);
      replay_steps(asked, {step}, objects);
      replay_steps(*named, {step}, objects);
      for (std::uint32_t o = 0; o < objects; ++o)
        if (asked.state(o) != named->state(o)) FAIL(name << ", instance " << instance << ": expert " << o);
    }
  }
}

}  // namespace

TEST_CASE("a priority cache's features and choices are those of its whole history") {
  Random random(37);
  for (int instance = 0; instance < random_runs(3000); ++instance) {
    const CacheShape shape = drawn_shape(random);
    NaivePriorities naive{shape, static_cast<std::uint32_t>(shape.capacity_bytes / 10)};
    Asked asked(shape, [&](const CacheFeatures&, std::span<double> priorities) {
      for (double& p : naive.priorities) p = below(random, 4);  // with ties
      std::copy(naive.priorities.begin(), naive.priorities.end(), priorities.begin());
    });
    const std::uint32_t steps = 1 + below(random, 30);
    const bool prefetches = below(random, 2) == 0;
    for (std::uint32_t t = 0; t < steps; ++t) {
      if (below(random, 5) == 0) asked.begin_request(), ++naive.request;
      if (const std::uint32_t o = below(random, shape.objects); prefetches && below(random, 2) == 0)
        REQUIRE(asked.insert(o) == naive.insert(o));
      PastStep step = drawn_step(random, shape, t % shape.layers);
      step.request = naive.request;
      asked.begin_step(step.step);
      asked.use_all(step.uses);
      naive.history.push_back(step);
      std::erase_if(naive.fetched, [&](std::uint32_t o) { return naive.layer_of(o) == step.step.layer; });
      for (std::uint32_t o = 0; o < shape.objects; ++o) {
        const std::array<double, kCacheFeatures> expected = naive.features(o);
        for (std::size_t f = 0; f < kCacheFeatures; ++f)
          if (std::abs(asked.features[o * kCacheFeatures + f] - expected[f]) >
              1e-5 * std::max(1.0, expected[f]))
            FAIL("instance " << instance << ", step " << t << ": " << kCacheFeatureNames[f] << " of " << o);
      }
      naive.choose();
      for (std::uint32_t o = 0; o < shape.objects; ++o)
        if ((asked.state(o) == State::F) != (naive.held.count(o) != 0))
          FAIL("instance " << instance << ", step " << t << ": expert " << o);
    }
  }
}

TEST_CASE("a priority cache by recency is lru") {
  // Without prefetches LRU holds those used last, and of one step's, reported in ascending order, those of
  // the higher numbers: so it is by recency alone where steps use one expert, and by both where they use
  // several.
  const auto recency =
      each([](const CacheFeatures& told, std::uint32_t o) { return -told.of(o, CacheFeature::recency); });
  require_same_as("lru", recency, true);
  const auto and_number = each([](const CacheFeatures& told, std::uint32_t o) {
    return static_cast<float>(o) - 1000 * told.of(o, CacheFeature::recency);
  });
  require_same_as("lru", and_number, false);
}

TEST_CASE("a priority cache by frequency that keeps the expert used now is lfu") {
  // LFU lets the newcomer in whatever its count, and among equals the one used last stays.
  const auto frequency = each([](const CacheFeatures& told, std::uint32_t o) {
    return told.of(o, CacheFeature::frequency) + (told.of(o, CacheFeature::recency) == 0 ? 1.0F : 0.0F);
  });
  require_same_as("lfu", frequency, true);
}

TEST_CASE("a priority cache by next use gets belady's hits") {
  // The optimum over all that may refuse experts; which of two that are never used again stays is open.
  Random random(47);
  for (int instance = 0; instance < random_runs(1000); ++instance) {
    const std::uint32_t objects = 2 + below(random, 30);
    const CacheShape shape = full_only(objects, below(random, objects));
    const Trace trace = trace_of(kKinds[instance % 4], random, objects, 150);
    std::vector<float> next(objects, 0);
    Asked asked(shape, [&next](const CacheFeatures& told, std::span<double> priorities) {
      for (const ExpertUse& use : told.uses)
        next[use.object] = use.next_use == kNeverUsedAgain ? std::numeric_limits<float>::infinity()
                                                           : static_cast<float>(use.next_use);
      for (std::uint32_t o = 0; o < priorities.size(); ++o) priorities[o] = -next[o];
    });
    const auto belady = make("belady", shape, {{"bypass", 1}});
    REQUIRE(replay_steps(asked, trace, objects) == replay_steps(*belady, trace, objects));
  }
}

TEST_CASE("a priority cache takes a prefetched expert of a higher priority than the lowest it holds") {
  Asked cache(full_only(4, 2), each([](const CacheFeatures&, std::uint32_t o) {
                return std::array{2.0F, 1.0F, 1.0F, 3.0F}[o];
              }));
  CHECK(cache.insert(1));  // there is room
  const ExpertUse uses[] = {{.object = 0}};
  cache.use_all(uses);
  CHECK_FALSE(cache.insert(2));  // no higher than 1
  CHECK(cache.insert(0));        // held
  CHECK(cache.insert(3));
  CHECK((cache.state(0) == State::F && cache.state(1) == State::M && cache.state(3) == State::F));
}

TEST_CASE("a priority that is not a number is an error that names the expert") {
  Asked cache(full_only(3, 2), each([](const CacheFeatures&, std::uint32_t o) {
                return o == 1 ? std::numeric_limits<float>::quiet_NaN() : 0;
              }));
  CHECK_THROWS_WITH(cache.use_all({}), "the priority of expert 1 is not a number");
}

TEST_CASE("a priority cache keeps the rules of its family") {
  CachePolicyEntry entry{.info = {.name = "asked", .help = "by all features", .source = "test"},
                         .may_span_model = true,
                         .needs_scores = true,
                         .make = {}};
  entry.make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
    return std::make_unique<Asked>(shape, each([](const CacheFeatures& told, std::uint32_t o) {
                                     float sum = 0;
                                     for (const float value : told.row(o)) sum = 0.7F * sum + value;
                                     return sum;
                                   }));
  };
  CHECK(check_policy(entry).broken.empty());
}

TEST_CASE("a priority cache's features have different names") {
  CHECK(std::set<std::string_view>(kCacheFeatureNames.begin(), kCacheFeatureNames.end()).size() ==
        kCacheFeatures);
  CHECK(static_cast<std::size_t>(CacheFeature::fetched) + 1 == kCacheFeatures);
}

}  // namespace moelab::priority_cache_test
