// The characters of a file one by one, for a parser that takes iterators: memory does not depend on the
// file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "traces/import/input_stream.hpp"

namespace moelab {

class StreamedText {
 public:
  explicit StreamedText(const std::filesystem::path& path, Progress progress = {});

  /// Copies share the place in the text.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    explicit Iterator(StreamedText* text) : text_(text) {}
    reference operator*() const { return text_->buffer_[text_->at_]; }
    Iterator& operator++() {
      text_->advance();
      return *this;
    }
    /// The only other place that is compared with is the end.
    bool operator==(const Iterator&) const { return text_->at_ == text_->end_; }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    StreamedText* text_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(this); }

  /// To be told now and then that what was read is done with. Throws InputError where more than
  /// kMostKept bytes are read in between.
  void done_with_read() { kept_ = 0; }
  static constexpr std::size_t kMostKept = std::size_t{1} << 26;

  /// Throws InputError where the reader is.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void advance();
  void fill();

  InputStream stream_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::size_t kept_ = 0;
  std::uint64_t line_ = 1;
  std::size_t column_ = 0;
};

}  // namespace moelab
