// Some requests of a trace as a trace of their own.
#pragma once

#include <cstdint>
#include <span>

#include "traces/routing_trace.hpp"

namespace moelab {

/// The requests with these numbers, in this order, with everything that the trace says of them; at least one
/// token in all.
RoutingTrace slice(const RoutingTrace& trace, std::span<const std::uint32_t> requests);

}  // namespace moelab
