// How much memory there is, and how much of it can still be had.
#pragma once

#include <cstdint>
#include <filesystem>

namespace moelab {

struct SystemMemory {
  std::uint64_t total = 0, available = 0;  // bytes; 0 where the system does not say
};

/// By /proc/meminfo, and within the limits of the process's control groups (of either version, and of those
/// that they are in). What the page cache holds counts as available in both: it makes room. `root`: where
/// the system's files are.
SystemMemory system_memory(const std::filesystem::path& root = "/");

}  // namespace moelab
