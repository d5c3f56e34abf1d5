#include "traces/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

std::size_t size_of(int descriptor, const std::string& file) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw InputError(file, std::string("cannot read its status: ") + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw InputError(file, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) throw InputError(file, "is not a regular file");
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const std::string file = path.string();
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw InputError(file, std::string("cannot open: ") + std::strerror(errno));
  try {
    MappedFile mapped(descriptor, size_of(descriptor, file), file);
    ::close(descriptor);
    return mapped;
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

MappedFile::MappedFile(int descriptor, std::size_t bytes, const std::string& file) {
  if (bytes == 0) return;  // which mmap refuses
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED)
    throw InputError(file, std::string("cannot be mapped into memory: ") + std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(address), bytes};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace moelab
