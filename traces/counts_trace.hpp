// Counts-only traces: how often each expert of each layer was used by each prompt, without the tokens. Enough
// to plan and to place. The format is specified in traces/README.md: a safetensors file, memory-mapped here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moelab {

/// What a counts-only trace says of itself.
struct CountsDescription {
  std::string model{};       // identity of the model it was recorded from, "" if unknown
  std::string provenance{};  // how it came to be
  bool synthetic = false;
  std::uint64_t prompts = 0;           // at least 1; "prompt" may as well be a data set, or all there was
  std::uint32_t layers = 0;            // MoE layers, at least 1
  std::uint32_t experts = 0;           // routed experts a layer, 1 to 65535
  std::uint32_t top_k = 0;             // chosen a token and layer; 0: not said
  std::vector<std::string> domains{};  // kinds of prompts; empty: prompts have none
};

/// Counts in memory or mapped from a file. Immutable; cheap to copy; read in place. The sum of all counts is
/// below 2^64, so that no sum of some of them overflows.
class CountsTrace {
 public:
  /// `counts` is [prompts, layers, experts]; `prompt_domains`, places in the description's domains, is
  /// [prompts], or empty where there are none. Throws InputError where read_counts_trace would.
  CountsTrace(CountsDescription description, std::vector<std::uint64_t> counts,
              std::vector<std::uint16_t> prompt_domains = {});

  std::uint64_t prompts() const;
  std::uint32_t layers() const;
  std::uint32_t experts() const;
  std::uint32_t top_k() const;  // 0: not said
  const std::string& model() const;
  const std::string& provenance() const;
  bool synthetic() const;
  const std::vector<std::string>& domains() const;
  const CountsDescription& description() const;
  /// Place of a prompt's kind in domains(); 0 where there are none.
  std::uint16_t domain_of(std::uint64_t prompt) const;

  /// How often each expert was used: [experts].
  std::span<const std::uint64_t> counts(std::uint64_t prompt, std::uint32_t layer) const;

 private:
  friend CountsTrace read_counts_trace(const std::string& path);
  friend void write_counts_trace(const CountsTrace& trace, const std::string& path);
  struct Impl;
  explicit CountsTrace(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Opens and validates in one pass: dtypes, shapes, domains in range, sums that fit 64 bits. Throws
/// InputError that names the file, the byte, and what was wrong; of a routing trace, that it is one. The file
/// is read in place, so it must not be changed in place meanwhile; it may be replaced or removed.
CountsTrace read_counts_trace(const std::string& path);
/// Writes atomically: also onto the file that the trace is mapped from. Compressed where the path ends in
/// ".zst".
void write_counts_trace(const CountsTrace& trace, const std::string& path);

}  // namespace moelab
