#include "traces/import/line_reader.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kFirstBuffer = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

int as_int(std::uint64_t value) {
  return static_cast<int>(std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));
}

}  // namespace

void fail_at_line(const std::string& file, std::uint64_t line, std::size_t column, const std::string& what) {
  throw InputError(std::vector<Problem>{{file, as_int(line), as_int(column), what}});
}

LineReader::LineReader(const std::filesystem::path& path, Progress progress)
    : stream_(path, std::move(progress)), buffer_(kFirstBuffer) {}

void LineReader::fail(std::size_t column, const std::string& what) const {
  fail_at_line(name(), number_, column, what);
}

// Moves what is left to the front and reads on; grows only while a single line fills the buffer.
bool LineReader::fill() {
  if (at_end_) return false;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    if (end_ >= kLongestLine)
      fail_at_line(name(), number_ + 1, 0,
                   "the line is longer than " + std::to_string(kLongestLine) +
                       " bytes; expected one request or less a line");
    buffer_.resize(2 * end_);
  }
  const std::size_t got = stream_.read(std::as_writable_bytes(std::span(buffer_).subspan(end_)));
  at_end_ = end_ + got < buffer_.size();
  end_ += got;
  return got != 0;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  while (true) {
    const char* const from = buffer_.data() + begin_;
    const std::size_t size = end_ - begin_;
    const void* const found = std::memchr(from + searched, '\n', size - searched);
    if (found != nullptr) {
      line = {from, static_cast<std::size_t>(static_cast<const char*>(found) - from)};
      begin_ += line.size() + 1;
      break;
    }
    searched = size;
    if (fill()) continue;
    if (size == 0) return false;
    line = {buffer_.data() + begin_, size};
    begin_ = end_;
    break;
  }
  if (number_++ == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace moelab
