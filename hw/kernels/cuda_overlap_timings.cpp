// Copies to the GPU beside computing, and what each costs the other.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "hw/kernels/cuda_expert.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

double median(Seconds samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

/// An operation, the stream that takes it, and its time when nothing else runs.
template <class Operation>
struct Work {
  const CudaStream& stream;
  Operation operation;
  double alone;
};

/// How many of `other` surely go on until `count` of the measured are done, should those take twice as long.
std::size_t enough(std::size_t count, double measured_alone, double other_alone) {
  const double needed = std::ceil(2 * static_cast<double>(count) * measured_alone / other_alone) + 1;
  if (needed > static_cast<double>(kMaxCudaRepeats)) {
    throw std::invalid_argument("copies and computing differ too much in length for one to go on beside " +
                                std::to_string(count) +
                                " of the other; expected fewer repeats, or sizes of "
                                "more similar times");
  }
  return static_cast<std::size_t>(needed);
}

/// Samples of the first while the second goes on.
template <class Measured, class Other>
Seconds sample_beside(const Work<Measured>& measured, const Work<Other>& other,
                      const CudaSampling& sampling) {
  const std::size_t others = enough(sampling.repeats, measured.alone, other.alone);
  StreamGate gate;
  CudaEvent released, start, stop;
  Seconds samples;
  for (std::size_t s = 0, i = 0, j = 0; s < sampling.warm_up + sampling.samples; ++s) {
    gate.close(measured.stream);
    released.record(measured.stream);
    released.hold(other.stream);  // one gate for both
    for (std::size_t r = 0; r < others; ++r) other.operation(j++);
    start.record(measured.stream);
    for (std::size_t r = 0; r < sampling.repeats; ++r) measured.operation(i++);
    stop.record(measured.stream);
    gate.open();
    stop.wait();
    other.stream.wait();
    if (s >= sampling.warm_up)
      samples.push_back(stop.seconds_since(start) / static_cast<double>(sampling.repeats));
  }
  return samples;
}

}  // namespace

OverlapTimes time_copy_while_computing(std::size_t bytes, const ExpertShape& shape, std::size_t tokens,
                                       const CudaSampling& sampling) {
  if (bytes == 0) throw std::invalid_argument("a copy of 0 bytes");
  const CudaStream copies, computing;
  const PinnedMemory from(bytes);
  const DeviceMemory to(bytes);
  fill_random(from.bytes(), bytes);
  CudaExpert expert(shape, tokens, computing);
  const auto copy = [&](std::size_t) { copies.copy(to.data(), from.data(), bytes); };
  const auto compute = [&](std::size_t i) { expert.run(i); };
  const auto check = [&] {
    expert.check();
    check_on_device(to.data(), from.bytes(), copies, "copy beside computing");
    copies.fill(to.data(), 0, bytes);
    copies.wait();
  };
  OverlapTimes times;
  times.copy_alone = sample_by_events(copies, sampling, copy);
  times.expert_alone = sample_by_events(computing, sampling, compute);
  check();
  const Work<decltype(copy)> copying{copies, copy, median(times.copy_alone)};
  const Work<decltype(compute)> working{computing, compute, median(times.expert_alone)};
  times.copy_beside = sample_beside(copying, working, sampling);
  check();
  times.expert_beside = sample_beside(working, copying, sampling);
  check();
  return times;
}

}  // namespace moelab
