// Static batches: which rows of a trace each forward pass runs, and which experts those rows use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/architecture.hpp"
#include "policies/cache/cache.hpp"
#include "policies/routing/routing.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// One forward pass of a batch.
struct Pass {
  Stack stack = Stack::decoder;
  bool prompt = false;              // prefill or encoder pass: all rows are of prompts
  std::uint32_t tokens = 0;         // rows that run
  std::uint32_t prompt_tokens = 0;  // of these, rows of prompts
  std::uint32_t produces = 0;       // requests that get a token from it
  // Tokens each row attends to, mean over rows: of those that decode, and of prompts.
  double context = 0;
  double prompt_context = 0;
  std::uint32_t new_encoder_tokens =
      0;  // whose cross-attention keys and values this pass makes: a batch's first decode pass
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows;  // [begin, end) of the trace, a range a request
};

/// The passes of some requests of a trace, one after the other: the prompts together, then
/// one decode pass a token until the longest request is done. A request whose prompt is not in the trace gets
/// its first token from its first decode row; a batch of such requests has no prompt pass.
class Batch {
 public:
  Batch(const RoutingTrace& trace, bool encoder_decoder) : trace_(trace), encoder_decoder_(encoder_decoder) {}
  /// Of the trace's requests with these numbers, one at least.
  void start(std::span<const std::size_t> numbers);
  /// Of requests [first, first + size).
  void start(std::size_t first, std::size_t size);
  /// Fills `pass` with the next pass; false when the batch is done.
  bool next(Pass& pass);
  std::size_t size() const { return numbers_.size(); }
  /// Whether the i-th of the requests gets a token from the pass that next() returned last.
  bool gets_token(std::size_t i) const;
  /// Whether that is its last one.
  bool finishes(std::size_t i) const;

 private:
  static constexpr std::uint64_t kReleaseTogether = 1 << 15;  // rows of a long answer

  void restart();
  void prompt_pass(Pass& pass);
  void decode_pass(Pass& pass);
  const TraceRequest& request(std::size_t i) const { return trace_.requests()[numbers_[i]]; }
  std::uint64_t prompt_rows(std::size_t i) const { return request(i).decode_begin - request(i).begin; }
  std::uint64_t decode_rows(std::size_t i) const { return request(i).end - request(i).decode_begin; }

  const RoutingTrace& trace_;
  bool encoder_decoder_;
  std::vector<std::size_t> numbers_;
  std::uint64_t released_ = 0;  // row: those before it have been released
  std::uint64_t step_ = 0;      // 1: the prompt pass was returned last; n + 1: the n-th decode pass
};

/// Sums up what a pass asks of one MoE layer.
class LayerUses {
 public:
  /// `scores`: whether somebody wants ExpertUse::score.
  LayerUses(std::uint32_t experts, bool scores)
      : wants_scores_(scores),
        used_((experts + 63) / 64, 0),
        tokens_(experts, 0),
        scores_(experts, 0),
        low_score_(experts, 0) {
    uses_.reserve(experts);
  }
  /// Distinct experts in ascending order, with their tokens and summed scores. Valid until the next call.
  std::span<const ExpertUse> collect(const RoutingTrace& trace, const Pass& pass, std::uint32_t moe_layer);
  /// The same of what a routing policy made of the tokens.
  std::span<const ExpertUse> collect(std::span<const TokenGate> tokens, const StepRouting& routing);
  /// Of an expert of the last call: whether none of its tokens has it among its top-score experts. Never so
  /// where nobody classed them.
  bool low_score(std::uint32_t expert) const { return low_score_[expert] != 0; }

 private:
  void add(const RoutingTrace& trace, std::uint64_t row, std::uint32_t moe_layer);
  std::span<const ExpertUse> finish();

  bool wants_scores_;
  std::vector<std::uint64_t> used_;  // a bit an expert: no sorting
  std::vector<std::uint32_t> tokens_;
  std::vector<float> scores_;
  std::vector<std::uint8_t> low_score_;
  std::vector<ExpertUse> uses_;
};

}  // namespace moelab
