#include "traces/spilled_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab {

std::filesystem::path temporary_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) throw InputError("TMPDIR", "no folder for temporary files: " + error.message());
  return folder;
}

SpilledBytes::SpilledBytes(std::uint64_t bytes) {
  const std::filesystem::path folder = temporary_folder();
  const auto fail = [&](int error) {
    throw InputError(folder.string(), "no room for " + std::to_string(bytes) +
                                          " bytes of temporary data: " + std::strerror(error));
  };
  std::string name = (folder / "moelab-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) fail(errno);
  unlink(name.c_str());
  // Room is taken now: a full disk would otherwise end the process when a page is first written.
  const int no_room = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  void* const address =
      no_room != 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const int error = no_room != 0 ? no_room : errno;
  close(descriptor);
  if (address == MAP_FAILED) fail(error);
  bytes_ = {static_cast<std::byte*>(address), bytes};
}

SpilledBytes::~SpilledBytes() {
  munmap(bytes_.data(), bytes_.size());
}

void release_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(mapped.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size()) / page * page;
  // Advice: where it is not taken, memory is used, nothing else.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace moelab
