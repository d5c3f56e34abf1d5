// Work in a process of its own: SimGrid allows one engine a process, a crash there must not take the caller
// with it, and several processors can work at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace moelab {

/// 0: no limit.
struct ChildLimits {
  double wall_s = 0;
  std::uint64_t memory_bytes = 0;  // of address space
};

/// How a child ended.
struct ChildOutcome {
  enum class Kind : std::uint8_t {
    done,
    failed,   // threw, or was ended by a signal
    timeout,  // was still at it after ChildLimits::wall_s
    memory    // wanted more than ChildLimits::memory_bytes, or than the machine had
  };
  Kind kind = Kind::failed;
  std::string text;          // what the work returned; of the others, what went wrong
  std::exception_ptr error;  // of `failed`: an InputError of the child, else a std::runtime_error
  int signal = 0;            // that ended it, 0: none did
  double wall_s = 0, cpu_s = 0;
  std::uint64_t peak_bytes = 0;  // most resident memory
};

/// What a program around moelab, such as an interpreter, has to do where a process is forked.
struct ForkHooks {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();
  void (*at_end)();  // in the child, after its work
};
/// From now on; nullptr: nothing. Hooks outlive their use.
void set_fork_hooks(const ForkHooks* hooks);

/// A forked child at work. It ends without running the parent's destructors or flushing its streams, and is
/// killed with the object, and with the parent.
class ChildProcess {
 public:
  /// Throws std::runtime_error where no process can be made.
  explicit ChildProcess(const std::function<std::string()>& work, ChildLimits limits = {});
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// For poll(): readable when read() has something to do.
  int descriptor() const { return descriptor_; }
  /// Takes what the child has written so far, without waiting; true once there is no more to come.
  bool read();
  /// Seconds until its time is over; infinity without a limit.
  double seconds_left() const;
  /// Waits for its end, or ends it where its time is over.
  ChildOutcome wait();

 private:
  double wall_s() const;

  pid_t child_ = -1;
  int descriptor_ = -1;
  ChildLimits limits_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::string message_;
};

/// Runs `work` in a child and returns its text. An InputError or another exception of the child is thrown
/// here again (others as std::runtime_error).
std::string run_in_child(const std::function<std::string()>& work);

}  // namespace moelab
