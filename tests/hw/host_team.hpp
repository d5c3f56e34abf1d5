// A block of threads for the kernels' bodies (hw/kernels/host_device.hpp) on the CPU: between two barriers
// the threads run one after another, in an order drawn anew each time, since a GPU promises none.
#pragma once

#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "traces/random.hpp"

namespace moelab {

template <unsigned threads>
class HostTeam {
 public:
  static constexpr unsigned kThreads = threads;
  template <class T>
  class Each {
   public:
    T& operator[](unsigned t) { return values_->at(t); }

   private:
    std::unique_ptr<std::array<T, threads>> values_ = std::make_unique<std::array<T, threads>>();
  };

  explicit HostTeam(Random& random) : random_(random) { std::iota(order_.begin(), order_.end(), 0U); }

  template <class F>
  void each(F f) {
    random_.shuffle(std::span<unsigned>(order_));
    for (const unsigned t : order_) f(t);
  }
  void sync() {}
  bool any(Each<bool>& values) {
    bool found = false;
    for (unsigned t = 0; t < threads; ++t) found |= values[t];
    return found;
  }
  std::uint32_t exclusive_sum(Each<std::uint32_t>& values) {
    std::uint32_t sum = 0;
    for (unsigned t = 0; t < threads; ++t) sum += std::exchange(values[t], sum);
    return sum;
  }
  template <class T>
  void swap_with_neighbour(Each<T>& values) {
    for (unsigned t = 0; t < threads; t += 2) std::swap(values[t], values[t + 1]);
  }

 private:
  Random& random_;
  std::array<unsigned, threads> order_{};
};

}  // namespace moelab
