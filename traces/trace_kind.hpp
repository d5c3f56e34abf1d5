// Which kind of trace a file is.
#pragma once

#include <cstdint>
#include <string>

namespace moelab {

enum class TraceKind : std::uint8_t { routing, counts };

/// What the file says it is; read_routing_trace or read_counts_trace then say whether that is so. Throws
/// InputError if it is no safetensors file, or of another format.
TraceKind kind_of_trace(const std::string& path);

}  // namespace moelab
