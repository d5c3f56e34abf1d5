#include "traces/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

}  // namespace

Spool::Spool(std::string file, std::filesystem::path folder)
    : file_(std::move(file)), folder_(std::move(folder)) {
  std::string name = (folder_ / ".moelab-spool-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail("create");
  ::unlink(name.c_str());
  buffer_.reserve(kBuffer);
}

Spool::Spool(const std::filesystem::path& target)
    : Spool(target.string(), target.has_parent_path() ? target.parent_path() : ".") {}

Spool::~Spool() {
  ::close(descriptor_);
}

void Spool::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void Spool::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t written = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  flushed_ += buffer_.size();
  buffer_.clear();
}

MappedFile Spool::map() {
  flush();
  return {descriptor_, flushed_, file_};
}

void Spool::copy_to(OutputFile& file) {
  flush();
  buffer_.resize(kBuffer);
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(descriptor_, buffer_.data(), buffer_.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read back");
    if (got == 0) break;
    file.write(std::span(buffer_).first(static_cast<std::size_t>(got)));
    at += got;
  }
  buffer_.clear();
}

void Spool::fail(const char* doing) const {
  const std::string reason = std::strerror(errno);
  throw InputError(
      file_, std::string("cannot ") + doing + " a temporary file in " + folder_.string() + ": " + reason);
}

}  // namespace moelab
