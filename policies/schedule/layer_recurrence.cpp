// The dispatch rule as a recurrence. Reads feed decompression, decompression feeds recovery, recovery feeds
// execution, and nothing flows back: so the four resources are evaluated one after the other, each over its
// operations sorted by the moment they become ready.
//
// Reads never wait: read i ends at the sum of the first i reads. All decompressions take equally long, so
// threads become free in the order in which they were taken: a ring of L moments is all their state.
#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>

#include "policies/schedule/layer_needs.hpp"

namespace moelab {

/// The end of an operation. What is too short to move the clock ends in the next round of its instant.
LayerRecurrence::Moment LayerRecurrence::after(const Moment& start, double duration_s) {
  const double end = start.time + duration_s;
  return end > start.time ? Moment{end, 0} : Moment{start.time, start.round + 1};
}

double LayerRecurrence::makespan(const LayerInstance& instance, const LayerOrder& order) {
  expert_of_.clear();
  for (std::uint32_t e = 0; e < instance.experts.size(); ++e)
    expert_of_.insert(expert_of_.end(), instance.experts[e].tensors, e);
  assert(order.tasks.size() == expert_of_.size() && order.experts.size() == instance.experts.size());
  task_ready_.assign(expert_of_.size(), {});
  expert_ready_.assign(instance.experts.size(), {});
  rank_.resize(expert_of_.size());
  for (std::uint32_t r = 0; r < order.tasks.size(); ++r) rank_[order.tasks[r]] = r;
  read(instance, order);
  decompress(instance, order);
  recover(instance, order);
  return execute(instance, order);
}

/// Fills chunks_, sorted by ready moment: cached E-chunks, then those read. task_ready_: SM-chunk is there.
void LayerRecurrence::read(const LayerInstance& instance, const LayerOrder& order) {
  const std::uint32_t shards = instance.shards;
  chunks_.clear();
  for (std::uint32_t r = 0; r < order.tasks.size(); ++r) {
    const State state = instance.experts[expert_of_[order.tasks[r]]].state;
    if (state != State::F && has_e(state))
      for (std::uint32_t k = 0; k < shards; ++k) chunks_.push_back({{}, r * shards + k});
  }
  Moment now;
  for (const ChunkRead& read : order.reads) {
    const bool sm = read.chunk == kSmChunk;
    now = after(now, sm ? instance.sm_read_s : instance.e_read_s);
    if (sm)
      task_ready_[read.task] = now;
    else
      chunks_.push_back({now, rank_[read.task] * shards + read.chunk});
  }
}

/// task_ready_: SM-chunk is there and all E-chunks are decompressed.
void LayerRecurrence::decompress(const LayerInstance& instance, const LayerOrder& order) {
  if (chunks_.empty()) return;
  assert(instance.threads > 0);
  threads_.assign(instance.threads, {});
  pending_.reset(order.tasks.size() * instance.shards);
  std::size_t released = 0, thread = 0;
  for (std::size_t started = 0; started < chunks_.size(); ++started) {
    Moment start = threads_[thread];
    if (pending_.empty()) start = std::max(start, chunks_[released].ready);
    for (; released < chunks_.size() && !(start < chunks_[released].ready); ++released)
      pending_.insert(chunks_[released].priority);
    const std::uint32_t task = order.tasks[pending_.pop_most_urgent() / instance.shards];
    threads_[thread] = after(start, instance.decompress_s);
    task_ready_[task] = std::max(task_ready_[task], threads_[thread]);
    if (++thread == threads_.size()) thread = 0;
  }
}

/// expert_ready_: all tensors are there.
void LayerRecurrence::recover(const LayerInstance& instance, const LayerOrder& order) {
  jobs_.clear();
  for (const std::uint32_t task : order.tasks) {
    const std::uint32_t e = expert_of_[task];
    if (needs_recovery(instance, instance.experts[e]))
      jobs_.push_back({task_ready_[task], instance.recover_s, e});
    else
      expert_ready_[e] = std::max(expert_ready_[e], task_ready_[task]);
  }
  serve([this](const Job& job, const Moment& end) {
    expert_ready_[job.owner] = std::max(expert_ready_[job.owner], end);
  });
}

double LayerRecurrence::execute(const LayerInstance& instance, const LayerOrder& order) {
  jobs_.clear();
  for (const std::uint32_t e : order.experts)
    jobs_.push_back({expert_ready_[e], instance.experts[e].execute_s, e});
  double last = 0;  // every operation precedes an execution, so the last execution ends the layer
  serve([&last](const Job&, const Moment& end) { last = end.time; });
  return last;
}

/// Serves jobs_ one at a time, calling done(job, end) for each in the order served.
template <class Done>
void LayerRecurrence::serve(Done done) {
  arrivals_.resize(jobs_.size());
  std::iota(arrivals_.begin(), arrivals_.end(), 0U);
  std::sort(arrivals_.begin(), arrivals_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return jobs_[a].ready < jobs_[b].ready; });
  pending_.reset(jobs_.size());
  Moment now;
  std::size_t released = 0;
  for (std::size_t served = 0; served < jobs_.size(); ++served) {
    if (pending_.empty()) now = std::max(now, jobs_[arrivals_[released]].ready);
    for (; released < jobs_.size() && !(now < jobs_[arrivals_[released]].ready); ++released)
      pending_.insert(arrivals_[released]);
    const Job& job = jobs_[pending_.pop_most_urgent()];
    now = after(now, job.duration_s);
    done(job, now);
  }
}

