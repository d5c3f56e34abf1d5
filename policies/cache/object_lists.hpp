// Several lists over dense object numbers, each object in one of them at most.
#pragma once

#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

namespace moelab {

/// Doubly linked, from the oldest to the newest, through two arrays; list l has a sentinel at number
/// objects + l. Every operation is O(1) and allocates nothing.
class ObjectLists {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();  // in no list

  ObjectLists(std::uint32_t objects, std::uint32_t lists)
      : objects_(objects), links_(objects + std::size_t{lists}), list_(objects, kNone), sizes_(lists) {
    for (std::uint32_t l = 0; l < lists; ++l) links_[objects_ + l] = {objects_ + l, objects_ + l};
  }

  /// The list that holds the object, or kNone.
  std::uint32_t list_of(std::uint32_t object) const { return list_[object]; }
  std::uint32_t size(std::uint32_t list) const { return sizes_[list]; }
  /// The oldest of a list that is not empty.
  std::uint32_t oldest(std::uint32_t list) const {
    assert(sizes_[list] > 0);
    return links_[objects_ + list].newer;  // the list is a ring: next to the newest
  }
  /// Moves the object from wherever it is to the newest place of `list`.
  void move_newest(std::uint32_t list, std::uint32_t object) {
    if (list_[object] != kNone) remove(object);
    const std::uint32_t end = objects_ + list;
    const std::uint32_t newest = links_[end].older;
    links_[object] = {newest, end};
    links_[newest].newer = object;
    links_[end].older = object;
    list_[object] = list;
    ++sizes_[list];
  }
  /// Takes the object out of the list that holds it.
  void remove(std::uint32_t object) {
    assert(list_[object] != kNone);
    const Link link = links_[object];
    links_[link.older].newer = link.newer;
    links_[link.newer].older = link.older;
    --sizes_[list_[object]];
    list_[object] = kNone;
  }

 private:
  struct Link {
    std::uint32_t older = 0, newer = 0;
  };

  std::uint32_t objects_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> list_;  // by object
  std::vector<std::uint32_t> sizes_;
};

}  // namespace moelab
