#include "traces/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

// Not derived from the target's name, which may already be as long as the file system allows.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return ".moelab-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  // O_EXCL rather than mkstemp: the file gets the permissions that the user's umask asks for. A name already
  // taken is the leftover of a killed process with our number; the next one is tried.
  do {
    temporary_ = folder_of(target_) / temporary_name();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) fail("create a file in its folder");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  assert(descriptor_ >= 0);
  if (::fsync(descriptor_) != 0) fail("write to storage");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("give the written file its name");
  temporary_.clear();

  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open its folder");
  const int status = ::fsync(folder);
  const int reason = errno;
  ::close(folder);
  errno = reason;
  // EINVAL: a file system that has no such thing as syncing a folder.
  if (status != 0 && reason != EINVAL) fail("write its folder to storage");
}

void AtomicFile::fail(const char* doing) const {
  throw InputError(target_.string(), std::string("cannot ") + doing + ": " + std::strerror(errno));
}

}  // namespace moelab
