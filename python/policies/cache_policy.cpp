// moelab.CachePolicy: one call of Python a layer step, beside those that its class has.
#include <array>

#include "policies/cache/experts_that_fit.hpp"
#include "policies/cache/priority_cache.hpp"
#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object shape_in_python(const CacheShape& shape) {
  const double each = shape.bytes[index(shape.kept_as)];
  const std::uint32_t places =
      each > 0 ? experts_that_fit(shape.capacity_bytes, each, shape.objects) : shape.objects;
  return named(
      "CacheShape", shape.objects, shape.layers, places, shape.capacity_bytes,
      new_array<double>(shape.bytes, {kStates}), new_array<std::uint32_t>(shape.pool_experts, {kStates}),
      of_policies("State")(index(shape.kept_as)), shape.top_k,
      new_array<double>(shape.profile, {shape.profile.size()}), shape.first_layer, shape.model_layers);
}

nb::object step_in_python(const CacheStep& step) {
  return named("CacheStep", step.layer, step.tokens, step.prompt_tokens);
}

class PythonCache final : public CachePolicy {
 public:
  PythonCache(const PythonPolicy& type, const CacheShape& shape, const PolicyParameters& parameters)
      : bytes_(shape.bytes), use_records_("USE") {
    in_python([&] {
      nb::object policy = type.make(parameters, shape_in_python(shape));
      find_states(policy.attr("states"), shape.objects);
      use_ = Held(policy.attr("use"));
      begin_step_ = own_method(policy, "CachePolicy", "begin_step");
      observe_ = own_method(policy, "CachePolicy", "observe");
      begin_request_ = own_method(policy, "CachePolicy", "begin_request");
      insert_ = own_method(policy, "CachePolicy", "insert");
    });
  }

  // Python writes a State's number into each byte; the guard looks at what it wrote before it is taken for
  // one.
  std::span<const State> states() const override {
    static_assert(sizeof(State) == 1);
    return {reinterpret_cast<const State*>(states_.data()), states_.size()};
  }
  void use(const ExpertUse& use) override { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) override {
    in_python([&] { use_.get()(use_records_.of(uses)); });
  }
  void begin_step(const CacheStep& step) override {
    if (begin_step_) in_python([&] { begin_step_.get()(step_in_python(step)); });
  }
  void observe(std::span<const float> scores) override {
    if (observe_) in_python([&] { observe_.get()(new_array<float>(scores, {scores.size()})); });
  }
  void begin_request() override {
    if (begin_request_) in_python([&] { begin_request_.get()(); });
  }
  bool insert(std::uint32_t object) override {
    return insert_ && in_python([&] { return nb::cast<bool>(nb::bool_(insert_.get()(object))); });
  }

  /// Of states that are none, which the guard looks for: 0.
  double bytes_held() const override {
    std::array<std::uint32_t, 256> experts{};
    for (const std::uint8_t state : states_) ++experts[state];
    double bytes = 0;
    for (std::size_t state = 0; state < kStates; ++state) bytes += experts[state] * bytes_[state];
    return bytes;
  }

 private:
  void find_states(nb::object states, std::uint32_t objects) {
    nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> view;
    if (!nb::try_cast(states, view, false) || view.shape(0) != objects)
      throw UnusableAnswer("has put something else in the place of its states, an array of " +
                           std::to_string(objects) + " uint8");
    states_ = {view.data(), objects};
    held_states_ = Held(std::move(states));
  }

  std::array<double, kStates> bytes_;
  Records use_records_;
  std::span<const std::uint8_t> states_;  // of the array in Python
  Held held_states_;
  Held use_, begin_step_, observe_, begin_request_, insert_;
};

class PythonPriorities final : public PriorityCache {
 public:
  PythonPriorities(const PythonPolicy& type, const CacheShape& shape, const PolicyParameters& parameters)
      : PriorityCache(shape), features_(shape.objects, kCacheFeatures) {
    in_python([&] {
      const nb::object policy = type.make(parameters, shape_in_python(shape));
      priorities_ = Held(policy.attr("priorities"));
      begin_step_ = own_method(policy, "PriorityCachePolicy", "begin_step");
      begin_request_ = own_method(policy, "PriorityCachePolicy", "begin_request");
    });
  }

  void begin_step(const CacheStep& step) override {
    PriorityCache::begin_step(step);
    if (begin_step_) in_python([&] { begin_step_.get()(step_in_python(step)); });
  }
  void begin_request() override {
    PriorityCache::begin_request();
    if (begin_request_) in_python([&] { begin_request_.get()(); });
  }

 private:
  void prioritize(const CacheFeatures& features, std::span<double> priorities) override {
    in_python([&] { fill_from(priorities_.get()(features_.of(features.table)), "priorities", priorities); });
  }

  FloatTable features_;
  Held priorities_, begin_step_, begin_request_;
};

}  // namespace

CachePolicyEntry cache_entry(const PythonPolicy& type) {
  if (type.is_a("PriorityCachePolicy"))
    return {.info = type.info,
            .per_model = type.flag("per_model"),
            .may_span_model = type.flag("may_span_model"),
            .needs_scores = type.flag("needs_scores"),
            .make = [&type](const CacheShape& shape,
                            const PolicyParameters& parameters) -> std::unique_ptr<CachePolicy> {
              return std::make_unique<PythonPriorities>(type, shape, parameters);
            }};
  return {.info = type.info,
          .per_model = type.flag("per_model"),
          .may_span_model = type.flag("may_span_model"),
          .needs_future = type.flag("needs_future"),
          .needs_scores = type.flag("needs_scores"),
          .needs_all_scores = type.flag("needs_all_scores"),
          .uses_pools = type.flag("uses_pools"),
          .needs_profile = type.flag("needs_profile"),
          .preloads = type.flag("preloads"),
          .make = [&type](const CacheShape& shape,
                          const PolicyParameters& parameters) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<PythonCache>(type, shape, parameters);
          }};
}

}  // namespace moelab
