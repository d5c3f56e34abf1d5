// A serving loop as a C++20 coroutine: it submits graphs and waits for them and for moments in time.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace moelab::engine {

/// What a coroutine that runs in an engine returns. Starts suspended; Engine::spawn resumes it first. The
/// object owns the coroutine and outlives the run.
class Process {
 public:
  struct promise_type {
    Process get_return_object() { return Process(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { *failure = std::current_exception(); }
    std::exception_ptr* failure = nullptr;  // the engine's; set by spawn
  };

  Process(Process&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Process& operator=(Process&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Process() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  std::coroutine_handle<> handle() const { return handle_; }
  /// Where an exception that leaves the coroutine goes.
  void report_failure_to(std::exception_ptr& failure) { handle_.promise().failure = &failure; }

 private:
  explicit Process(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace moelab::engine
