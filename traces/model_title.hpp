// What errors call a trace that was handed over already open.
#pragma once

#include <string>

#include "traces/routing_trace.hpp"

namespace moelab {

/// The model's identity, or that it is not known.
inline std::string model_title(const RoutingTrace& trace) {
  return trace.model().empty() ? "an unknown model" : trace.model();
}

}  // namespace moelab
