// The one place through which all text goes to the user: names and messages come from files and other
// machines, and must not steer a terminal.
#pragma once

#include <ostream>
#include <streambuf>

namespace moelab::cli {

/// While it lives, what is written to a stream arrives without control characters: '?' stands in the place of
/// each but line ends and tabs, and "\u0085" or the like in that of U+0080 to U+009F, which terminals obey as
/// well; JSON, which has them in its strings alone, means the same by that.
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
