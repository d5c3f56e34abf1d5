#include "hw/store/store_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {

StoreFile::StoreFile(const std::filesystem::path& path, int flags) : name_(path.string()) {
  do {
    // O_NONBLOCK: opening a pipe that no process writes to must not wait.
    descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail("open");
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  throw InputError(name_, "is not a regular file");
}

StoreFile StoreFile::open_to_read(const std::filesystem::path& path) {
  return {path, O_RDONLY};
}

StoreFile StoreFile::open_to_write(const std::filesystem::path& path) {
  return {path, O_RDWR | O_CREAT};
}

StoreFile::~StoreFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StoreFile::StoreFile(StoreFile&& other) noexcept
    : name_(std::move(other.name_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

std::uint64_t StoreFile::bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("read the status of");
  return static_cast<std::uint64_t>(status.st_size);
}

void StoreFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read at byte " + std::to_string(offset) + " of");
    if (got == 0)
      throw InputError(name_, "ends at byte " + std::to_string(offset) + ", " + std::to_string(bytes.size()) +
                                  " bytes too early (cut short?)");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void StoreFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write at byte " + std::to_string(offset) + " of");
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void StoreFile::resize(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("change the size of");
}

void StoreFile::sync() {
  if (::fsync(descriptor_) != 0) fail("bring to storage");
}

bool StoreFile::lock() {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail("lock");
  return false;
}

void StoreFile::fail(const std::string& doing) const {
  throw InputError(name_, "cannot " + doing + " this file: " + std::strerror(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw InputError(folder.string(), std::string("cannot open: ") + std::strerror(errno));
  const int status = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // EINVAL: a file system that has no such thing as syncing a folder.
  if (status != 0 && reason != EINVAL)
    throw InputError(folder.string(), std::string("cannot bring to storage: ") + std::strerror(reason));
}

}  // namespace moelab