void LayerRecurrence::ReadySet::reset(std::size_t priorities) {
  words_.assign(priorities / 64 + 1, 0);
  first_ = count_ = 0;
}

void LayerRecurrence::ReadySet::insert(std::uint32_t priority) {
  const std::size_t word = priority / 64;
  words_[word] |= std::uint64_t{1} << (priority % 64);
  first_ = std::min(first_, word);
  ++count_;
}

std::uint32_t LayerRecurrence::ReadySet::pop_most_urgent() {
  assert(count_ > 0);
  while (words_[first_] == 0) ++first_;
  const int bit = std::countr_zero(words_[first_]);
  words_[first_] &= words_[first_] - 1;
  --count_;
  return static_cast<std::uint32_t>(first_ * 64) + static_cast<std::uint32_t>(bit);
}

double LowerBound::value() const {
  return std::max({io_s, decompress_s, execute_s, longest_s});
}

namespace {

/// The least time from the start of the layer to the end of an expert, as its one task alone needs it. Let
/// the task have K E-chunks.
///  - Recovery starts after all the task's reads, which share one I/O thread: at read_s or later.
///  - Recovery starts after all its decompressions. Say its i-th E-chunk to arrive does so at a_i: a_i >= i v
///    if E-chunks are read, a_i >= 0 if they are cached. The K - i + 1 chunks that arrive at a_i or later
///    need ceil((K - i + 1) / L) turns of c on L threads: recovery starts at a_i + ceil((K - i + 1) / L) c or
///    later, for every i (i = 1 suffices when cached).
/// Then recovery and execution follow. (A task with no E-chunk waits for its read, then executes.)
double task_path(const LayerInstance& instance, const LayerExpert& expert) {
  const std::uint32_t chunks = decompressions(instance, expert);
  const double arrival_s = e_reads(instance, expert) > 0 ? instance.e_read_s : 0;
  double path = expert.tensors > 0 ? read_s(instance, expert) : 0;
  if (expert.tensors > 0) {
    for (std::uint32_t i = 1; i <= chunks; ++i) {
      const std::uint32_t turns = (chunks - i) / instance.threads + 1;
      path = std::max(path, i * arrival_s + turns * instance.decompress_s);
    }
    if (needs_recovery(instance, expert)) path += instance.recover_s;
  }
  return path + expert.execute_s;
}

}  // namespace

/// I, C/L and P are the loads of the I/O thread, of a decompression thread on average, and of the compute
/// stream: a resource cannot be done before it has worked that long. Z: task_path.
LowerBound layer_lower_bound(const LayerInstance& instance) {
  LowerBound bound;
  for (const LayerExpert& expert : instance.experts) {
    bound.io_s += expert.tensors * read_s(instance, expert);
    bound.decompress_s += expert.tensors * (decompressions(instance, expert) * instance.decompress_s);
    bound.execute_s += expert.execute_s;
    bound.longest_s = std::max(bound.longest_s, task_path(instance, expert));
  }
  bound.decompress_s /= instance.threads;
  return bound;
}

}  // namespace moelab
