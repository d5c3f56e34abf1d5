// The trace that comes with the program: recorded from a small model that this project trained
// (traces/default/PROVENANCE.md), with prompt and decode tokens, gates, the logits of all experts and
// look-ahead.
#pragma once

#include <string>
#include <string_view>

#include "traces/routing_trace.hpp"

namespace moelab {

inline constexpr const char* kDefaultTrace = "debian-moe-8x32";

/// Whether `name` is kDefaultTrace, and no file of that name exists. Throws InputError if it is nearly that
/// and there is no such file.
bool is_default_trace(const std::string& name);
/// Its file, as it is in the program.
std::string_view default_trace_bytes();
/// The default trace, or read_routing_trace of a file.
RoutingTrace open_routing_trace(const std::string& name);

}  // namespace moelab
