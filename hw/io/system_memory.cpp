#include "hw/io/system_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace moelab {

namespace {

namespace fs = std::filesystem;

/// Where a version of control groups has its files, and what it calls them.
struct GroupFiles {
  const char *folder, *limit, *used;
  std::vector<std::string> page_cache;  // names in memory.stat
};

/// The number in a file of one number; nothing where there is no such file, or a word ("max").
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::uint64_t number;
  if (std::ifstream(file) >> number) return number;
  return {};
}

std::uint64_t page_cache_of(const fs::path& group, const std::vector<std::string>& names) {
  std::ifstream lines(group / "memory.stat");
  std::uint64_t bytes = 0;
  std::string name;
  for (std::uint64_t value; lines >> name >> value;)
    if (std::ranges::find(names, name) != names.end()) bytes += value;
  return bytes;
}

void keep_within(const fs::path& group, const GroupFiles& files, SystemMemory& memory) {
  const std::optional<std::uint64_t> limit = number_in(group / files.limit);
  const std::optional<std::uint64_t> used = number_in(group / files.used);
  if (!limit) return;
  memory.total = std::min(memory.total, *limit);
  if (!used) return;
  const std::uint64_t held = *used - std::min(*used, page_cache_of(group, files.page_cache));
  memory.available = std::min(memory.available, *limit - std::min(*limit, held));
}

/// The process's groups as /proc/self/cgroup has them: "0::/path", "4:memory:/path". A container often shows
/// only its own group, at the top, under a path that is not there.
void keep_within_groups(const fs::path& root, SystemMemory& memory) {
  const GroupFiles unified = {
      "sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}};
  const GroupFiles first = {"sys/fs/cgroup/memory",
                            "memory.limit_in_bytes",
                            "memory.usage_in_bytes",
                            {"total_active_file", "total_inactive_file"}};
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t one = line.find(':'), two = line.find(':', one + 1);
    if (one == std::string::npos || two == std::string::npos) continue;
    const std::string controllers = line.substr(one + 1, two - one - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const GroupFiles& files = controllers.empty() ? unified : first;
    fs::path group = fs::path(line.substr(two + 1)).relative_path();
    for (;; group = group.parent_path()) {
      keep_within(root / files.folder / group, files, memory);
      if (group.empty()) break;
    }
  }
}

}  // namespace

SystemMemory system_memory(const fs::path& root) {
  SystemMemory memory;
  std::ifstream lines(root / "proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib; lines >> name >> kib; std::getline(lines, unit)) {
    if (name == "MemTotal:") memory.total = kib << 10;
    if (name == "MemAvailable:") memory.available = kib << 10;
  }
  keep_within_groups(root, memory);
  return memory;
}

}  // namespace moelab
