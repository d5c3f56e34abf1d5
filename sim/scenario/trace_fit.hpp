// Whether a routing trace is of a model's shape.
#pragma once

#include <string>

namespace moelab {

class RoutingTrace;
struct Architecture;

/// Throws InputError about `file` with everything in which its trace differs from the model.
void check_trace_fits(const Architecture& model, const std::string& file, const RoutingTrace& trace);

/// Whether the identity of a trace or a law, such as "openai/gpt-oss-20b", names the model: its last part, in
/// any case, is the model's name or title.
bool names_model(const std::string& identity, const Architecture& model);

}  // namespace moelab
