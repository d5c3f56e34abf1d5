// A family's one table: its policies by name, moelab's in the order in which users see them, then those of
// libraries (policies/policy_library.hpp) in the order in which they were loaded.
#pragma once

#include <cstddef>
#include <deque>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace moelab {

/// Entries are never moved or taken away: a pointer to one stays valid.
template <class Entry>
class PolicyTable {
 public:
  PolicyTable(std::initializer_list<Entry> shipped) : entries_(shipped) {}

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  const Entry& operator[](std::size_t number) const { return entries_[number]; }
  /// nullptr when there is no such policy.
  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_)
      if (entry.info.name == name) return &entry;
    return nullptr;
  }
  /// Of another name than those that are there. While it is called no other thread may use the table.
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

 private:
  std::deque<Entry> entries_;
};

}  // namespace moelab
