// Experts on their way ahead of demand, or fetched and waiting outside the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/serving/layer_graph.hpp"

namespace moelab {

struct FetchSlot {
  LabelledGraph load;
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  std::uint64_t pass = 0;  // in which it was asked for
  std::uint64_t due = 0;   // (pass, layer) it is meant for, as one number that rises through the run
  State state = State::M;  // of the expert when it was asked for
  ExpertReads reads;       // where the rest of it is read from
  bool offered = false;    // to the cache, once loaded
  bool taken = false;      // by the cache
  bool met = false;        // by a demand, which counted it; lost since, with the step, if it is dropped
};

/// A fixed number of slots. Objects are numbered layer * experts + expert.
class FetchBuffer {
 public:
  FetchBuffer(std::size_t slots, std::size_t objects) : slot_of_(objects, kNone) {
    for (std::size_t i = 0; i < slots; ++i) {
      slots_.push_back(std::make_unique<FetchSlot>());
      free_.push_back(static_cast<std::uint32_t>(slots - 1 - i));
    }
    objects_.assign(slots, kNone);
  }

  bool full() const { return free_.empty(); }
  FetchSlot* find(std::uint32_t object) {
    return slot_of_[object] == kNone ? nullptr : slots_[slot_of_[object]].get();
  }
  const FetchSlot* find(std::uint32_t object) const {
    return slot_of_[object] == kNone ? nullptr : slots_[slot_of_[object]].get();
  }
  /// Precondition: not full, object not in the buffer.
  FetchSlot& take(std::uint32_t object) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    slot_of_[object] = slot;
    objects_[slot] = object;
    return *slots_[slot];
  }
  void release(std::uint32_t object) {
    free_.push_back(slot_of_[object]);
    objects_[slot_of_[object]] = kNone;
    slot_of_[object] = kNone;
  }
  /// Any occupied slot, or nullptr.
  FetchSlot* any() {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (objects_[i] != kNone) return slots_[i].get();
    return nullptr;
  }
  /// Calls `visit(object, slot)` for every occupied slot, in slot order; visit may release it.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (objects_[i] != kNone) visit(objects_[i], *slots_[i]);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::unique_ptr<FetchSlot>> slots_;
  std::vector<std::uint32_t> objects_;  // by slot
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> slot_of_;  // by object
};

}  // namespace moelab
