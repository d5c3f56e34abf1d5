// How much memory there is, and how much of it can still be had.
#pragma once

#include <cstdint>

namespace moelab {

struct SystemMemory {
  std::uint64_t total = 0, available = 0;  // bytes; 0 where the system does not say
};

/// By /proc/meminfo, and within the limit of the process's control group where the system shows one
/// (containers).
SystemMemory system_memory();

}  // namespace moelab
