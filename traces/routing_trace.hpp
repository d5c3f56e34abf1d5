// Routing traces: for every token and MoE layer, which experts it was sent to, with what score. The format is
// specified in traces/README.md: a safetensors file, memory-mapped here, token-major.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "traces/trace_description.hpp"

namespace moelab {

/// Expert id that stands for "this layer does not run for this token" (encoder tokens in decoder layers and
/// the reverse).
inline constexpr std::uint16_t kNoExpert = 0xffff;

/// A request's rows: prompt rows (prefill or encoder) first, then one row for each generated token *after*
/// the first; the first generated token comes out of the prompt's pass (or of an encoder-decoder's first
/// decode row).
struct TraceRequest {
  std::uint64_t begin = 0;         // first row
  std::uint64_t decode_begin = 0;  // first decode row
  std::uint64_t end = 0;           // one past the last row
};

/// A trace in memory or mapped from a file. Immutable; cheap to move; rows are read in place.
class RoutingTrace {
 public:
  std::uint64_t tokens() const;
  std::uint32_t layers() const;   // MoE layers
  std::uint32_t experts() const;  // routed experts a layer
  std::uint32_t top_k() const;
  bool has_scores() const;
  const std::string& model() const;       // identity of the model it was recorded from, "" if unknown
  const std::string& provenance() const;  // how it came to be: "recorded ...", "synthetic: ..."
  bool synthetic() const;
  const TraceDescription& description() const;
  std::span<const TraceRequest> requests() const;
  /// Place of a request's kind in description().domains; 0 where there are none.
  std::uint16_t domain_of(std::size_t request) const;
  Phase phase_of(std::uint64_t token) const;

  /// The k expert ids of a token at a layer, distinct, by falling score; kNoExpert in all places where the
  /// layer does not run.
  std::span<const std::uint16_t> experts_of(std::uint64_t token, std::uint32_t layer) const;
  /// The same of all layers in order: [layers * k].
  std::span<const std::uint16_t> experts_of(std::uint64_t token) const;
  /// Their scores, finite; empty when the trace has none. Scores are as recorded: a model that selects by
  /// something else than the gate's weight (a bias, say) may show them out of order.
  std::span<const float> scores_of(std::uint64_t token, std::uint32_t layer) const;

  /// What the router gave every expert (or the candidates) of a token at a layer: fills `scores`, of
  /// description().router_width() values. Only where the trace has router scores.
  void router_scores_of(std::uint64_t token, std::uint32_t layer, std::span<float> scores) const;
  /// The experts that these are of, by falling score; empty: of all experts in order.
  std::span<const std::uint16_t> candidates_of(std::uint64_t token, std::uint32_t layer) const;
  /// The experts that the layer's router picks when it is given what entered the MoE layer before; empty
  /// where the trace does not say. kNoExpert in all places of the first layer, and where the layer does not
  /// run.
  std::span<const std::uint16_t> lookahead_of(std::uint64_t token, std::uint32_t layer) const;

  /// Rows [begin, end) are not needed for now: where they are mapped from a file (read from one, or too large
  /// to be kept in memory), their pages leave the memory. They can still be read.
  void release_rows(std::uint64_t begin, std::uint64_t end) const;
  /// Whether so many rows are worth a call of release_rows.
  bool worth_releasing(std::uint64_t rows) const;

 private:
  friend class RoutingTraceBuilder;
  friend RoutingTrace read_routing_trace(const std::string& path);
  friend void write_routing_trace(const RoutingTrace& trace, const std::string& path);
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Opens and validates a trace in one pass: shapes, dtypes, offsets, phases, ids in range and distinct in a
/// row, finite scores. Throws InputError that names the file, the byte offset or the token and layer, and
/// what was wrong. The trace reads the mapped file in place (what is misaligned, or BF16 or F16, is copied),
/// so the file must not be changed in place meanwhile; it may be replaced or removed.
RoutingTrace read_routing_trace(const std::string& path);
/// Writes atomically (temporary file, fsync, rename): also onto the file that the trace is mapped from.
/// Compressed where the path ends in ".zst".
void write_routing_trace(const RoutingTrace& trace, const std::string& path);

/// Makes a trace row by row. Rows are checked as read_routing_trace checks them: what it would refuse, every
/// member here refuses with an InputError, and the builder stays as it was.
class RoutingTraceBuilder {
 public:
  explicit RoutingTraceBuilder(TraceDescription description);
  /// A trace without router scores, lookahead and domains.
  RoutingTraceBuilder(std::string model, std::string provenance, bool synthetic, std::uint32_t layers,
                      std::uint32_t experts, std::uint32_t top_k, bool with_scores);
  ~RoutingTraceBuilder();
  /// Makes room for so many tokens in all, before the first one. More than fit in 64 MiB go to temporary
  /// files, and no more than these may follow; else it only saves time.
  void reserve(std::uint64_t tokens);
  /// `domain`: place in the description's domains; 0 where there are none.
  void begin_request(std::uint16_t domain = 0);
  /// Within a request, phases come in the order encoder, prefill, decode.
  void add_token(const TraceRow& row);
  /// Of a trace that has no more than these: `scores` is empty when it has none.
  void add_token(Phase phase, std::span<const std::uint16_t> ids, std::span<const float> scores);
  /// The trace, of at least one token; leaves the builder empty, not to be used again.
  RoutingTrace finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moelab
