// Objects of which each is used by one thread at a time: readers, decoders, scratch memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace moelab {

template <class T>
class LeasePool {
 public:
  /// `make` is called for an object when all that there are are in use.
  explicit LeasePool(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  /// Goes back to the pool, which outlives it.
  class Lease {
   public:
    Lease(LeasePool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(object_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    LeasePool& pool_;
    std::unique_ptr<T> object_;
  };

  Lease lease() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<T> object = std::move(free_.back());
        free_.pop_back();
        return {*this, std::move(object)};
      }
    }
    return {*this, make_()};
  }
  /// Makes so many ahead, where making one would take time that is measured.
  void fill(std::size_t objects) {
    const std::lock_guard lock(mutex_);
    while (free_.size() < objects) free_.push_back(make_());
  }

 private:
  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace moelab
