#include "sim/sweep/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {

struct Condition::Node {
  enum class Kind : std::uint8_t { literal, name, negative, both, either, no, sum, product, comparison };
  Kind kind = Kind::literal;
  std::string word;  // the name, or the operator
  Value literal;
  std::size_t place = 0;  // from 1
  std::vector<std::shared_ptr<const Node>> parts;
};

namespace {

using Node = Condition::Node;
using NodePtr = std::shared_ptr<const Node>;
using Unit = Measure::Unit;

constexpr std::size_t kLongest = 4096;
constexpr int kDeepest = 64;
constexpr std::array<std::string_view, 6> kUnitNames = {
    "a number without unit", "a time", "an amount of bytes", "a rate in bytes", "FLOPs", "a rate in FLOPs"};

std::string name_of(Unit unit) {
  return std::string(kUnitNames[static_cast<std::size_t>(unit)]);
}

[[noreturn]] void fail(std::size_t place, const std::string& what) {
  throw ConditionError("at character " + std::to_string(place) + ": " + what);
}

template <class Q>
bool read_as(std::string_view text, Unit unit, Measure& out) {
  Q quantity;
  std::string expected;
  if (!parse(text, quantity, expected)) return false;
  out = {quantity.value(), unit};
  return true;
}

bool read_measure(std::string_view text, Measure& out) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) {
    out = {number, Unit::none};
    return true;
  }
  return read_as<Seconds>(text, Unit::seconds, out) || read_as<Bytes>(text, Unit::bytes, out) ||
         read_as<BytesPerSecond>(text, Unit::bytes_per_second, out) ||
         read_as<Flops>(text, Unit::flops, out) || read_as<FlopsPerSecond>(text, Unit::flops_per_second, out);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NodePtr whole() {
    NodePtr node = condition();
    if (at_ < text_.size()) fail(at_ + 1, "expected the end or an operator, found '" + rest() + "'");
    return node;
  }

 private:
  NodePtr condition() {
    return chain(Node::Kind::either, {"or"}, [this] { return conjunction(); });
  }
  NodePtr conjunction() {
    return chain(Node::Kind::both, {"and"}, [this] { return negation(); });
  }
  NodePtr sum() {
    return chain(Node::Kind::sum, {"+", "-"}, [this] { return product(); });
  }
  NodePtr product() {
    return chain(Node::Kind::product, {"*", "/"}, [this] { return factor(); });
  }

  template <class Part>
  NodePtr chain(Node::Kind kind, const std::vector<std::string>& words, Part part) {
    NodePtr left = part();
    for (;;) {
      const std::size_t place = at_ + 1;
      const auto word = std::find_if(words.begin(), words.end(), [&](const auto& w) { return take(w); });
      if (word == words.end()) return left;
      left = make({kind, *word, {}, place, {left, part()}});
    }
  }

  NodePtr negation() {
    const std::size_t place = at_ + 1;
    const Depth depth(*this);
    if (take("not")) return make({Node::Kind::no, "not", {}, place, {negation()}});
    NodePtr left = sum();
    const std::size_t operator_place = at_ + 1;
    for (const char* word : {"<=", ">=", "==", "!=", "<", ">"})
      if (take(word)) return make({Node::Kind::comparison, word, {}, operator_place, {left, sum()}});
    return left;
  }

  NodePtr factor() {
    const Depth depth(*this);
    const std::size_t place = at_ + 1;
    if (take("-")) return make({Node::Kind::negative, "-", {}, place, {factor()}});
    if (take("(")) {
      NodePtr inside = condition();
      if (!take(")")) fail(at_ + 1, "expected ')' for the '(' at character " + std::to_string(place));
      return inside;
    }
    if (at_ >= text_.size()) fail(place, "expected a value, found the end");
    if (text_[at_] == '"' || text_[at_] == '\'') return quoted();
    if (is_digit(text_[at_])) return number();
    if (is_letter(text_[at_])) return named();
    fail(place, "expected a number, a text in quotes or a name, found '" + rest() + "'");
  }

  NodePtr quoted() {
    const std::size_t begin = at_;
    const std::size_t end = text_.find(text_[begin], begin + 1);
    if (end == std::string_view::npos) fail(begin + 1, "a quote that is never closed");
    at_ = end + 1;
    blanks();
    return make(
        {Node::Kind::literal, "", std::string(text_.substr(begin + 1, end - begin - 1)), begin + 1, {}});
  }

  /// Digits, and the unit behind them, if a unit it is.
  NodePtr number() {
    const std::size_t begin = at_;
    double value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) fail(begin + 1, "a number out of range");
    at_ = static_cast<std::size_t>(stop - text_.data());
    Measure measure{value, Unit::none};
    std::size_t unit = at_;
    while (unit < text_.size() && text_[unit] == ' ') ++unit;
    std::size_t end = unit;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    if (text_.substr(end).starts_with("/s")) end += 2;
    const std::string_view word = text_.substr(unit, end - unit);
    if (!word.empty() && word != "and" && word != "or") {
      if (!read_measure(std::string(text_.substr(begin, at_ - begin)) + " " + std::string(word), measure))
        fail(unit + 1, "'" + std::string(word) + "' is no unit; expected one such as GB, ms or GB/s");
      at_ = end;
    }
    blanks();
    return make({Node::Kind::literal, "", measure, begin + 1, {}});
  }

  NodePtr named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    if (at_ < text_.size() && text_[at_] == '(')
      fail(begin + 1, "'" + name + "(': functions are not supported; expected arithmetic and comparisons");
    blanks();
    if (name == "true" || name == "false")
      return make({Node::Kind::literal, "", name == "true", begin + 1, {}});
    if (name == "and" || name == "or" || name == "not")
      fail(begin + 1, "expected a value, found '" + name + "'");
    return make({Node::Kind::name, name, {}, begin + 1, {}});
  }

  static NodePtr make(Node node) { return std::make_shared<const Node>(std::move(node)); }

  bool take(std::string_view word) {
    blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    const std::size_t end = at_ + word.size();
    if (is_letter(word.front()) && end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end])))
      return false;  // "order" is not "or"
    at_ = end;
    blanks();
    return true;
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  std::string rest() const { return std::string(text_.substr(at_, 20)); }

  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > kDeepest) fail(parser.at_ + 1, "nests deeper than 64 levels");
    }
    ~Depth() { --parser.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& parser;
  };

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Condition::Lookup& lookup, const std::vector<std::string>& known)
      : lookup_(lookup), known_(known) {}

  Value value(const Node& node) const {
    using Kind = Node::Kind;
    switch (node.kind) {
      case Kind::literal:
        return node.literal;
      case Kind::name:
        return named(node);
      case Kind::negative: {
        const Measure m = measure(*node.parts[0]);
        return Measure{-m.value, m.unit};
      }
      case Kind::both:
        return truth(*node.parts[0]) && truth(*node.parts[1]);
      case Kind::either:
        return truth(*node.parts[0]) || truth(*node.parts[1]);
      case Kind::no:
        return !truth(*node.parts[0]);
      case Kind::sum:
      case Kind::product:
        return arithmetic(node);
      case Kind::comparison:
        return comparison(node);
    }
    return false;
  }

  bool truth(const Node& node) const {
    const Value v = value(node);
    if (const bool* b = std::get_if<bool>(&v)) return *b;
    fail(node.place, "expected a comparison, found " + shown(v));
  }

 private:
  Value named(const Node& node) const {
    if (const auto found = lookup_(node.word)) return *found;
    fail(node.place, "nothing is named '" + node.word + "'" + suggestion(node.word, known_));
  }

  Measure measure(const Node& node) const {
    const Value v = value(node);
    if (const Measure* m = std::get_if<Measure>(&v)) return *m;
    fail(node.place, "expected a number, found " + shown(v));
  }

  Value arithmetic(const Node& node) const {
    const Measure a = measure(*node.parts[0]), b = measure(*node.parts[1]);
    if (node.kind == Node::Kind::sum) {
      same_unit(node, a, b);
      return Measure{node.word == "+" ? a.value + b.value : a.value - b.value, a.unit};
    }
    if (node.word == "*") {
      if (a.unit != Unit::none && b.unit != Unit::none)
        fail(node.place, name_of(a.unit) + " times " + name_of(b.unit) + " has no unit here");
      return Measure{a.value * b.value, a.unit == Unit::none ? b.unit : a.unit};
    }
    if (b.unit == a.unit) return Measure{a.value / b.value, Unit::none};
    if (b.unit == Unit::none) return Measure{a.value / b.value, a.unit};
    if (a.unit == Unit::bytes && b.unit == Unit::seconds)
      return Measure{a.value / b.value, Unit::bytes_per_second};
    if (a.unit == Unit::bytes && b.unit == Unit::bytes_per_second)
      return Measure{a.value / b.value, Unit::seconds};
    if (a.unit == Unit::flops && b.unit == Unit::seconds)
      return Measure{a.value / b.value, Unit::flops_per_second};
    if (a.unit == Unit::flops && b.unit == Unit::flops_per_second)
      return Measure{a.value / b.value, Unit::seconds};
    fail(node.place, name_of(a.unit) + " divided by " + name_of(b.unit) + " has no unit here");
  }

  Value comparison(const Node& node) const {
    const Value left = value(*node.parts[0]), right = value(*node.parts[1]);
    if (left.index() != right.index())
      fail(node.place, shown(left) + " cannot be compared with " + shown(right));
    if (const Measure* a = std::get_if<Measure>(&left)) {
      const Measure& b = std::get<Measure>(right);
      same_unit(node, *a, b);
      return compared(node.word, a->value, b.value);
    }
    if (node.word != "==" && node.word != "!=")
      fail(node.place, "'" + node.word + "' compares numbers, found " + shown(left));
    return (left == right) == (node.word == "==");
  }

  static bool compared(const std::string& word, double a, double b) {
    if (word == "<") return a < b;
    if (word == "<=") return a <= b;
    if (word == ">") return a > b;
    if (word == ">=") return a >= b;
    return (a == b) == (word == "==");
  }

  static void same_unit(const Node& node, const Measure& a, const Measure& b) {
    if (a.unit != b.unit)
      fail(node.place, "'" + node.word + "' between " + name_of(a.unit) + " and " + name_of(b.unit));
  }

  static std::string shown(const Value& v) {
    if (const std::string* text = std::get_if<std::string>(&v)) return "the text '" + *text + "'";
    if (const bool* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
    return name_of(std::get<Measure>(v).unit);
  }

  const Condition::Lookup& lookup_;
  const std::vector<std::string>& known_;
};

