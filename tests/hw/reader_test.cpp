// Readers of files: whatever the mode, the bytes are the file's; what the system refuses is gone round and
// said; what becomes of a file while it is read is an error, or does not matter.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include <system_error>

#include <catch2/catch.hpp>
#include <semaphore>
#include <thread>

#include "hw/io/aligned_memory.hpp"
#include "hw/io/reader.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/random.hpp"

namespace moelab::reader_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

constexpr ReadMode kModes[] = {ReadMode::buffered, ReadMode::direct, ReadMode::io_uring};

std::string random_bytes(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

/// A file where O_DIRECT usually works: not in memory.
class DiskFile {
 public:
  explicit DiskFile(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / ("moelab-reader-" + std::to_string(::getpid()))) {
    write_bytes(path_, bytes);
  }
  ~DiskFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// One read after the other; the buffer is aligned for any reader.
std::string read(Reader& reader, std::uint64_t offset, std::size_t bytes) {
  AlignedMemory memory(bytes);
  reader.submit({offset, memory.bytes(), 7});
  const ReadCompletion done = reader.wait();
  REQUIRE(done.tag == 7);
  return text(memory.bytes().first(done.bytes));
}

TEST_CASE("every reader reads what the file holds, with any number of reads under way") {
  Random random(81);
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{1'000'003}}) {
    const std::string bytes = random_bytes(size, 81 + size);
    const DiskFile file(bytes);
    for (const ReadMode mode : kModes) {
      for (const std::size_t depth : {1, 2, 7, 64}) {
        const auto reader = open_reader(file.path(), {mode, depth});
        INFO(reader->name() << " " << reader->why());
        REQUIRE(reader->size() == size);
        REQUIRE(reader->depth() == (reader->name().starts_with("io_uring") ? depth : 1));
        CHECK(reader->why().empty() == (reader->name() == to_string(mode)));
        const std::size_t step = reader->alignment(), blocks = (size + step - 1) / step;
        struct Read {
          std::uint64_t offset;
          AlignedMemory memory;
          bool under_way = true;
        };
        std::vector<Read> reads;
        std::size_t under_way = 0;
        const auto take = [&] {
          const ReadCompletion done = reader->wait();
          Read& one = reads.at(done.tag);
          REQUIRE(one.under_way);
          one.under_way = false;
          --under_way;
          REQUIRE(text(one.memory.bytes().first(done.bytes)) == bytes.substr(one.offset, one.memory.size()));
        };
        for (int i = 0; i < 100; ++i) {
          if (under_way == reader->depth() || (under_way > 0 && random.below(4) == 0)) take();
          const std::size_t first = random.below(blocks), count = 1 + random.below(blocks - first);
          reads.push_back({first * step, AlignedMemory(std::min(count * step, 40 * std::size_t{4096}))});
          reader->submit({first * step, reads.back().memory.bytes(), reads.size() - 1});
          ++under_way;
        }
        while (under_way > 0) take();
        CHECK_THROWS_AS(reader->wait(), std::logic_error);
      }
    }
  }
}

TEST_CASE("one thread may submit while another waits") {
  const std::string bytes = random_bytes(64 * 4096, 82);
  const DiskFile file(bytes);
  for (const ReadMode mode : kModes) {
    const auto reader = open_reader(file.path(), {mode, 5});
    const auto depth = static_cast<std::ptrdiff_t>(reader->depth());
    std::counting_semaphore<> room(depth), under_way(0);
    constexpr std::size_t kReads = 500;
    std::vector<AlignedMemory> buffers;
    for (std::size_t i = 0; i < kReads; ++i) buffers.emplace_back(4096);
    std::thread submitter([&] {
      for (std::size_t i = 0; i < kReads; ++i) {
        room.acquire();
        reader->submit({i % 64 * 4096, buffers[i].bytes(), i});
        under_way.release();
      }
    });
    std::size_t right = 0;
    for (std::size_t i = 0; i < kReads; ++i) {
      under_way.acquire();
      const ReadCompletion done = reader->wait();
      right += text(buffers[done.tag].bytes()) == bytes.substr(done.tag % 64 * 4096, 4096);
      room.release();
    }
    submitter.join();
    CHECK(right == kReads);
  }
}

TEST_CASE("a file that is cut short while it is read is an error that names byte and file") {
  const std::string bytes = random_bytes(16 * 4096, 83);
  for (const ReadMode mode : kModes) {
    const DiskFile file(bytes);
    const auto reader = open_reader(file.path(), {mode, 2});
    INFO(reader->name());
    CHECK(read(*reader, 8 * 4096, 4096) == bytes.substr(8 * 4096, 4096));
    std::filesystem::resize_file(file.path(), 9 * 4096 + 100);
    AlignedMemory memory(4 * 4096);
    reader->submit({8 * 4096, memory.bytes(), 0});
    CHECK_THROWS_WITH(reader->wait(), Contains(file.path().string()) &&
                                          Contains("ends at byte 36964, 12188 bytes too early"));
    // What is still there can still be read.
    CHECK(read(*reader, 0, 4096) == bytes.substr(0, 4096));
    std::filesystem::resize_file(file.path(), 0);
    reader->submit({4096, memory.bytes(), 0});
    CHECK_THROWS_AS(reader->wait(), InputError);
  }
}

