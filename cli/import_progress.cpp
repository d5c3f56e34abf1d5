#include "cli/import_progress.hpp"

#include <cstdio>
#include <memory>

#include "cli/terminal_line.hpp"

namespace moelab::cli {

Progress terminal_progress(const std::string& name) {
  const auto line = std::make_shared<TerminalLine>();
  return [line, name](std::uint64_t done, std::uint64_t total) {
    char text[64];
    std::snprintf(text, sizeof text, ": %.0f %% of %.1f MB",
                  total > 0 ? static_cast<double>(done) * 100 / static_cast<double>(total) : 0,
                  static_cast<double>(total) / 1e6);
    line->show(name + text);
  };
}

}  // namespace moelab::cli