void collect(const Node& node, std::vector<std::string>& names) {
  if (node.kind == Node::Kind::name && std::find(names.begin(), names.end(), node.word) == names.end())
    names.push_back(node.word);
  for (const NodePtr& part : node.parts) collect(*part, names);
}

void collect_compared(const Node& node, const std::string& name, std::vector<std::string>& others) {
  const auto is_name = [](const NodePtr& part) { return part->kind == Node::Kind::name; };
  if (node.kind == Node::Kind::comparison && (node.word == "==" || node.word == "!=") &&
      std::all_of(node.parts.begin(), node.parts.end(), is_name))
    for (const std::size_t side : {0U, 1U})
      if (node.parts[side]->word == name) others.push_back(node.parts[1 - side]->word);
  for (const NodePtr& part : node.parts) collect_compared(*part, name, others);
}

}  // namespace

Value value_of_text(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  Measure measure;
  if (read_measure(text, measure)) return measure;
  return std::string(text);
}

Condition::Condition(std::string_view text) {
  if (text.size() > kLongest) throw ConditionError("is longer than 4,096 bytes");
  root_ = Parser(text).whole();
}

bool Condition::holds(const Lookup& lookup, const std::vector<std::string>& known) const {
  return Evaluator(lookup, known).truth(*root_);
}

std::vector<std::string> Condition::names() const {
  std::vector<std::string> names;
  collect(*root_, names);
  return names;
}

std::vector<std::string> Condition::compared_with(const std::string& name) const {
  std::vector<std::string> others;
  collect_compared(*root_, name, others);
  return others;
}

}  // namespace moelab
