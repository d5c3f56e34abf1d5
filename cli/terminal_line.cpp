#include "cli/terminal_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <utility>

#include "cli/layer_table.hpp"

namespace moelab::cli {
namespace {

/// Lines in a file or a pipe, which stay, are few.
constexpr std::chrono::seconds kApartInFile{20};

/// In the place of the line; past std::cerr, which lets no control characters through.
void write_line(const std::string& text) {
  std::fputs(("\r\033[K" + text).c_str(), stderr);
}

}  // namespace

TerminalLine::TerminalLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void TerminalLine::show(const std::string& text) {
  const Clock::time_point now = Clock::now();
  if (!terminal_) {
    if (now - std::max(begin_, last_) < kApartInFile) return;
    last_ = now;
    std::cerr << "moelab: progress: " << one_line(text) << std::endl;
    return;
  }
  if (now - begin_ < std::chrono::seconds(2) || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  write_line(one_line(text));
  shown_ = true;
}

void TerminalLine::clear() {
  if (shown_) write_line("");
  shown_ = false;
}

std::function<bool(double)> waits_for_lock(const std::string& store, const std::atomic<bool>* stop) {
  return [store, stop, said = false](double seconds) mutable {
    constexpr double kPatience_s = 2;
    if (seconds >= kPatience_s && !std::exchange(said, true))
      std::cerr << "moelab: waiting for " << one_line(store) << ", which another program keeps locked"
                << std::endl;
    return stop == nullptr || !stop->load();
  };
}

}  // namespace moelab::cli
