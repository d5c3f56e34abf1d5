#include "hw/io/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hw/io/reader.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

int open_retrying(const char* path, int flags) {
  int descriptor;
  do {
    // O_NONBLOCK: opening a pipe that no process writes to must not wait.
    descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// 0, or the errno of reading the first bytes: some file systems take O_DIRECT and then refuse to read.
int try_reading(int descriptor) {
  alignas(kReadAlignment) std::byte first[kReadAlignment];
  while (::pread(descriptor, first, sizeof first, 0) < 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

ReadFile::ReadFile(const std::filesystem::path& path, bool direct) : name_(path.string()) {
  const auto fail = [&](const std::string& what) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw InputError(name_, what + (error != 0 ? std::string(": ") + std::strerror(error) : ""));
  };
  // Ordinarily first: what is wrong with the file itself must not pass for a refusal of O_DIRECT.
  descriptor_ = open_retrying(path.c_str(), 0);
  if (descriptor_ < 0) fail("cannot open");
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot read the status");
  errno = 0;
  if (!S_ISREG(status.st_mode)) fail("is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (!direct) return;
  const int past_cache = open_retrying(path.c_str(), O_DIRECT);
  const int error = past_cache < 0 ? errno : try_reading(past_cache);
  if (error != 0) {
    if (past_cache >= 0) ::close(past_cache);
    refusal_ = std::string("O_DIRECT refused: ") + std::strerror(error);
    return;
  }
  ::close(std::exchange(descriptor_, past_cache));
  direct_ = true;
}

ReadFile::~ReadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      direct_(other.direct_),
      refusal_(std::move(other.refusal_)) {}

std::size_t ReadFile::alignment() const {
  return direct_ ? kReadAlignment : 1;
}

std::size_t ReadFile::within(std::uint64_t offset, std::size_t bytes) const {
  return offset >= size_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size_ - offset));
}

std::size_t ReadFile::progress(std::size_t before, std::size_t got, std::size_t due) const {
  const std::size_t now = before + got;
  return now >= due ? due : now / alignment() * alignment();
}

void ReadFile::fail_read(std::uint64_t offset, int error) const {
  throw InputError(name_, "cannot be read at byte " + std::to_string(offset) + ": " + std::strerror(error));
}

void ReadFile::fail_short(std::uint64_t offset, std::size_t missing) const {
  throw InputError(name_, "ends at byte " + std::to_string(offset) + ", " + std::to_string(missing) +
                              " bytes too early (cut short while it was read?)");
}

}  // namespace moelab
