#include "cli/import_progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <memory>

namespace moelab::cli {
namespace {

constexpr std::uint64_t kShort = std::uint64_t{16} << 20;  // bytes: read before anybody looks

/// Erases what it wrote when the last copy of the progress goes.
class ProgressLine {
 public:
  explicit ProgressLine(std::string name) : name_(std::move(name)) {}
  ~ProgressLine() {
    if (shown_ >= 0) std::fputs("\r\x1b[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::uint64_t done, std::uint64_t total) {
    const int percent = static_cast<int>(static_cast<double>(done) * 100 / static_cast<double>(total));
    if (percent == shown_) return;
    shown_ = percent;
    std::fprintf(stderr, "\r%s: %d %% of %.1f MB\x1b[K", name_.c_str(), percent,
                 static_cast<double>(total) / 1e6);
    std::fflush(stderr);
  }

 private:
  std::string name_;
  int shown_ = -1;
};

}  // namespace

Progress terminal_progress(const std::string& name) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  const auto line = std::make_shared<ProgressLine>(name);
  return [line](std::uint64_t done, std::uint64_t total) {
    if (total >= kShort) line->show(done, total);
  };
}

}  // namespace moelab::cli
