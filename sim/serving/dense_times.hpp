// How long the dense part of each layer takes in a pass: computed once for all layers that are alike.
#pragma once

#include <cstdint>
#include <vector>

#include "models/timing.hpp"
#include "sim/serving/pass.hpp"

namespace moelab {

struct KernelTime {
  double seconds = 0;  // hand-over included
  double bytes = 0;    // moved through memory
  double flops = 0;
  int kernels = 0;  // launched one after the other
};

class DenseTimes {
 public:
  DenseTimes(const Architecture& model, const TimingModel& timing);
  /// `expert_tokens`: rows that go through this GPU's experts, those of other GPUs included.
  void begin(const Pass& pass, std::uint32_t expert_tokens);
  void begin(const Pass& pass) { begin(pass, pass.tokens); }
  /// Attention with the gate and, in a dense layer, its feed-forward part.
  const KernelTime& dense(std::size_t layer);
  /// The shared experts; 0: the layer has none.
  const KernelTime& shared(std::size_t layer);
  /// The output embedding for the rows whose next token is wanted; 0: none is.
  KernelTime head() const;

 private:
  static constexpr KernelTime kUnknown{-1, 0};
  /// Tokens that a row of this pass attends to through a window, mean over rows: of those that decode, and of
  /// prompts.
  struct AttentionSpan {
    int window;  // 0: none
    double decoding = 0, prompts = 0;
  };
  KernelTime time(const Work& work) const;  // of kernels that all tokens of the step go through
  KernelTime time(const Work& work, double rows) const;
  void fill_tiles(Work& work) const;
  KernelTime compute_dense(std::size_t kind) const;
  KernelTime compute_shared(const Layer& layer) const;
  void sum_up(const std::vector<RowRun>& runs);

  const Architecture& model_;
  const TimingModel& timing_;
  std::vector<std::size_t> kind_;           // by layer: the first layer that equals it
  std::vector<KernelTime> dense_, shared_;  // by kind, of this pass
  std::vector<std::size_t> span_;           // by kind: where its window is in spans_
  std::vector<AttentionSpan> spans_;        // one a window that the model has
  double encoded_ = 0;                      // tokens of the encoder that a row which decodes attends to, mean
  double decode_rows_ = 1;                  // of a request that decodes, mean: they share a read of its cache
  std::uint32_t tokens_ = 0, prompt_tokens_ = 0, produces_ = 0, new_encoder_tokens_ = 0;  // of this pass
  std::uint32_t logits_ = 0;  // rows of it whose next token is wanted
  std::uint32_t expert_tokens_ = 0;
};

}  // namespace moelab
