// Which experts the rows of a step touch: how many distinct ones in each layer, and how many pairs of row and
// expert, of each GPU that has experts of its own.
//
// What a row chooses is a bit an expert, what a step touches the union of its rows' bits. A row's bits are
// made when it first runs and kept: requests that run rows of a pool come by all of them again and again. As
// many are kept as have room, each in a place that follows from its number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "sim/serving/pass.hpp"

namespace moelab {

class RoutingTrace;

class StepExperts {
 public:
  /// Bytes of the bits that are kept: those of the pool of 4,096 rows of a model with 60 layers of 512.
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  /// `trace` outlives it. `gpus` divide the experts of each layer (experts_of_rank). `most_bytes` of bits are
  /// kept, those of one row at least.
  StepExperts(const RoutingTrace& trace, std::size_t gpus, std::size_t most_bytes = kMostBytes);

  /// A step of these rows.
  void begin(const Pass& pass);
  /// In it, a MoE layer runs other experts than the trace says.
  void reroute(std::size_t layer, std::span<const ExpertUse> uses);
  // Of the step, a MoE layer and a GPU: distinct experts; where several divide them, pairs of row and expert.
  std::uint32_t distinct(std::size_t layer, std::size_t gpu) const { return distinct_[layer * gpus_ + gpu]; }
  std::uint64_t pairs(std::size_t layer, std::size_t gpu) const { return pairs_[layer * gpus_ + gpu]; }

 private:
  struct Bit {
    std::uint32_t gpu, word;  // word of a layer
    std::uint64_t mask;
  };
  struct AlignedDelete {
    void operator()(std::uint64_t* words) const { ::operator delete[](words, kLine); }
  };
  /// From the start of a cache line on; not initialised.
  using Words = std::unique_ptr<std::uint64_t[], AlignedDelete>;
  static constexpr std::align_val_t kLine{64};
  static constexpr std::size_t kTogether = 4;  // rows, whose union is written once
  static Words make_words(std::size_t count) { return Words(new (kLine) std::uint64_t[count]); }

  void touch(std::uint64_t row);
  void unite_waiting();
  void make_row(std::uint64_t row, std::size_t place);

  const RoutingTrace& trace_;
  std::size_t gpus_, layers_;
  std::size_t gpu_words_, row_words_;                      // words of bits: of a GPU in a layer; of a row
  std::vector<Bit> bit_;                                   // by expert of a layer
  std::size_t places_;                                     // of rows that are kept
  std::vector<std::uint64_t> kept_;                        // by place: the row that it has
  Words bits_;                                             // [places, layers, gpus, gpu_words]
  std::unique_ptr<std::uint16_t[]> row_pairs_;             // [places, layers, gpus] of several GPUs
  std::array<const std::uint64_t*, kTogether> waiting_{};  // rows of the step, to be united
  std::size_t waits_ = 0;                                  // how many of these
  Words touched_;                                          // [layers, gpus, gpu_words] of the step
  std::vector<std::uint32_t> distinct_;                    // [layers, gpus] of the step
  std::vector<std::uint64_t> pairs_;                       // the same, of several GPUs
};

}  // namespace moelab
