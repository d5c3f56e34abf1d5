// What a RoutingTrace holds. Private to routing_trace*.cpp.
#pragma once

#include <algorithm>
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

  // Where the values of the spans are: in a file, in temporary files, or here.
  std::unique_ptr<SpilledBytes> spilled_ids, spilled_scores;
  std::vector<std::uint16_t> own_ids;
  std::vector<float> own_scores;
  std::vector<std::uint8_t> own_phases;
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
