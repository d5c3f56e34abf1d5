#include "models/name_pattern.hpp"

#include <algorithm>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

using Step = NamePattern::Step;
using Code = NamePattern::Code;
using Signs = std::bitset<256>;

constexpr std::size_t kLongestPattern = 1000;  // characters
constexpr std::size_t kMostSteps = 4000;
constexpr int kDeepestGroup = 32;

Step sign_step(const Signs& signs) {
  return {.kind = Step::Kind::sign, .signs = signs};
}

Signs one_sign(char c) {
  return Signs().set(static_cast<unsigned char>(c));
}

Signs sign_range(int low, int high) {
  Signs signs;
  for (int c = low; c <= high; ++c) signs.set(static_cast<std::size_t>(c));
  return signs;
}

bool is_word_sign(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Code joined(Code a, const Code& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int length_of(const Code& code) {
  return static_cast<int>(code.size());
}

Code repeated(const Code& once, char how) {
  Code code;
  const int n = length_of(once);
  if (how != '+')
    code.push_back({.kind = Step::Kind::fork, .first = 1, .second = how == '*' ? n + 2 : n + 1});
  code.insert(code.end(), once.begin(), once.end());
  if (how == '*') code.push_back({.kind = Step::Kind::jump, .first = -(n + 1)});
  if (how == '+') code.push_back({.kind = Step::Kind::fork, .first = -n, .second = 1});
  return code;
}

Code either(const Code& a, const Code& b) {
  Code code{{.kind = Step::Kind::fork, .first = 1, .second = length_of(a) + 2}};
  code.insert(code.end(), a.begin(), a.end());
  code.push_back({.kind = Step::Kind::jump, .first = length_of(b) + 1});
  return joined(std::move(code), b);
}

/// Recursive descent over an expression.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  Code read() {
    Code code = alternatives(0);
    if (at_ < text_.size()) refuse("has ')' without '('");
    return code;
  }

 private:
  [[noreturn]] static void refuse(const std::string& why) { throw InputError("", why); }
  bool ends() const { return at_ >= text_.size(); }
  char next() const { return text_[at_]; }

  Code alternatives(int depth) {
    if (depth > kDeepestGroup) refuse("nests groups deeper than " + std::to_string(kDeepestGroup));
    Code code = sequence(depth);
    while (!ends() && next() == '|') {
      ++at_;
      code = either(code, sequence(depth));
      if (code.size() > kMostSteps) refuse("is too long");
    }
    return code;
  }

  Code sequence(int depth) {
    Code code;
    while (!ends() && next() != '|' && next() != ')') {
      Code part = atom(depth);
      bool first = true;
      while (!ends() && (next() == '*' || next() == '+' || next() == '?')) {
        if (!first && next() != '?') refuse("repeats a repetition");  // a '?' behind one makes it lazy
        if (first) part = repeated(part, next());
        first = false;
        ++at_;
      }
      if (!ends() && next() == '{') refuse("has counts in braces, which are not covered");
      code = joined(std::move(code), part);
      if (code.size() > kMostSteps) refuse("is too long");
    }
    return code;
  }

  Code atom(int depth) {
    const char c = next();
    ++at_;
    if (c == '(') return group(depth);
    if (c == '[') return {sign_step(sign_set())};
    if (c == '\\') return {sign_step(escaped())};
    if (c == '.') return {sign_step(Signs().set())};
    if (c == '^') return {{.kind = Step::Kind::begin}};
    if (c == '$') return {{.kind = Step::Kind::end}};
    if (c == '*' || c == '+' || c == '?') refuse("has '" + std::string(1, c) + "' with nothing to repeat");
    return {sign_step(one_sign(c))};
  }

  Code group(int depth) {
    if (!ends() && next() == '?') {
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != ':')
        refuse("has a look-around, a flag or a named group, which are not covered");
      at_ += 2;
    }
    Code code = alternatives(depth + 1);
    if (ends()) refuse("has '(' without ')'");
    ++at_;
    return code;
  }

  Signs escaped() {
    if (ends()) refuse("ends with a backslash");
    const char c = next();
    ++at_;
    const Signs digits = sign_range('0', '9');
    const Signs words = digits | sign_range('a', 'z') | sign_range('A', 'Z') | one_sign('_');
    const Signs blanks = one_sign(' ') | sign_range('\t', '\r');
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return ~digits;
      case 'w':
        return words;
      case 'W':
        return ~words;
      case 's':
        return blanks;
      case 'S':
        return ~blanks;
      default:
        break;
    }
    if (is_word_sign(c)) refuse("has '\\" + std::string(1, c) + "', which is not covered");
    return one_sign(c);
  }

  Signs sign_set() {
    const bool negated = !ends() && next() == '^';
    if (negated) ++at_;
    Signs signs;
    bool first = true;
    while (!ends() && (first || next() != ']')) {
      first = false;
      const char low = next();
      ++at_;
      if (low == '\\') {
        signs |= escaped();
        continue;
      }
      if (at_ + 1 < text_.size() && next() == '-' && text_[at_ + 1] != ']') {
        const char high = text_[at_ + 1];
        if (static_cast<unsigned char>(high) < static_cast<unsigned char>(low)) refuse("has an empty range");
        signs |= sign_range(static_cast<unsigned char>(low), static_cast<unsigned char>(high));
        at_ += 2;
        continue;
      }
      signs |= one_sign(low);
    }
    if (ends()) refuse("has '[' without ']'");
    ++at_;
    return negated ? ~signs : signs;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void check_length(std::string_view text) {
  if (text.size() > kLongestPattern)
    throw InputError("", "is longer than " + std::to_string(kLongestPattern) + " characters");
}

/// A search of all ways through a code at once: where it stands after some signs, each step once.
class Search {
 public:
  explicit Search(const Code& code) : code_(code), seen_(code.size(), 0) {}

  /// Reads one more sign, or none to begin with; true: the end of the code is reached.
  bool begin(bool name_is_empty) {
    now_.clear();
    return follow(0, true, name_is_empty);
  }
  bool read(char c, bool last) {
    before_.swap(now_);
    now_.clear();
    ++turn_;
    bool reached = false;
    for (const int at : before_) {
      if (!code_[static_cast<std::size_t>(at)].signs[static_cast<unsigned char>(c)]) continue;
      if (follow(at + 1, false, last)) reached = true;
    }
    return reached;
  }
  bool lost() const { return now_.empty(); }

 private:
  /// Follows forks, jumps and anchors up to the signs behind them.
  bool follow(int from, bool at_begin, bool at_end) {
    bool reached = false;
    open_.assign(1, from);
    const auto go = [&](int at, int by) { open_.push_back(at + by); };
    while (!open_.empty()) {
      const int at = open_.back();
      open_.pop_back();
      if (at == length_of(code_)) reached = true;
      if (at == length_of(code_) || seen_[static_cast<std::size_t>(at)] == turn_) continue;
      seen_[static_cast<std::size_t>(at)] = turn_;
      const Step& step = code_[static_cast<std::size_t>(at)];
      const bool anchored =
          (step.kind == Step::Kind::begin && at_begin) || (step.kind == Step::Kind::end && at_end);
      if (step.kind == Step::Kind::sign) now_.push_back(at);
      if (step.kind == Step::Kind::fork || step.kind == Step::Kind::jump) go(at, step.first);
      if (step.kind == Step::Kind::fork) go(at, step.second);
      if (anchored) go(at, 1);
    }
    return reached;
  }

  const Code& code_;
  std::vector<int> now_, before_, open_;
  std::vector<std::size_t> seen_;  // by step: the last turn that came by
  std::size_t turn_ = 1;
};

}  // namespace

