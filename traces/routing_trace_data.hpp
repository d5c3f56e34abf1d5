// What a RoutingTrace holds. Private to routing_trace*.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/routing_trace.hpp"
#include "traces/safetensors.hpp"
#include "traces/spilled_bytes.hpp"

namespace moelab {

/// Names in the file, as traces/README.md specifies them.
inline constexpr std::string_view kTraceFormat = "moelab-routing";
inline constexpr std::string_view kTraceVersion = "2";  // what is written; 1 is read too
inline constexpr std::string_view kRecorded = "recorded";
inline constexpr std::string_view kSynthetic = "synthetic";
/// By RouterScores.
inline constexpr std::array<std::string_view, 4> kRouterScoreNames = {"none", "logits", "softmax", "sigmoid"};

/// The metadata that a description becomes.
TensorMetadata trace_metadata(const TraceDescription& about);
/// Throws InputError about `name` when no trace can be so.
void check_description(const std::string& name, const TraceDescription& about);
/// Values of a dtype F32, F16 or BF16, widened.
void widen(std::span<const std::byte> bytes, Dtype dtype, std::span<float> values);

/// The spans point into the mapped file, or into the vectors where there is none or it cannot be used in
/// place; the vectors are not changed once the spans are set.
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

  // Where the values of the spans are: in a file, in temporary files, or here.
  std::unique_ptr<SpilledBytes> spilled_ids, spilled_scores;
  std::vector<std::uint16_t> own_ids;
  std::vector<float> own_scores;
  std::vector<std::uint8_t> own_phases;
  std::vector<std::uint16_t> own_lookahead, own_candidates;
  std::optional<SafetensorsFile> file;
};

struct RoutingTrace::Impl : TraceData {};

/// Calls visit(first value, values) for parts of a few megabytes, one after the other; the pages of each
/// leave the memory when it has been seen, if `mapped`. So a pass over a large file does not fill the memory.
template <class T, class Visit>
void visit_in_parts(std::span<const T> values, std::size_t multiple, bool mapped, Visit visit) {
  constexpr std::size_t kPart = std::size_t{8} << 20;
  const std::size_t part = std::max<std::size_t>(kPart / sizeof(T) / multiple, 1) * multiple;
  for (std::size_t first = 0; first < values.size(); first += part) {
    const auto seen = values.subspan(first, std::min(part, values.size() - first));
    visit(first, seen);
    if (mapped) release_pages(std::as_bytes(seen));
  }
}

}  // namespace moelab
