// Copies to the GPU beside computing, and what each costs the other.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "hw/kernels/cuda_expert.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

class OverlapTiming final : public CudaTiming {
 public:
  OverlapTiming(OverlapPart timed, std::size_t bytes, const ExpertShape& shape, std::size_t tokens)
      : timed_(timed), from_(bytes), to_(bytes), expert_(shape, tokens, computing_) {
    if (bytes == 0) throw std::invalid_argument("a copy of 0 bytes");
    fill_random(from_.bytes(), bytes);
    const double copy_alone = alone(OverlapPart::copy), expert_alone = alone(OverlapPart::expert);
    ratio_ = timed == OverlapPart::copy ? copy_alone / expert_alone : expert_alone / copy_alone;
    if (beside(1) > kMaxQueued) {
      throw std::invalid_argument("copies and experts differ too much in time for " +
                                  std::to_string(kMaxQueued) +
                                  " of the shorter to go on beside one of the longer");
    }
  }

  /// What both made of the last run, or of one if there was none.
  void check() override {
    to_stream(OverlapPart::copy, 0);
    check_on_device(to_.data(), from_.bytes(), copies_, "copy beside computing");
    copies_.fill(to_.data(), 0, to_.size());
    copies_.wait();
    expert_.check();
  }

  double run(std::size_t operations) override {
    const OverlapPart other = timed_ == OverlapPart::copy ? OverlapPart::expert : OverlapPart::copy;
    double sum = 0;
    for (std::size_t left = operations; left > 0;) {
      std::size_t now = std::min(left, kMaxQueued);
      while (beside(now) > kMaxQueued) --now;
      gate_.close(stream(timed_));
      released_.record(stream(timed_));
      released_.hold(stream(other));  // one gate for both
      for (std::size_t i = 0; i < beside(now); ++i) to_stream(other, i);
      start_.record(stream(timed_));
      for (std::size_t i = 0; i < now; ++i) to_stream(timed_, i);
      stop_.record(stream(timed_));
      gate_.open();
      stop_.wait();
      stream(other).wait();
      sum += stop_.seconds_since(start_);
      left -= now;
    }
    return sum;
  }

 private:
  const CudaStream& stream(OverlapPart part) const {
    return part == OverlapPart::copy ? copies_ : computing_;
  }
  void to_stream(OverlapPart part, std::size_t i) {
    if (part == OverlapPart::copy) {
      copies_.copy(to_.data(), from_.data(), to_.size());
    } else {
      expert_.run(i);
    }
  }
  /// Seconds of one, after a few.
  double alone(OverlapPart part) {
    constexpr std::size_t few = 5;
    EventTimer timer;
    const auto once = [&](std::size_t i) { to_stream(part, i); };
    timer.seconds(stream(part), few, once);
    return timer.seconds(stream(part), few, once) / few;
  }
  /// How many of the other go on until `timed` are done, should those take twice as long as alone.
  std::size_t beside(std::size_t timed) const {
    return static_cast<std::size_t>(2 * static_cast<double>(timed) * ratio_) + 2;
  }

  OverlapPart timed_;
  CudaStream copies_, computing_;
  PinnedMemory from_;
  DeviceMemory to_;
  CudaExpert expert_;
  StreamGate gate_;
  CudaEvent released_, start_, stop_;
  double ratio_ = 0;
};

}  // namespace

std::unique_ptr<CudaTiming> overlap_timing(OverlapPart timed, std::size_t bytes, const ExpertShape& shape,
                                           std::size_t tokens) {
  return std::make_unique<OverlapTiming>(timed, bytes, shape, tokens);
}

}  // namespace moelab
