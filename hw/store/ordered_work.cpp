#include "hw/store/ordered_work.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace moelab {

namespace {

using Call = std::function<void(unsigned, std::uint64_t)>;

class OrderedWork {
 public:
  OrderedWork(std::uint64_t first, std::uint64_t end, const Call& make, const Call& take)
      : next_(first), turn_(first), end_(end), make_(make), take_(take) {}

  void run(unsigned thread) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (error_ != nullptr || next_ == end_) return;
      const std::uint64_t item = next_++;
      lock.unlock();
      std::exception_ptr error = attempt(make_, thread, item);
      lock.lock();
      changed_.wait(lock, [&] { return turn_ == item || error_ != nullptr; });
      if (error_ != nullptr) return;  // of an item before this one
      if (error == nullptr) error = attempt(take_, thread, item);
      error_ = error;
      ++turn_;
      changed_.notify_all();
    }
  }

  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  static std::exception_ptr attempt(const Call& call, unsigned thread, std::uint64_t item) {
    try {
      call(thread, item);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_, turn_;  // the item to begin, the item to take
  const std::uint64_t end_;
  const Call& make_;
  const Call& take_;
  std::exception_ptr error_;
};

}  // namespace

void work_in_order(std::uint64_t first, std::uint64_t end, unsigned threads, const Call& make,
                   const Call& take) {
  OrderedWork work(first, end, make, take);
  {
    std::vector<std::jthread> helpers;
    for (unsigned t = 1; t < threads; ++t) helpers.emplace_back([&work, t] { work.run(t); });
    work.run(0);
  }
  work.rethrow();
}

}  // namespace moelab
