#include "traces/import/streamed_text.hpp"

#include <span>

#include "traces/import/line_reader.hpp"

namespace moelab {
namespace {

constexpr std::size_t kStreamBlock = std::size_t{1} << 18;

}  // namespace

StreamedText::StreamedText(const std::filesystem::path& path, Progress progress)
    : stream_(path, std::move(progress)), buffer_(kStreamBlock) {
  fill();
}

void StreamedText::fill() {
  at_ = 0;
  end_ = stream_.read(std::as_writable_bytes(std::span(buffer_)));
}

void StreamedText::advance() {
  if (buffer_[at_] == '\n') {
    ++line_;
    column_ = 0;
  } else {
    ++column_;
  }
  if (++kept_ > kMostKept) fail("a text of more than " + std::to_string(kMostKept >> 20) + " MiB");
  if (++at_ == end_) fill();
}

void StreamedText::fail(const std::string& what) const {
  fail_at_line(stream_.name(), line_, column_, what);
}

}  // namespace moelab
