// moelab.PressurePolicy.
#include "python/policies/families.hpp"

namespace moelab {
namespace {

std::size_t requests_of(const PythonPolicy& type, const PressureTerms& terms,
                        const PolicyParameters& parameters) {
  return in_python([&] {
    const nb::object answer =
        type.make(parameters)
            .attr("requests")(named("PressureTerms", new_array(terms.kv_bytes), new_array(terms.step_s),
                                    new_array(terms.used), terms.room_bytes, terms.expert_bytes,
                                    terms.experts, terms.load_s));
    return static_cast<std::size_t>(whole_number(answer, "requests"));
  });
}

}  // namespace

PressurePolicyEntry pressure_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .needs_costs = type.flag("needs_costs"),
          .requests = [&type](const PressureTerms& terms, const PolicyParameters& parameters) {
            return requests_of(type, terms, parameters);
          }};
}

}  // namespace moelab
