// Lines of a text file from front to back, with their numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/input_stream.hpp"

namespace moelab {

/// The longest line that is read, in bytes: a request of 128 Ki tokens, 61 layers and 8 experts takes 170
/// million as base64 of 16-bit numbers.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 28;

class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path, Progress progress = {});

  /// The next line without its end ("\n" or "\r\n"); false at the end of the file. The line is valid until
  /// the next call. A byte-order mark at the start of the file is left out. Throws InputError as InputStream
  /// does, and for a line longer than kLongestLine.
  bool next(std::string_view& line);
  /// Number of the line that next() gave last, from 1.
  std::uint64_t number() const { return number_; }
  const std::string& name() const { return stream_.name(); }
  /// Throws InputError at that line; column 0: none in particular.
  [[noreturn]] void fail(std::size_t column, const std::string& what) const;

 private:
  bool fill();

  InputStream stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // bytes of the buffer not taken yet
  bool at_end_ = false;
  std::uint64_t number_ = 0;
};

/// Throws InputError at a line and column of a file (from 1; 0: unknown).
[[noreturn]] void fail_at_line(const std::string& file, std::uint64_t line, std::size_t column,
                               const std::string& what);

}  // namespace moelab
