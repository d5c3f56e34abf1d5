// What a RoutingTrace holds. Private to routing_trace*.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/routing_trace.hpp"
#include "traces/safetensors.hpp"

namespace moelab {

/// Names in the file, as traces/README.md specifies them.
inline constexpr std::string_view kTraceFormat = "moelab-routing";
inline constexpr std::string_view kTraceVersion = "1";
inline constexpr std::string_view kRecorded = "recorded";
inline constexpr std::string_view kSynthetic = "synthetic";

/// The spans point into the mapped file, or into the vectors where there is none or it cannot be used in
/// place; the vectors are not changed once the spans are set.
struct TraceData {
  std::string model;
  std::string provenance;
  bool synthetic = false;
  std::uint32_t layers = 0;
  std::uint32_t experts = 0;
  std::uint32_t top_k = 0;
  std::uint64_t tokens = 0;
  bool has_scores = false;
  std::vector<TraceRequest> requests;
  std::span<const std::uint16_t> ids;    // [tokens, layers, top_k]
  std::span<const float> scores;         // the same, or empty
  std::span<const std::uint8_t> phases;  // [tokens]

  std::vector<std::uint16_t> own_ids;
  std::vector<float> own_scores;
  std::vector<std::uint8_t> own_phases;
  std::optional<SafetensorsFile> file;
};

struct RoutingTrace::Impl : TraceData {};

}  // namespace moelab
