// moelab.PrefetchPolicy.
#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object shape_in_python(const PrefetchShape& shape) {
  return named("PrefetchShape", shape.layers, shape.experts, shape.top_k, shape.seed, shape.load_s,
               shape.gpu_s, new_array(shape.cpu_s));
}

/// Rows of all tokens, one behind the other.
template <class T, class RowOf>
nb::object rows_in_python(std::span<const GateAhead> tokens, const RowOf& row_of) {
  const std::size_t width = tokens.empty() ? 0 : row_of(tokens.front()).size();
  std::vector<T> values;
  values.reserve(tokens.size() * width);
  for (const GateAhead& token : tokens) {
    const std::span<const T> row = row_of(token);
    values.insert(values.end(), row.begin(), row.end());
  }
  return new_array<T>(values, {tokens.size(), width});
}

class PythonPrefetch final : public PrefetchPolicy {
 public:
  PythonPrefetch(const PythonPolicy& type, const PrefetchShape& shape, const PolicyParameters& parameters)
      : use_records_("USE") {
    in_python([&] {
      const nb::object policy = type.make(parameters, shape_in_python(shape));
      begin_request_ = own_method(policy, "PrefetchPolicy", "begin_request");
      begin_step_ = own_method(policy, "PrefetchPolicy", "begin_step");
      gate_ahead_ = own_method(policy, "PrefetchPolicy", "gate_ahead");
      after_gate_ = Held(policy.attr("after_gate"));
      gates_ahead_ = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(whole_number(policy.attr("gates_ahead"), "gates_ahead"), shape.layers));
    });
  }

  void begin_request() override {
    if (begin_request_) in_python([&] { begin_request_.get()(); });
  }
  void begin_step() override {
    if (begin_step_) in_python([&] { begin_step_.get()(); });
  }
  std::uint32_t gates_ahead() const override { return gates_ahead_; }
  void gate_ahead(std::uint32_t layer, std::span<const GateAhead> tokens,
                  std::span<const std::uint8_t> resident) override {
    if (!gate_ahead_) return;
    in_python([&] {
      const bool predicts = !tokens.empty() && !tokens.front().predicted.empty();
      nb::object predicted = nb::none();
      if (predicts)
        predicted = rows_in_python<std::uint16_t>(tokens, [](const auto& t) { return t.predicted; });
      gate_ahead_.get()(
          layer,
          named("GatesAhead", rows_in_python<std::uint16_t>(tokens, [](const auto& t) { return t.chosen; }),
                rows_in_python<float>(tokens, [](const auto& t) { return t.scores; }), predicted),
          flags_in_python(resident));
    });
  }
  void after_gate(std::uint32_t layer, std::span<const ExpertUse> uses,
                  std::vector<Fetch>& fetches) override {
    in_python([&] {
      const nb::object answer = after_gate_.get()(layer, use_records_.of(uses));
      const std::vector<std::uint32_t> wishes = counts(answer, "after_gate", {kAny, 2});
      for (std::size_t i = 0; i + 1 < wishes.size(); i += 2) fetches.push_back({wishes[i], wishes[i + 1]});
    });
  }

 private:
  Records use_records_;
  Held begin_request_, begin_step_, gate_ahead_, after_gate_;
  std::uint32_t gates_ahead_ = 0;
};

}  // namespace

PrefetchPolicyEntry prefetch_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .needs_all_scores = type.flag("needs_all_scores"),
          .runs_attention_ahead = type.flag("runs_attention_ahead"),
          .make = [&type](const PrefetchShape& shape,
                          const PolicyParameters& parameters) -> std::unique_ptr<PrefetchPolicy> {
            return std::make_unique<PythonPrefetch>(type, shape, parameters);
          }};
}

}  // namespace moelab
