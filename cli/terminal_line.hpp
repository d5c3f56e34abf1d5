// How far something long is, on standard error.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace moelab::cli {

/// On a terminal a line that is written over itself, from the second second on and a few times a second; it
/// is gone with the object, or when it is cleared. Elsewhere a line of its own, "moelab: progress: " and the
/// text, every 20 seconds.
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
