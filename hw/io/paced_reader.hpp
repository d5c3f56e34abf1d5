// Reads from memory at the pace that storage should have: see Pace in reader.hpp.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "hw/io/aligned_memory.hpp"
#include "hw/io/pace_clock.hpp"
#include "hw/io/reader.hpp"

namespace moelab {

/// When paced reads are done; by itself, so that it can be checked against its equation.
class PaceSchedule {
 public:
  /// Throws std::invalid_argument unless the rate is above 0, the latency at least 0, both finite, and the
  /// depth 1 ... kMostReads.
  explicit PaceSchedule(const Pace& pace);
  /// When the next read, submitted now, is done.
  PaceClock::Time next(PaceClock::Time now, std::size_t bytes);

 private:
  Pace pace_;
  PaceClock::Time last_ = PaceClock::Time::min();
};

class PacedReader final : public Reader {
 public:
  /// `source` is what errors call the memory.
  PacedReader(std::string source, std::shared_ptr<const AlignedMemory> memory, const Pace& pace,
              std::shared_ptr<PaceClock> clock);

  std::string name() const override { return "paced"; }
  std::size_t alignment() const override { return 1; }
  std::size_t depth() const override { return depth_; }
  std::uint64_t size() const override { return memory_->size(); }
  const std::string& source() const override { return source_; }
  void submit(const ReadRequest& request) override;
  ReadCompletion wait() override;

 private:
  struct Read {
    ReadRequest request;
    PaceClock::Time due;
  };

  std::string source_;
  std::shared_ptr<const AlignedMemory> memory_;
  std::size_t depth_;
  std::shared_ptr<PaceClock> clock_;
  std::mutex mutex_;  // of what follows
  PaceSchedule schedule_;
  std::deque<Read> reads_;  // under way, in the order in which they are done
};

}  // namespace moelab
