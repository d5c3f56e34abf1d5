// What std::cout and std::cerr write, and with it all text of files and other machines, which must not steer
// a terminal; printf is for text of our own.
#pragma once

#include <ostream>
#include <streambuf>

namespace moelab::cli {

/// While it lives, what is written to a stream arrives without control characters: '?' stands in the place of
/// each below U+0020 but line ends and tabs, and "\u0085" or the like in that of U+007F to U+009F, which
/// terminals obey as well; JSON, which has them in its strings alone, means the same by that.
class PlainOutput : public std::streambuf {
 public:
  explicit PlainOutput(std::ostream& stream);
  ~PlainOutput() override;
  PlainOutput(const PlainOutput&) = delete;
  PlainOutput& operator=(const PlainOutput&) = delete;

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::ostream& stream_;
  std::streambuf* below_;
  bool after_c2_ = false;  // the last byte began a character from U+0080 on
};

}  // namespace moelab::cli