TEST_CASE("a file that is deleted while it is read is read to its end") {
  const std::string bytes = random_bytes(16 * 4096, 84);
  for (const ReadMode mode : kModes) {
    const DiskFile file(bytes);
    const auto reader = open_reader(file.path(), {mode, 2});
    std::filesystem::remove(file.path());
    CHECK(read(*reader, 0, 16 * 4096) == bytes);
  }
}

TEST_CASE("what is no file that can be read is refused by name") {
  const ScratchFolder folder;
  ::mkfifo((folder / "pipe").c_str(), 0600);
  for (const ReadMode mode : kModes) {
    CHECK_THROWS_WITH(open_reader(folder / "none", {mode, 1}), Contains("none: cannot open: No such file"));
    CHECK_THROWS_WITH(open_reader(folder / "pipe", {mode, 1}), Contains("is not a regular file"));
    CHECK_THROWS_WITH(open_reader(folder / "", {mode, 1}), Contains("is not a regular file"));
  }
  CHECK_THROWS_WITH(open_paced_reader(folder / "none", {BytesPerSecond(1e9), Seconds(0)}),
                    Contains("No such file"));
  CHECK_THROWS_WITH(read_mode_of("io_urnig"), Contains("did you mean 'io_uring'?"));
  for (const ReadMode mode : kModes) CHECK(read_mode_of(to_string(mode)) == mode);
}

TEST_CASE("requests that cannot be are refused when they are made") {
  const DiskFile file(random_bytes(3 * 4096 + 5, 85));
  AlignedMemory memory(8 * 4096);
  for (const ReadMode mode : kModes) {
    CHECK_THROWS_AS(open_reader(file.path(), {mode, 0}), std::invalid_argument);
    CHECK_THROWS_AS(open_reader(file.path(), {mode, kMostReads + 1}), std::invalid_argument);
    const auto reader = open_reader(file.path(), {mode, 2});
    INFO(reader->name());
    const auto bytes = memory.bytes();
    CHECK_THROWS_AS(reader->submit({0, bytes.first(0)}), std::invalid_argument);
    CHECK_THROWS_WITH(reader->submit({0, bytes}), Contains("has 12293 bytes; 32768 from byte 0 on"));
    CHECK_THROWS_AS(reader->submit({~std::uint64_t{0} / 4096 * 4096, bytes.first(4096)}), InputError);
    if (reader->alignment() > 1) {
      CHECK_THROWS_AS(reader->submit({1, bytes.first(4096)}), std::invalid_argument);
      CHECK_THROWS_AS(reader->submit({0, bytes.first(4095)}), std::invalid_argument);
      CHECK_THROWS_AS(reader->submit({0, bytes.subspan(1, 4096)}), std::invalid_argument);
    }
    for (std::size_t i = 0; i < reader->depth(); ++i) reader->submit({0, bytes.subspan(i * 4096, 4096)});
    CHECK_THROWS_AS(reader->submit({0, bytes.first(4096)}), std::logic_error);
  }  // each goes with its reads under way
}

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

/// From here on the system refuses this process io_uring, or opening with O_DIRECT, as containers and file
/// systems do. False where it takes no such filter (a user-mode emulator).
bool refuse(bool ring, bool direct) {
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr auto kFlags = static_cast<unsigned>(offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t));
  const unsigned denied = SECCOMP_RET_ERRNO | EPERM, invalid = SECCOMP_RET_ERRNO | EINVAL;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, arch))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ring ? SYS_io_uring_setup : ~0U, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, direct ? SYS_openat : ~0U, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 2, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, denied),
      BPF_STMT(BPF_RET | BPF_K, invalid),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Exit status of a process that is refused these and opens with io_uring: 0 as due, 1 not, 77 no filter.
int open_refused(const std::filesystem::path& file, bool ring, bool direct, const std::string& name,
                 const std::string& why, const std::string& bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!refuse(ring, direct)) ::_exit(77);
    const auto reader = open_reader(file, {ReadMode::io_uring, 4});
    AlignedMemory memory(bytes.size());
    reader->submit({0, memory.bytes(), 3});
    const bool right = reader->wait().tag == 3 && text(memory.bytes()) == bytes;
    if (reader->name() != name || reader->why() != why)
      ::dprintf(STDERR_FILENO, "%s, %s\n", reader->name().c_str(), reader->why().c_str());
    ::_exit(reader->name() == name && reader->why() == why && right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST_CASE("without permission for io_uring or O_DIRECT other ways are taken, and said") {
  const std::string bytes = random_bytes(5 * 4096, 86);
  const DiskFile file(bytes);
  const auto usual = open_reader(file.path(), {ReadMode::io_uring, 4});
  if (!usual->why().empty()) {
    WARN("skipped: refused here anyway: " << usual->why());
    return;
  }
  const std::string ring = "io_uring refused: Operation not permitted";
  const std::string direct = "O_DIRECT refused: Invalid argument";
  const int first = open_refused(file.path(), true, false, "direct", ring, bytes);
  if (first == 77) {
    WARN("skipped: the system takes no filters of system calls");
    return;
  }
  CHECK(first == 0);
  CHECK(open_refused(file.path(), false, true, "io_uring (buffered)", direct, bytes) == 0);
  CHECK(open_refused(file.path(), true, true, "buffered", direct + "; " + ring, bytes) == 0);
}

}  // namespace
}  // namespace moelab::reader_test
