// Schedule family: the order of one sparse layer's operations.
//
// A layer step has to make k experts ready. Each expert has N tensors, and each tensor is one *task*: read
// its SM-chunk, read its K E-chunks, decompress each E-chunk on one of L threads, recover (join) the tensor;
// when all tensors of an expert are there, execute it. The compression state says which of these a task still
// needs (ZipMoE, Fig. 6):
//   F: execute.   C: K decompressions, recover.   S: K E-reads, K decompressions, recover.
//   E: SM read, K decompressions, recover.        M: SM read, K E-reads, K decompressions, recover.
// With shards = 0 weights are stored whole (no compression): a missing task is one read of sm_read_s, nothing
// else.
//
// A policy returns priority orders; the dispatcher then works in a work-conserving way: whenever the I/O
// thread, a decompression thread, the recovery stream or the compute stream is free it starts the first
// operation of its order that is ready. A chunk can be decompressed once it is read; a tensor recovered once
// its SM-chunk is there and all its chunks are decompressed; an expert executed once all its tensors are
// recovered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "policies/compression_state.hpp"
#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

struct LayerExpert {
  std::uint32_t id = 0;  // the caller's name for it; order policies break ties by position, not by id
  std::uint32_t tensors = 3;
  State state = State::M;
  double execute_s = 0;  // time to run all tokens routed to it (p_n)
};

/// One layer step. Times are in seconds, for one operation each, as profiled ahead of the run.
struct LayerInstance {
  std::uint32_t threads = 1;  // L, decompression threads
  std::uint32_t shards = 1;   // K, E-chunks of a tensor; 0: tensors are stored whole
  double sm_read_s = 0;       // u, read of one SM-chunk (of a whole tensor when shards = 0)
  double e_read_s = 0;        // v, read of one E-chunk
  double decompress_s = 0;    // c, decompression of one E-chunk
  double recover_s = 0;       // r, join of one tensor
  std::vector<LayerExpert> experts;
};

/// Tasks are numbered expert by expert in the instance's order: expert 0's tensors first.
struct ChunkRead {
  std::uint32_t task;
  std::uint32_t chunk;  // 0..K-1: an E-chunk; kSmChunk: the SM-chunk
  bool operator==(const ChunkRead&) const = default;
};
inline constexpr std::uint32_t kSmChunk = 0xffffffff;

/// Priorities, first = most urgent. Every read the instance needs is listed once, every task once (also those
/// that need nothing), every expert once (by position in the instance).
struct LayerOrder {
  std::vector<ChunkRead> reads;
  std::vector<std::uint32_t> tasks;    // decompression (chunk 0..K-1 of each in turn) and recovery
  std::vector<std::uint32_t> experts;  // execution
  void clear() {
    reads.clear();
    tasks.clear();
    experts.clear();
  }
};

class SchedulePolicy {
 public:
  virtual ~SchedulePolicy() = default;
  /// Fills `order` (cleared first; its memory is reused). Called once a layer step: keeps its own scratch
  /// memory, so that it allocates nothing once it has seen the largest instance.
  virtual void order(const LayerInstance& instance, LayerOrder& order) = 0;
};

struct SchedulePolicyEntry {
  PolicyInfo info;
  std::function<std::unique_ptr<SchedulePolicy>(const PolicyParameters& parameters)> make;
};
/// The family's one table.
PolicyTable<SchedulePolicyEntry>& schedule_policies();
/// nullptr when there is no such policy.
std::unique_ptr<SchedulePolicy> make_schedule_policy(std::string_view name,
                                                     const PolicyParameters& parameters = {});

/// Makespan of an order under the dispatch rule above, by plain loops (no engine): for policies that compare
/// orders, for the benchmark's reference and for differential tests. At one instant, first every operation
/// that ends then completes, then every free server starts its most urgent ready operation; operations that
/// take no time complete in the next such round of the same instant. Scratch memory is kept in the object.
/// About O(n log n) for n operations (a bit set finds the most urgent one).
class LayerRecurrence {
 public:
  double makespan(const LayerInstance& instance, const LayerOrder& order);

 private:
  // A moment of the event loop. Operations that take no time end within the instant they start in, one round
  // later; rounds keep apart what is ready before a decision of that instant from what is ready after it.
  struct Moment {
    double time = 0;
    std::uint32_t round = 0;
    bool operator<(const Moment& o) const { return time != o.time ? time < o.time : round < o.round; }
  };
  struct Job {  // of a stream that serves one job at a time
    Moment ready;
    double duration_s;
    std::uint32_t owner;  // the expert it is for
  };
  struct Chunk {
    Moment ready;
    std::uint32_t priority;
  };

  /// Operations that are ready, by priority (0 is the most urgent), one bit each.
  class ReadySet {
   public:
    void reset(std::size_t priorities);
    bool empty() const { return count_ == 0; }
    void insert(std::uint32_t priority);
    std::uint32_t pop_most_urgent();

   private:
    std::vector<std::uint64_t> words_;
    std::size_t first_ = 0;  // no bit is set in an earlier word
    std::size_t count_ = 0;
  };

  static Moment after(const Moment& start, double duration_s);
  void read(const LayerInstance& instance, const LayerOrder& order);
  void decompress(const LayerInstance& instance, const LayerOrder& order);
  void recover(const LayerInstance& instance, const LayerOrder& order);
  double execute(const LayerInstance& instance, const LayerOrder& order);
  template <class Done>
  void serve(Done done);

  std::vector<std::uint32_t> expert_of_, rank_, arrivals_;
  std::vector<Moment> task_ready_, expert_ready_, threads_;
  std::vector<Chunk> chunks_;
  std::vector<Job> jobs_;  // most urgent first
  ReadySet pending_;
};

/// Lemma B.3: max(I, C/L, P, Z): all reads, all decompression shared over the threads, all execution (each
/// expert once), longest single task. No schedule, with or without inserted idle time, ends earlier. Z
/// differs from the paper's z_j, which lets no decompression start before the last E-chunk is read and so can
/// exceed the optimum; see layer_recurrence.cpp.
struct LowerBound {
  double io_s = 0;          // I
  double decompress_s = 0;  // C / L
  double execute_s = 0;     // P
  double longest_s = 0;     // Z
  double value() const;     // the largest of them
};
LowerBound layer_lower_bound(const LayerInstance& instance);

}  // namespace moelab
