#include "hw/bench/scratch_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {

namespace {

[[noreturn]] void fail(const std::filesystem::path& folder, const std::string& doing) {
  throw InputError(folder.string(), "cannot " + doing + " a file to read from: " + std::strerror(errno));
}

}  // namespace

std::uint64_t ScratchFile::word_at(std::uint64_t index) {
  index = (index + 1) * 0x9E3779B97F4A7C15U;
  index = (index ^ index >> 29) * 0xBF58476D1CE4E5B9U;
  return index ^ index >> 32;
}

ScratchFile::ScratchFile(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::string name = (folder / ".moelab-bench-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail(folder, "make");
  ::unlink(name.c_str());
  try {
    write(bytes);
    if (::fsync(descriptor_) != 0) fail(folder, "write");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ScratchFile::~ScratchFile() {
  ::close(descriptor_);
}

void ScratchFile::write(std::uint64_t bytes) {
  std::vector<std::uint64_t> words;
  while (bytes_ < bytes) {
    words.resize(std::min<std::uint64_t>(1 << 17, (bytes - bytes_) / 8));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(bytes_ / 8 + i);
    auto left = std::as_bytes(std::span(words));
    while (!left.empty()) {
      const ssize_t put = ::write(descriptor_, left.data(), left.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail(path(), "write");
      left = left.subspan(static_cast<std::size_t>(put));
    }
    bytes_ += words.size() * 8;
  }
}

std::filesystem::path ScratchFile::path() const {
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

void ScratchFile::forget() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

bool ScratchFile::holds(std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word != word_at((offset + at) / 8)) return false;
  }
  return true;
}

}  // namespace moelab
