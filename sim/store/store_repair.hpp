// What can be saved of a damaged store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moelab {

/// How much of a store is in its copy. What is lost is counted as far as what is whole tells of it.
struct StoreRepair {
  std::uint64_t sweeps = 0, points = 0, runs = 0;  // that are whole, and in the copy
  std::uint64_t lost_points = 0;                   // of those sweeps, before the last point that is whole
  std::uint64_t lost_runs = 0;                     // that the list of runs names
  bool lost_more = false;                          // a list is damaged itself: more may be lost
};

/// Copies every sweep, point and run of `damaged` that is whole into a new store `copy`, and leaves `damaged`
/// and its log as they are. Points whose runs are lost can be run again. Throws InputError where there is a
/// file `copy`, where that cannot be written (what was begun of it is removed), or where of `damaged` not
/// even the first page, with the list of its tables, is whole.
StoreRepair repair_store(const std::filesystem::path& damaged, const std::filesystem::path& copy);

}  // namespace moelab
