// Ranks of experts by how often they were used, kept up to date use by use.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace moelab {

/// Experts in descending order of frequency, with equal frequencies in one group. Raising a frequency moves
/// the expert over the groups it overtakes: O(1) for a step of one, O(groups overtaken) otherwise.
class FrequencyRanks {
 public:
  explicit FrequencyRanks(std::uint32_t objects)
      : order_(objects), place_(objects), group_of_(objects, 0), groups_(objects + std::size_t{1}) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::iota(place_.begin(), place_.end(), 0U);
    groups_[0].size = objects;
    for (std::uint32_t g = objects; g > 0; --g) free_.push_back(g);
  }

  std::uint64_t frequency(std::uint32_t object) const { return groups_[group_of_[object]].frequency; }
  /// Number of experts used strictly more often: 0 for the most popular one; equals share the best rank.
  std::uint32_t rank(std::uint32_t object) const { return groups_[group_of_[object]].begin; }

  void raise(std::uint32_t object, std::uint64_t by) {
    if (by == 0) return;
    const std::uint64_t frequency = this->frequency(object) + by;
    const std::uint32_t old_group = group_of_[object];
    std::uint32_t hole = groups_[old_group].begin++;
    put(place_[object], order_[hole]);
    if (--groups_[old_group].size == 0) free_.push_back(old_group);
    while (hole > 0 && group_before(hole).frequency < frequency) {
      Group& overtaken = group_before(hole);
      put(hole, order_[overtaken.begin]);
      hole = overtaken.begin++;
    }
    put(hole, object);
    if (hole == 0 || group_before(hole).frequency != frequency) {
      group_of_[object] = free_.back();
      free_.pop_back();
      groups_[group_of_[object]] = {frequency, hole, 1};
    } else {
      group_of_[object] = group_of_[order_[hole - 1]];
      ++groups_[group_of_[object]].size;
    }
  }

 private:
  struct Group {
    std::uint64_t frequency = 0;
    std::uint32_t begin = 0;  // place of its first member in order_
    std::uint32_t size = 0;
  };
  Group& group_before(std::uint32_t place) { return groups_[group_of_[order_[place - 1]]]; }
  void put(std::uint32_t place, std::uint32_t object) {
    order_[place] = object;
    place_[object] = place;
  }

  std::vector<std::uint32_t> order_;     // experts, most frequent first
  std::vector<std::uint32_t> place_;     // by expert: where it stands in order_
  std::vector<std::uint32_t> group_of_;  // by expert
  std::vector<Group> groups_;
  std::vector<std::uint32_t> free_;  // unused entries of groups_
};

}  // namespace moelab