NamePattern NamePattern::expression(std::string_view text) {
  check_length(text);
  return {ExpressionReader(text).read(), false};
}

NamePattern NamePattern::wildcard(std::string_view text) {
  check_length(text);
  Code code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::size_t close = c == '[' ? text.find(']', i + 2) : std::string_view::npos;
    if (c == '*') {
      code = joined(std::move(code), repeated({sign_step(Signs().set())}, '*'));
    } else if (c == '?') {
      code.push_back(sign_step(Signs().set()));
    } else if (close != std::string_view::npos) {
      std::string set(text.substr(i, close - i + 1));
      if (set[1] == '!') set[1] = '^';
      code = joined(std::move(code), ExpressionReader(set).read());
      i = close;
    } else {
      code.push_back(sign_step(one_sign(c)));
    }
  }
  return {std::move(code), true};
}

NamePattern::NamePattern(Code code, bool whole) : code_(std::move(code)), whole_(whole) {
  for (const Step& step : code_) {
    if (step.kind != Step::Kind::sign || step.signs.count() != 1) break;
    for (std::size_t c = 0; c < step.signs.size(); ++c)
      if (step.signs[c]) start_ += static_cast<char>(c);
  }
}

std::size_t NamePattern::work(std::string_view name) const {
  return name.starts_with(start_) ? code_.size() * (name.size() + 1) : 1;
}

bool NamePattern::fits(std::string_view name) const {
  if (!name.starts_with(start_)) return false;
  Search search(code_);
  bool reached = search.begin(name.empty());
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (reached && !whole_) return true;
    if (search.lost()) return false;
    reached = search.read(name[i], i + 1 == name.size());
  }
  return reached;
}

}  // namespace moelab
