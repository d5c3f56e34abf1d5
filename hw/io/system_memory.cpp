#include "hw/io/system_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace moelab {

namespace {

/// The number in a file of one number; false where there is no such file, or a word ("max").
bool read_number(const char* file, std::uint64_t& number) {
  return static_cast<bool>(std::ifstream(file) >> number);
}

}  // namespace

SystemMemory system_memory() {
  SystemMemory memory;
  std::ifstream lines("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib; lines >> name >> kib; std::getline(lines, unit)) {
    if (name == "MemTotal:") memory.total = kib << 10;
    if (name == "MemAvailable:") memory.available = kib << 10;
  }
  std::uint64_t limit, used;
  if (read_number("/sys/fs/cgroup/memory.max", limit) && limit < memory.total) {
    memory.total = limit;
    if (read_number("/sys/fs/cgroup/memory.current", used))
      memory.available = std::min(memory.available, limit - std::min(limit, used));
  }
  return memory;
}

}  // namespace moelab
