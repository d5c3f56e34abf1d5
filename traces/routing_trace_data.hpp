// What a RoutingTrace holds. Private to routing_trace*.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/routing_trace.hpp"
#include "traces/safetensors.hpp"
#include "traces/trace_column.hpp"

namespace moelab {

/// Texts in the file, as traces/README.md specifies them.
inline constexpr std::string_view kTraceVersion = "2";  // what is written; 1 is read too
/// By RouterScores.
inline constexpr std::array<std::string_view, 4> kRouterScoreNames = {"none", "logits", "softmax", "sigmoid"};

/// The metadata that a description becomes. Throws InputError about `file` when its domains are no list.
TensorMetadata trace_metadata(const std::string& file, const TraceDescription& about);
/// Values of a dtype F32, F16 or BF16, widened.
void widen(std::span<const std::byte> bytes, Dtype dtype, std::span<float> values);

/// The spans point into the mapped file, or to our own values where there is none or it cannot be used in
/// place; these are not changed once the spans are set.
struct TraceData {
  TraceDescription about;
  std::uint64_t tokens = 0;
  std::vector<TraceRequest> requests;
  std::span<const std::uint16_t> ids;          // [tokens, layers, top_k]
  std::span<const float> scores;               // the same, or empty
  std::span<const std::uint8_t> phases;        // [tokens]
  std::vector<std::uint16_t> request_domains;  // [requests], or empty
  std::span<const std::uint16_t> lookahead;    // [tokens, layers, top_k], or empty
  std::span<const std::uint16_t> candidates;   // [tokens, layers, router_width], or empty
  std::span<const std::byte> router;           // the same shape, of router_dtype; or empty
  Dtype router_dtype = Dtype::f32;

  // Where the values of the spans are: in a file, or here.
  TraceColumn<std::uint16_t> own_ids, own_candidates, own_lookahead;
  TraceColumn<float> own_scores, own_router;
  std::vector<std::uint8_t> own_phases;
  std::optional<SafetensorsFile> file;
};

struct RoutingTrace::Impl : TraceData {};

}  // namespace moelab
