// The trace that comes with the program: recorded from a small model that this project trained
// (traces/default/PROVENANCE.md), with prompt and decode tokens, gates, the logits of all experts and
// look-ahead.
#pragma once

#include <string>

#include "traces/routing_trace.hpp"

namespace moelab {

inline constexpr const char* kDefaultTrace = "debian-moe-8x32";

/// read_routing_trace of a file; or the default trace, where `name` is kDefaultTrace and no such file exists.
RoutingTrace open_routing_trace(const std::string& name);

}  // namespace moelab
