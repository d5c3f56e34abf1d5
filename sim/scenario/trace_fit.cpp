#include "sim/scenario/trace_fit.hpp"

#include <algorithm>

#include "models/architecture.hpp"
#include "models/input_error.hpp"
#include "models/lower_case.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

void check_trace_fits(const Architecture& model, const std::string& file, const RoutingTrace& trace) {
  const FeedForward& ff = model.moe();
  Problems problems;
  const auto fail = [&](std::string what) { problems.add({file, 0, 0, std::move(what)}); };
  const auto compare = [&](const std::string& what, std::uint64_t has, std::uint64_t wants) {
    if (has != wants)
      fail("the trace has " + std::to_string(has) + " " + what + ", model '" + model.name + "' has " +
           std::to_string(wants));
  };
  compare("MoE layers", trace.layers(), model.moe_layers().size());
  compare("experts a layer", trace.experts(), static_cast<std::uint64_t>(ff.experts));
  compare("experts a token (k)", trace.top_k(), static_cast<std::uint64_t>(ff.top_k));
  if (trace.requests().empty()) fail("the trace has no requests");
  const auto encoded = [&](const TraceRequest& q) {
    return q.begin < q.end && trace.phase_of(q.begin) == Phase::encoder;
  };
  const auto requests = trace.requests();
  if (!model.has_encoder() && std::any_of(requests.begin(), requests.end(), encoded))
    fail("the trace has encoder tokens, model '" + model.name + "' has no encoder");
  if (model.has_encoder() && !std::all_of(requests.begin(), requests.end(), encoded))
    fail("model '" + model.name + "' has an encoder, but not every request of the trace has encoder tokens");
  problems.throw_if_any();
}

bool names_model(const std::string& identity, const Architecture& model) {
  const std::string last = lower_case(identity.substr(identity.rfind('/') + 1));
  return last == lower_case(model.name) || last == lower_case(model.title);
}

}  // namespace moelab
