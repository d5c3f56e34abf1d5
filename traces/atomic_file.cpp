#include "traces/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "models/input_error.hpp"
#include "traces/mapped_file.hpp"

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

std::string path_of_descriptor(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

/// A file without a name, which is gone with the process however that ends; -1 where the file system has no
/// such thing, or where it could not be given a name later.
int open_nameless(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0 || ::access(path_of_descriptor(descriptor).c_str(), F_OK) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

std::filesystem::path behind_links(const std::filesystem::path& name) {
  constexpr int kLinks = 40;  // as many as Linux follows
  std::filesystem::path path = name;
  for (int links = 0; links <= kLinks; ++links) {
    std::error_code no_link;
    const std::filesystem::path to = std::filesystem::read_symlink(path, no_link);
    if (no_link) return path;
    path = path.parent_path() / to;
  }
  throw InputError(name.string(), "symbolic links lead in a circle");
}

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(behind_links(target)) {
  make_folder();
  descriptor_ = open_nameless(folder_of(target_));
  if (descriptor_ >= 0) return;
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
  // One that something else was put into meanwhile stays.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

void AtomicFile::make_folder() {
  std::vector<std::filesystem::path> missing;  // the innermost first
  std::error_code none;
  for (std::filesystem::path folder = folder_of(target_); !std::filesystem::exists(folder, none);
       folder = folder_of(folder))
    missing.push_back(folder);
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (::mkdir(folder->c_str(), 0777) == 0)
      made_.push_back(*folder);
    else if (errno != EEXIST)  // another program was quicker
      fail("make its folder");
  }
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
  check_mapped_files();
  if (::fsync(descriptor_) != 0) fail("write to storage");
  if (temporary_.empty()) name();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("give the written file its name");
  temporary_.clear();
  made_.clear();

  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open its folder");
  const int status = ::fsync(folder);
  const int reason = errno;
  ::close(folder);
  errno = reason;
  // EINVAL: a file system that has no such thing as syncing a folder.
  if (status != 0 && reason != EINVAL) fail("write its folder to storage");
}

// A link does not replace what stands under a name, as a rename does: hence a temporary name in between.
void AtomicFile::name() {
  std::filesystem::path temporary;
  int status = 0;
  do {
    temporary = folder_of(target_) / temporary_name();
    status = ::linkat(AT_FDCWD, path_of_descriptor(descriptor_).c_str(), AT_FDCWD, temporary.c_str(),
                      AT_SYMLINK_FOLLOW);
  } while (status != 0 && errno == EEXIST);
  if (status != 0) fail("name the written file");
  temporary_ = std::move(temporary);
}

void AtomicFile::fail(const char* doing) const {
  throw InputError(target_.string(), std::string("cannot ") + doing + ": " + std::strerror(errno));
}

}  // namespace moelab
