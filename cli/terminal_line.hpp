// A line on the terminal that says how far something long is.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace moelab::cli {

/// Writes on standard error over itself, from the second second on and a few times a second; nothing if that
/// is no terminal. The line is gone with the object, or when it is cleared.
class TerminalLine {
 public:
  TerminalLine();
  ~TerminalLine() { clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  void show(const std::string& text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point begin_ = Clock::now(), last_{};
};

/// For ResultStore: a store that another program keeps locked is waited for until it is free or `stop` is
/// true (nullptr: never); after two seconds a line on standard error says so.
std::function<bool(double)> waits_for_lock(const std::string& store, const std::atomic<bool>* stop = nullptr);

}  // namespace moelab::cli
