// A family's one table: its policies by name, moelab's in the order in which users see them, then those of
// libraries (policies/policy_library.hpp) in the order in which they were loaded.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <list>
#include <string_view>
#include <utility>

namespace moelab {

/// Entries are never moved: a pointer to one stays valid until it is taken back.
template <class Entry>
class PolicyTable {
 public:
  PolicyTable(std::initializer_list<Entry> shipped) : entries_(shipped) {}

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  const Entry& operator[](std::size_t number) const {
    return *std::next(entries_.begin(), static_cast<std::ptrdiff_t>(number));
  }
  /// nullptr when there is no such policy.
  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_)
      if (entry.info.name == name) return &entry;
    return nullptr;
  }
  /// Of another name than those that are there. While it is called no other thread may use the table.
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

  /// Takes those of a library away again. No pointer to them is left, and no other thread uses the table.
  void take_back(std::string_view library) {
    entries_.remove_if([&](const Entry& entry) { return entry.info.library == library; });
  }

 private:
  std::list<Entry> entries_;
};

}  // namespace moelab
