#include "traces/spool.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

}  // namespace

Spool::Spool(const std::filesystem::path& target) : target_(target) {
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  std::string name = (folder / ".moelab-spool-XXXXXX").string();
  descriptor_ = mkstemp(name.data());
  if (descriptor_ < 0) fail("create a temporary file in its folder");
  ::unlink(name.c_str());
  buffer_.reserve(kBuffer);
}

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
    if (written < 0 && errno != EINTR) fail("write a temporary file in its folder");
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void Spool::copy_to(AtomicFile& file) {
  flush();
  buffer_.resize(kBuffer);
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(descriptor_, buffer_.data(), buffer_.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read back a temporary file in its folder");
    if (got == 0) break;
    file.write(std::span(buffer_).first(static_cast<std::size_t>(got)));
    at += got;
  }
  buffer_.clear();
}

void Spool::fail(const char* doing) const {
  throw InputError(target_.string(), std::string("cannot ") + doing + ": " + std::strerror(errno));
}

}  // namespace moelab
