#include "sim/store/writer_lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {
namespace {

/// Descriptors that hold a lock. A forked child would hold it on, after its parent was killed: it closes
/// them at once.
class HeldDescriptors {
 public:
  static HeldDescriptors& all() {
    static HeldDescriptors held;
    return held;
  }
  void add(int descriptor) {
    const std::lock_guard lock(mutex_);
    descriptors_.push_back(descriptor);
  }
  void remove(int descriptor) {
    const std::lock_guard lock(mutex_);
    std::erase(descriptors_, descriptor);
  }

 private:
  HeldDescriptors() {
    ::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                     [] {
                       for (const int descriptor : all().descriptors_) ::close(descriptor);
                       all().mutex_.unlock();
                     });
  }
  std::mutex mutex_;
  std::vector<int> descriptors_;
};

/// What FILE.lock holds: a process's number, nothing (its writer is just about to write it), or, of another
/// kind of file, more than that.
std::string content_of(int descriptor) {
  std::array<char, 32> bytes{};
  const ssize_t size = ::pread(descriptor, bytes.data(), bytes.size(), 0);
  std::string text(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_number(const std::string& text) {
  return text.size() <= 20 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

WriterLock::WriterLock(const std::filesystem::path& store) : store_(store), file_(store.string() + ".lock") {
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor_ < 0)
      throw InputError(store_.string(), "cannot be written: " + file_.string() + ": " + std::strerror(errno));
    const std::string content = content_of(descriptor_);
    if (!is_number(content)) {
      ::close(descriptor_);
      throw InputError(file_.string(), "is not the lock of a result store: expected a process number");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) continue;
    const int reason = errno;
    ::close(descriptor_);
    if (reason != EWOULDBLOCK)
      throw InputError(file_.string(), std::string("cannot be locked: ") + std::strerror(reason));
    throw InputError(store_.string(), "process " + (content.empty() ? "of another number" : content) +
                                          " is writing it; one process writes at a time");
    // A file that the one before removed is no process's lock any more.
  } while (!is_under_its_name());
  HeldDescriptors::all().add(descriptor_);
  const std::string number = std::to_string(::getpid()) + "\n";
  // Only for the message to others: where it cannot be written, on a full disk, the lock holds all the same.
  [[maybe_unused]] const bool named =
      ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, number.data(), number.size(), 0) > 0;
}

bool WriterLock::is_under_its_name() const {
  struct stat held {
  }, named{};
  return ::fstat(descriptor_, &held) == 0 && ::stat(file_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

WriterLock::~WriterLock() {
  if (is_under_its_name()) ::unlink(file_.c_str());
  HeldDescriptors::all().remove(descriptor_);
  ::close(descriptor_);
}

}  // namespace moelab
