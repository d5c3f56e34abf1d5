// How far a child process is, for the parent that waits for it: two numbers in memory that both have.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <utility>

namespace moelab {

/// Made before the fork; children of the child write to it too.
class SharedProgress {
 public:
  SharedProgress() {
    void* const memory =
        mmap(nullptr, sizeof(Numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    numbers_ = new (memory) Numbers;
  }
  ~SharedProgress() { munmap(numbers_, sizeof(Numbers)); }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;

  /// Of `all` runs, parts of one included.
  void set(double done, double all) const {
    numbers_->all.store(all, std::memory_order_relaxed);
    numbers_->done.store(done, std::memory_order_relaxed);
  }
  /// (done, all); (0, 0) as long as nothing is known.
  std::pair<double, double> get() const {
    return {numbers_->done.load(std::memory_order_relaxed), numbers_->all.load(std::memory_order_relaxed)};
  }

 private:
  struct Numbers {
    std::atomic<double> done{0}, all{0};
  };
  static_assert(std::atomic<double>::is_always_lock_free);
  Numbers* numbers_;
};

}  // namespace moelab
