// What is found out about a machine, by files as systems of several kinds have them.
#include <catch2/catch.hpp>
#include <filesystem>

#include "hw/bench/machine_context.hpp"
#include "hw/io/system_memory.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::machine_test {
namespace {

using namespace moelab::test;

constexpr std::uint64_t GiB = std::uint64_t{1} << 30;

/// A system's files under a folder.
class Root {
 public:
  Root& has(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    write_bytes(path, text);
    return *this;
  }
  Root& has_memory(std::uint64_t total_gib, std::uint64_t available_gib) {
    return has("proc/meminfo", "MemTotal:       " + std::to_string(total_gib << 20) +
                                   " kB\nMemFree:        1 kB\nMemAvailable:   " +
                                   std::to_string(available_gib << 20) + " kB\nHugePages_Total:   0\n");
  }
  SystemMemory memory() const { return system_memory(folder_ / ""); }
  std::string cpu() const { return cpu_model(folder_ / ""); }

 private:
  ScratchFolder folder_;
};

std::string gib(std::uint64_t count) {
  return std::to_string(count * GiB) + "\n";
}

void check(const SystemMemory& memory, std::uint64_t total_gib, std::uint64_t available_gib) {
  CHECK(memory.total == total_gib * GiB);
  CHECK(memory.available == available_gib * GiB);
}

}  // namespace

TEST_CASE("memory is the machine's where no group limits it") {
  Root root;
  check(root.memory(), 0, 0);
  check(root.has_memory(64, 50).memory(), 64, 50);
  root.has("proc/self/cgroup", "0::/\n").has("sys/fs/cgroup/memory.max", "max\n");
  check(root.has("sys/fs/cgroup/memory.current", gib(60)).memory(), 64, 50);
}

TEST_CASE("memory is a container's, whose page cache makes room") {
  Root root;
  root.has_memory(64, 50).has("proc/self/cgroup", "0::/\n");
  root.has("sys/fs/cgroup/memory.max", gib(16)).has("sys/fs/cgroup/memory.current", gib(15));
  check(root.memory(), 16, 1);
  root.has("sys/fs/cgroup/memory.stat", "anon 1\nfile 3\ninactive_file " + gib(9) + "active_file " + gib(2));
  check(root.memory(), 16, 12);
  check(root.has_memory(64, 5).memory(), 16, 5);  // the machine has no more
}

TEST_CASE("memory is that of the tightest of the groups that a process is in") {
  Root root;
  root.has_memory(64, 50).has("proc/self/cgroup", "0::/user.slice/run.scope\n");
  root.has("sys/fs/cgroup/user.slice/memory.max", gib(32));
  root.has("sys/fs/cgroup/user.slice/memory.current", gib(30));
  check(root.memory(), 32, 2);
  root.has("sys/fs/cgroup/user.slice/run.scope/memory.max", gib(8));
  root.has("sys/fs/cgroup/user.slice/run.scope/memory.current", gib(1));
  check(root.memory(), 8, 2);
}

TEST_CASE("memory is within groups of the first version, under a path that a container does not show") {
  Root root;
  root.has_memory(64, 50).has("proc/self/cgroup", "9:name=systemd:/docker/ab\n4:memory:/docker/ab\n0::/\n");
  root.has("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.has("sys/fs/cgroup/memory/memory.usage_in_bytes", gib(20));
  check(root.memory(), 64, 50);
  root.has("sys/fs/cgroup/memory/memory.limit_in_bytes", gib(24));
  root.has("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file " + gib(3));
  check(root.memory(), 24, 7);
}

TEST_CASE("a processor has a name on every kind of machine, so that another is told from it") {
  CHECK(Root().has("proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon\n").cpu() == "Xeon");
  const std::string arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
  Root board;
  board.has("proc/cpuinfo", arm).has("proc/device-tree/model", std::string("Jetson AGX Orin\0", 16));
  CHECK(board.cpu() == "Jetson AGX Orin");
  // A server without a device tree.
  Root server;
  server.has("proc/cpuinfo", arm);
  CHECK(server.cpu() == "AArch64 implementer 0x41 part 0xd4f");
  server.has("sys/class/dmi/id/product_name", "c8g.metal\n");
  CHECK(server.cpu() == "AArch64 implementer 0x41 part 0xd4f of c8g.metal");
  CHECK(Root().cpu().empty());
}

}  // namespace moelab::machine_test
