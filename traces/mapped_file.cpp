#include "traces/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {

/// One of a list that only grows, so that the handler may walk it at any moment.
struct MappedRegion {
  std::atomic<const std::byte*> begin{nullptr};  // nullptr: of no mapping now
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> cut{false};  // something of it was read that is not there any more
  MappedRegion* next = nullptr;
  int descriptor = -1;
  struct stat status {};  // when it was mapped
  std::string file;

  bool has_changed() const {
    struct stat now {};
    return cut || ::fstat(descriptor, &now) != 0 || now.st_size < status.st_size ||
           now.st_mtim.tv_sec != status.st_mtim.tv_sec || now.st_mtim.tv_nsec != status.st_mtim.tv_nsec;
  }
};

namespace {

std::size_t size_of(int descriptor, const std::string& file) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw InputError(file, std::string("cannot read its status: ") + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw InputError(file, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) throw InputError(file, "is not a regular file");
  return static_cast<std::size_t>(status.st_size);
}

std::atomic<MappedRegion*> regions{nullptr};
std::mutex regions_mutex;  // of all but what the handler reads
std::string changed_file;  // of a mapping that is gone; "" where none has changed
struct sigaction former_action {};

/// Zeros in the place of what is cut off, and the flag. Only what may be called in a handler is called.
bool mend(const void* address) {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (MappedRegion* region = regions.load(); region != nullptr; region = region->next) {
    const auto begin = reinterpret_cast<std::uintptr_t>(region->begin.load());
    const std::size_t bytes = (region->bytes.load() + page - 1) / page * page;
    if (begin == 0 || at < begin || at - begin >= bytes) continue;
    region->cut.store(true);
    const std::uintptr_t first = at / page * page;
    return ::mmap(reinterpret_cast<void*>(first), begin + bytes - first, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  if (info->si_code > 0 && mend(info->si_addr)) {
    errno = before;
    return;
  }
  if ((former_action.sa_flags & SA_SIGINFO) != 0) return former_action.sa_sigaction(signal, info, context);
  if (former_action.sa_handler != SIG_DFL && former_action.sa_handler != SIG_IGN)
    return former_action.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // and the access that failed is tried again
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGBUS, &action, &former_action);
  });
}

/// A region that is free, or a new one. With regions_mutex held.
MappedRegion& free_region() {
  for (MappedRegion* region = regions.load(); region != nullptr; region = region->next)
    if (region->begin.load() == nullptr) return *region;
  auto* const region = new MappedRegion;
  region->next = regions.load();
  regions.store(region);
  return *region;
}

MappedRegion* watch(std::span<const std::byte> bytes, int descriptor, const std::string& file) {
  handle_bus_errors();
  const std::lock_guard lock(regions_mutex);
  MappedRegion& region = free_region();
  region.descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (region.descriptor < 0 || ::fstat(region.descriptor, &region.status) != 0)
    throw InputError(file, std::string("cannot be watched: ") + std::strerror(errno));
  region.file = file;
  region.cut.store(false);
  region.bytes.store(bytes.size());
  region.begin.store(bytes.data());
  return &region;
}

void forget(MappedRegion& region) {
  const std::lock_guard lock(regions_mutex);
  if (region.has_changed()) changed_file = region.file;
  region.begin.store(nullptr);
  ::close(std::exchange(region.descriptor, -1));
}

}  // namespace

void fail_changed(const std::string& file) {
  throw InputError(file,
                   "was changed while it was read; expected a file that is left as it is until the end");
}

void check_mapped_files() {
  const std::lock_guard lock(regions_mutex);
  for (MappedRegion* region = regions.load(); region != nullptr; region = region->next)
    if (region->begin.load() != nullptr && region->has_changed()) fail_changed(region->file);
}

void check_files_once_mapped() {
  check_mapped_files();
  const std::lock_guard lock(regions_mutex);
  if (!changed_file.empty()) fail_changed(changed_file);
}

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const std::string file = path.string();
  // O_NONBLOCK: opening a pipe without a writer must not wait.
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
  try {
    region_ = watch(bytes_, descriptor, file);
  } catch (...) {
    ::munmap(address, bytes);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (region_ != nullptr) forget(*region_);
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), region_(std::exchange(other.region_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(region_, other.region_);
  return *this;
}

}  // namespace moelab
