// When the I/O thread and the decompression threads finish the blocks that Algorithm 1 has built so far.
#pragma once

#include <vector>

#include "policies/schedule/schedule.hpp"

namespace moelab {

/// Blocks follow each other on every thread. All decompressions take the same time c, so a work-conserving
/// pool starts the i-th of a block at max(i-th smallest ready time, earliest free thread) whatever the
/// priorities are: a block is known by its cached chunks, ready at once, and by its E-reads, which arrive
/// every v from the block's start on. Adding a task costs O(K log L); only a cached task that joins a block
/// in which a thread waits for a read (it fills that gap) makes the arrivals be replayed, when next asked
/// for.
class BlockSimulation {
 public:
  /// Begins the first block of a layer.
  void begin(const LayerInstance& instance);
  /// The next block starts where the last one ended.
  void begin_block();
  /// Adds one task of `expert` to the block.
  void add(const LayerExpert& expert);
  /// Whether adding one task of `expert` makes a thread wait for one of its reads (line 13).
  bool adds_idle(const LayerExpert& expert);
  /// Definition A.1 for the block as it is: for l = 1..min(L, K), the l-th earliest decompression thread
  /// finishes at least l reads of an E-chunk after the I/O thread.
  bool compute_dominant();

 private:
  using Heap = std::vector<double>;  // finish times of the threads, earliest first

  double reads_end() const;
  double io_end() const;
  bool cannot_be_dominant() const;
  void replay();
  static void replace_earliest(Heap& heap, double value);
  void fill(Heap& heap, std::uint32_t chunks) const;
  bool arrive(Heap& heap, std::uint32_t first, std::uint32_t last) const;

  LayerInstance times_;        // K, L and the times; its experts stay empty
  double start_ = 0;           // of the block's first read
  double sm_s_ = 0;            // all its SM-reads
  std::uint32_t e_reads_ = 0;  // E-chunks read by the block
  Heap cached_;                // after the block's cached chunks alone
  Heap threads_;               // after all its chunks, unless stale
  Heap probe_;
  bool idle_ = false;   // a thread waits for a read of the block
  bool stale_ = false;  // threads_ and idle_ lack a cached task
};

}  // namespace moelab
