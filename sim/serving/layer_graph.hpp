// From a layer instance and its order to a graph of operations (ZipMoE, Fig. 6), with a label for each
// operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policies/schedule/schedule.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/server_resources.hpp"

namespace moelab {

/// Bytes that one operation moves: reads from storage by the size of what they read, the others through
/// memory.
struct OpBytes {
  double sm_read = 0;     // of one SM-chunk (or whole tensor)
  double e_read = 0;      // of one E-chunk
  double decompress = 0;  // of one E-chunk: compressed in, plain out
  double recover = 0;     // of one tensor: both planes in, values out
  double execute = 0;     // of one expert: its weights in
};

/// How an expert's missing parts are read: seconds for its SM-chunk (or whole tensor) of one tensor and for
/// one E-chunk, and how much of each is a latency that concurrent reads do not stretch.
struct ExpertReads {
  double sm_s = 0;
  double e_s = 0;
  double latency_s = 0;
  Tier sm_tier = Tier::ssd;
  Tier e_tier = Tier::ssd;
};

/// Reads into the host's memory of what lies on the SSD and goes over a link from there: of one tensor's
/// SM-chunk (or the whole tensor), and of one E-chunk.
struct HostReads {
  double sm_s = 0, e_s = 0;
  double latency_s = 0;              // of each
  double sm_bytes = 0, e_bytes = 0;  // as stored
};

class LayerGraphBuilder {
 public:
  /// `worker_reads`: each decompression thread reads the E-chunk it is about to decompress (the prototype's
  /// form, ZipMoE section 4), so that SM-chunks alone queue at the I/O thread. `dispatch_s` is added to every
  /// operation that is handed over. `host_reads`: where a link's `reads` say Tier::ssd. `staged`: experts
  /// that there is room for from their first read or decompression to the end of their execution; each one
  /// more begins when the one that many places before it has been executed.
  LayerGraphBuilder(const ServerResources& resources, bool worker_reads, double dispatch_s,
                    const OpBytes& bytes = {}, const HostReads& host_reads = {},
                    std::size_t staged = std::numeric_limits<std::size_t>::max())
      : resources_(resources),
        worker_reads_(worker_reads),
        dispatch_s_(dispatch_s),
        bytes_(bytes),
        host_reads_(host_reads),
        staged_(staged) {}

  /// Appends the instance's operations to `out`. `reads` and `tokens` by position in the instance; an expert
  /// of no tokens does not execute, it is only made ready.
  void build(const LayerInstance& instance, const LayerOrder& order, std::span<const ExpertReads> reads,
             std::span<const std::uint32_t> tokens, LabelledGraph& out);

  /// The execution of an expert of the last instance built (kNoOp: it does not execute).
  engine::OpIndex execution(std::size_t expert) const { return execution_[expert]; }

 private:
  void index_tasks(const LayerInstance& instance);
  void add_reads(const LayerInstance& instance, const LayerOrder& order, std::span<const ExpertReads> reads,
                 LabelledGraph& out);
  void add_read_of_sm(const LayerInstance& instance, std::uint32_t task, const ExpertReads& reads,
                      LabelledGraph& out);
  void add_read_of_e(const LayerInstance& instance, std::uint32_t task, std::uint32_t chunk,
                     const ExpertReads& reads, LabelledGraph& out);
  void add_decompression(const LayerInstance& instance, std::uint32_t task, const ExpertReads& reads,
                         LabelledGraph& out);
  void add_decoded_and_sent(const LayerInstance& instance, std::uint32_t task, const ExpertReads& reads,
                            LabelledGraph& out);
  void add_task(const LayerInstance& instance, std::uint32_t task, std::span<const ExpertReads> reads,
                LabelledGraph& out);
  void take_turns(const LayerInstance& instance, const LayerOrder& order,
                  std::span<const std::uint32_t> tokens, engine::OpIndex first, LabelledGraph& out);
  engine::OpIndex add(LabelledGraph& out, engine::Lane lane, double seconds, OpLabel label) const;
  engine::OpIndex add_read(LabelledGraph& out, engine::Lane lane, double seconds, double latency_s,
                           OpLabel label) const;
  /// Over the link where that leads to where experts compute; `behind`: what it waits for, or kNoOp.
  engine::OpIndex add_transfer(LabelledGraph& out, double seconds, double latency_s, OpLabel label,
                               engine::OpIndex behind) const;

  ServerResources resources_;
  bool worker_reads_;
  double dispatch_s_;
  OpBytes bytes_;
  HostReads host_reads_;
  std::size_t staged_;
  engine::Lane io_ = 0, threads_ = 0, recovery_ = 0, compute_ = 0;
  std::vector<std::uint32_t> expert_of_, tensor_of_;  // by task
  std::vector<engine::OpIndex> read_;                 // by task: read of its SM-chunk or whole tensor
  std::vector<engine::OpIndex> chunk_;                // by task and chunk: its read, then its decompression
  std::vector<engine::OpIndex> ready_;                // by task: what makes the tensor usable
  std::vector<engine::OpIndex> execution_;
  struct Turn {
    engine::OpIndex after = engine::kNoOp;  // the execution whose memory it gets
    bool decodes_first = false;             // what it begins with is decompressing
  };
  std::vector<std::uint32_t> loading_;  // experts that need room, in their order of execution
  std::vector<Turn> turns_;             // by the expert's number within its layer
};

/// One of `reads`, as the label says, on the SSD's reader.
engine::OpIndex add_host_read(const ServerResources& resources, const HostReads& reads, double dispatch_s,
                              OpLabel label, LabelledGraph& out);

}  // namespace moelab
