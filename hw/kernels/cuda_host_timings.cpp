// What the host is part of: launches and remapping.
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_paged_memory.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

class LaunchTiming final : public CudaTiming {
 public:
  explicit LaunchTiming(LaunchEnd end) : end_(end), counter_(sizeof(std::uint32_t)) {
    stream_.fill(counter_.data(), 0, counter_.size());
  }
  /// That every launch so far has run.
  void check() override {
    launch();
    check_on_device(counter_.data(), std::as_bytes(std::span(&launched_, 1)), stream_,
                    "counting by launches");
  }
  double run(std::size_t operations) override {
    return end_ == LaunchEnd::queued ? queued(operations) : completed(operations);
  }

 private:
  void launch() {
    cuda_count(counter_.as<std::uint32_t>(), stream_.get());
    ++launched_;
  }
  double queued(std::size_t operations) {
    double sum = 0;
    for (std::size_t left = operations; left > 0;) {
      const std::size_t now = std::min(left, kMaxQueued);
      gate_.close(stream_);
      const HostTimer timer;
      for (std::size_t i = 0; i < now; ++i) launch();
      sum += timer.seconds();
      gate_.open();
      stream_.wait();
      left -= now;
    }
    return sum;
  }
  double completed(std::size_t operations) {
    const HostTimer timer;
    for (std::size_t i = 0; i < operations; ++i) {
      launch();
      stream_.wait();
    }
    return timer.seconds();
  }

  LaunchEnd end_;
  CudaStream stream_;
  DeviceMemory counter_;
  StreamGate gate_;
  std::uint32_t launched_ = 0;
};

}  // namespace

std::unique_ptr<CudaTiming> launch_timing(LaunchEnd end) {
  return std::make_unique<LaunchTiming>(end);
}

namespace {

class RemapTiming final : public CudaTiming {
 public:
  RemapTiming(std::size_t bytes, RemapStep step)
      : step_(step), memory_(paged_bytes(bytes), std::vector<std::size_t>(2, paged_bytes(bytes))) {}

  /// Fills both pieces with bytes of their own and finds them again at the one address.
  void check() override {
    for (std::size_t piece = 0; piece < 2; ++piece) {
      memory_.map(0, piece * bytes());
      stream_.fill(memory_.at(0), value_of(piece), bytes());
      stream_.wait();
      memory_.unmap(0, piece * bytes());
    }
    for (std::size_t piece = 0; piece < 2; ++piece) {
      const std::vector<std::byte> expected(bytes(), std::byte{value_of(piece)});
      memory_.map(0, piece * bytes());
      check_on_device(memory_.at(0), expected, stream_, "remapping");
      memory_.unmap(0, piece * bytes());
    }
  }
  double run(std::size_t operations) override {
    double mapping = 0, unmapping = 0;
    for (std::size_t i = 0; i < operations; ++i) {
      const HostTimer map_timer;
      memory_.map(0, i % 2 * bytes());
      mapping += map_timer.seconds();
      const HostTimer unmap_timer;
      memory_.unmap(0, i % 2 * bytes());
      unmapping += unmap_timer.seconds();
    }
    return step_ == RemapStep::map ? mapping : unmapping;
  }

 private:
  static std::size_t paged_bytes(std::size_t bytes) {
    const std::size_t unit = CudaPagedMemory::granularity();
    return (bytes + unit - 1) / unit * unit;
  }
  std::size_t bytes() const { return memory_.bytes() / 2; }
  static unsigned char value_of(std::size_t piece) { return static_cast<unsigned char>(0x5A + piece); }

  RemapStep step_;
  CudaStream stream_;
  CudaPagedMemory memory_;
};

}  // namespace

std::string remap_missing() {
  return cuda_paging_missing();
}

std::unique_ptr<CudaTiming> remap_timing(std::size_t bytes, RemapStep step) {
  if (bytes == 0) throw std::invalid_argument("a mapping of 0 bytes");
  return std::make_unique<RemapTiming>(bytes, step);
}

}  // namespace moelab
