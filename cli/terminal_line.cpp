#include "cli/terminal_line.hpp"

#include <unistd.h>

#include <iostream>

namespace moelab::cli {

TerminalLine::TerminalLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void TerminalLine::show(const std::string& text) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - begin_ < std::chrono::seconds(2) || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  std::cerr << "\r\033[K" << text << std::flush;
  shown_ = true;
}

void TerminalLine::clear() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace moelab::cli
