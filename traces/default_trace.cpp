#include "traces/default_trace.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <system_error>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "models/input_error.hpp"

extern "C" const char moelab_default_trace_begin[], moelab_default_trace_end[];

namespace moelab {
namespace {

/// A file in memory, closed at the end; what is mapped of it stays.
class MemoryFile {
 public:
  MemoryFile(const char* begin, const char* end) : descriptor_(memfd_create(kDefaultTrace, MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail();
    while (begin < end) {
      const ssize_t written = write(descriptor_, begin, static_cast<std::size_t>(end - begin));
      if (written < 0 && errno != EINTR) fail();
      begin += std::max<ssize_t>(written, 0);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  [[noreturn]] static void fail() {
    throw InputError(kDefaultTrace,
                     std::string("cannot be put into a file in memory: ") + std::strerror(errno));
  }
  int descriptor_;
};

}  // namespace

std::string_view default_trace_bytes() {
  return {moelab_default_trace_begin, moelab_default_trace_end};
}

bool is_default_trace(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return false;
  const std::string known[] = {kDefaultTrace};
  if (name != kDefaultTrace && !closest_name(name, known).empty())
    throw InputError(name, "there is no such file" + suggestion(name, known));
  return name == kDefaultTrace;
}

RoutingTrace open_routing_trace(const std::string& name) {
  if (!is_default_trace(name)) return read_routing_trace(name);
  const MemoryFile file(moelab_default_trace_begin, moelab_default_trace_end);
  return read_routing_trace(file.path());
}

}  // namespace moelab
