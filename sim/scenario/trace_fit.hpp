// Whether a routing trace is of a model's shape.
#pragma once

#include <string>

namespace moelab {

class RoutingTrace;
struct Architecture;

/// Throws InputError about `file` with everything in which its trace differs from the model.
void check_trace_fits(const Architecture& model, const std::string& file, const RoutingTrace& trace);

}  // namespace moelab
