#include "policies/schedule/block_simulation.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "policies/schedule/layer_needs.hpp"

namespace moelab {

void BlockSimulation::begin(const LayerInstance& instance) {
  assert(instance.threads > 0 || instance.shards == 0);
  times_.threads = instance.threads;
  times_.shards = instance.shards;
  times_.sm_read_s = instance.sm_read_s;
  times_.e_read_s = instance.e_read_s;
  times_.decompress_s = instance.decompress_s;
  threads_.assign(instance.threads, 0.0);
  start_ = sm_s_ = 0;
  e_reads_ = 0;
  cached_ = threads_;
  idle_ = stale_ = false;
}

void BlockSimulation::begin_block() {
  replay();
  start_ = io_end();
  sm_s_ = 0;
  e_reads_ = 0;
  idle_ = false;
  cached_ = threads_;
}

void BlockSimulation::add(const LayerExpert& expert) {
  if (needs_sm_read(expert)) sm_s_ += times_.sm_read_s;
  if (const std::uint32_t reads = e_reads(times_, expert); reads > 0) {
    if (!stale_) idle_ |= arrive(threads_, e_reads_, e_reads_ + reads);
    e_reads_ += reads;
    return;
  }
  fill(cached_, decompressions(times_, expert));
  stale_ |= idle_;
  if (!stale_) fill(threads_, decompressions(times_, expert));
}

bool BlockSimulation::adds_idle(const LayerExpert& expert) {
  replay();
  probe_ = threads_;
  return arrive(probe_, e_reads_, e_reads_ + e_reads(times_, expert));
}

bool BlockSimulation::compute_dominant() {
  const std::uint32_t lags = std::min(times_.threads, times_.shards);
  if (lags == 0) return true;
  if (stale_ && cannot_be_dominant()) return false;
  replay();
  if (threads_.front() < io_end() + times_.e_read_s) return false;
  probe_ = threads_;
  std::sort(probe_.begin(), probe_.end());
  for (std::uint32_t l = 1; l <= lags; ++l)
    if (probe_[l - 1] < io_end() + l * times_.e_read_s) return false;
  return true;
}

double BlockSimulation::reads_end() const {
  return start_ + e_reads_ * times_.e_read_s;
}

double BlockSimulation::io_end() const {
  return reads_end() + sm_s_;
}

/// A bound on the earliest thread's finish time F, to spare replays. Let m chunks be read, the last at A.
///  - No thread waits for a read: the threads finish at sum(cached_) + m c in all, F at the average or
///  before.
///  - Or let t be the last time at which one waits. By then all that was ready has begun, so the others are
///    busy for c at most, and at most (A - t) / v + 1 chunks follow: F <= t + c + (A - t) c / (v L), which is
///    largest at one of the ends, t = A or t = start_: F <= c + max(A, start_ + m c / L).
/// The margin covers rounding.
bool BlockSimulation::cannot_be_dominant() const {
  const double c = times_.decompress_s, share = e_reads_ * c / times_.threads;
  const double busy = std::accumulate(cached_.begin(), cached_.end(), 0.0) / times_.threads + share;
  const double waited = c + std::max(reads_end(), start_ + share);
  return std::max(busy, waited) < (io_end() + times_.e_read_s) * (1 - 1e-9);
}

void BlockSimulation::replay() {
  if (!stale_) return;
  threads_ = cached_;
  idle_ = arrive(threads_, 0, e_reads_);
  stale_ = false;
}

void BlockSimulation::replace_earliest(Heap& heap, double value) {
  std::size_t i = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * i + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (heap[child] >= value) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = value;
}

/// Decompresses chunks that are there.
void BlockSimulation::fill(Heap& heap, std::uint32_t chunks) const {
  for (std::uint32_t k = 0; k < chunks; ++k) replace_earliest(heap, heap.front() + times_.decompress_s);
}

/// Decompresses the block's E-reads number first+1..last; true when a thread has to wait for one.
bool BlockSimulation::arrive(Heap& heap, std::uint32_t first, std::uint32_t last) const {
  bool waits = false;
  for (std::uint32_t i = first + 1; i <= last; ++i) {
    const double ready = start_ + i * times_.e_read_s;
    waits |= heap.front() < ready;
    replace_earliest(heap, std::max(heap.front(), ready) + times_.decompress_s);
  }
  return waits;
}

}  // namespace moelab
