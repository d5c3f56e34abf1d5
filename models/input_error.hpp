// What is wrong with a user's input, collected so that everything wrong is said at once.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// One thing wrong with an input. `line` and `column` count from 1; 0 means "no particular place".
struct Problem {
  std::string file;
  int line = 0;
  int column = 0;
  std::string what;  // a sentence: what was found, what was expected, the nearest valid name
};

/// "file:line:column: what", leaving out the parts that are unknown.
std::string to_string(const Problem& problem);

/// Thrown when an input cannot be used; carries every problem found. The command line turns it into exit
/// status 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Problem> problems);
  /// An error with a single problem that has no line.
  InputError(std::string file, std::string what);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// Collects problems while an input is read: the first kMost of them; of more only how many they are is kept,
/// so that a hostile file cannot fill the memory with them.
class Problems {
 public:
  static constexpr std::size_t kMost = 1000;
  void add(Problem problem);
  /// Forgets all but the first so many of those that are kept.
  void forget_after(std::size_t count);
  bool empty() const { return problems_.empty(); }
  const std::vector<Problem>& all() const { return problems_; }
  /// Throws InputError with everything collected, sorted by file and line, if there is anything.
  void throw_if_any() const;

 private:
  std::vector<Problem> problems_;
  std::size_t more_ = 0;
};

/// Leaves so many bytes of a text in UTF-8 at most, and no part of a character.
void cut_text(std::string& text, std::size_t most_bytes);

/// A word of the file as a message can show it: letters of ASCII, 60 at most.
std::string shown_word(std::string_view word);

/// What is not printable ASCII replaced by '?', cut after `limit` characters.
std::string printable(std::string_view text, std::size_t limit);

/// What a library's exception says, without the library's name for it: of "[json.exception.parse_error.101]
/// parse error at line 1" the part behind the bracket.
std::string_view said_by_library(std::string_view what);

/// The name among `known` with the smallest edit distance to `name` (letters left out, added, replaced, or
/// two neighbours swapped; optimal string alignment), or "" where none is near (distance above a third of the
/// longer length). Of several as near the first that has the letters and digits of `name` in their order,
/// capital or not ("q4km": "q4_k_m"), else the first.
std::string closest_name(std::string_view name, std::span<const std::string> known);

/// " (did you mean 'x'?)" for the closest known name or the shortest that has `name` within it, or " (known:
/// a, b, c)" for a short list, or "".
std::string suggestion(std::string_view name, std::span<const std::string> known);

}  // namespace moelab
