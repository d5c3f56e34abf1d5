#include "traces/import/json_values.hpp"

#include <cmath>
#include <limits>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

constexpr std::size_t kDeepest = 64;

struct Container {
  bool array = false;
  std::size_t path_size = 0;  // of the path of the container itself
  std::uint64_t elements = 0;
};

struct Refused {
  std::string what;
};

// Every member returns true to go on; what is wrong is thrown, and given its column outside.
class Collector : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Collector(const std::function<bool(std::string_view)>& wanted) : wanted_(wanted) {}

  JsonValues take() { return std::move(values_); }
  const std::string& path() const { return path_; }

  bool null() override {
    if (begin_value() && value_ != nullptr) {
      if (depth_ > 0) throw Refused{"null among numbers"};
      values_.erase(path_);
      value_ = nullptr;
    }
    return end_value();
  }
  bool boolean(bool) override { return refuse_or_skip("true or false"); }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return fraction(static_cast<double>(value));
    return whole(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return fraction(value); }
  bool string(string_t& text) override {
    if (begin_value() && value_ != nullptr) {
      if (depth_ > 0) throw Refused{"the text " + shown(text) + " among numbers"};
      value_->is_text = true;
      value_->text = std::move(text);
    }
    return end_value();
  }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    if (begin_value() && value_ != nullptr) throw Refused{"an object; expected a number, a text or an array"};
    return open(false);
  }
  bool end_object() override {
    close();
    return end_value();
  }
  bool key(string_t& name) override {
    path_.resize(open_.back().path_size);
    if (!path_.empty()) path_ += '.';
    path_ += name;
    return true;
  }
  bool start_array(std::size_t) override {
    begin_value();
    if (value_ != nullptr) {
      if (depth_ == value_->shape.size()) {
        if (value_->size() != 0 || closed_ > depth_) throw Refused{"arrays among numbers"};
        value_->shape.push_back(kOpen);
      }
      ++depth_;
      counts_.push_back(0);
      return true;
    }
    return open(true);
  }
  bool end_array() override {
    if (value_ == nullptr) {
      close();
      return end_value();
    }
    const std::uint64_t count = counts_.back();
    counts_.pop_back();
    --depth_;
    if (depth_ + 1 != value_->shape.size() && count == 0) throw Refused{"an empty array among full ones"};
    std::uint64_t& due = value_->shape[depth_];
    if (due != kOpen && due != count)
      throw Refused{"an array of " + std::to_string(count) + " values after one of " + std::to_string(due)};
    due = count;
    closed_ = std::max(closed_, depth_ + 1);
    return end_value();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw Refused{"not JSON: " + json_problem(error)};
  }

 private:
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();

  // A value begins at path_ (its name is there already; its place in an array is added here). Returns whether
  // it could be wanted; value_ is set while one is collected.
  bool begin_value() {
    if (value_ != nullptr) return true;
    if (!open_.empty() && open_.back().array) {
      path_.resize(open_.back().path_size);
      path_ += '[' + std::to_string(open_.back().elements++) + ']';
    }
    if (!wanted_(path_)) return false;
    const auto [at, fresh] = values_.try_emplace(path_);
    if (!fresh) throw Refused{"the name " + shown(path_) + " comes twice"};
    value_ = &at->second;
    depth_ = closed_ = 0;
    return true;
  }
  bool end_value() {
    if (value_ == nullptr) return true;
    if (depth_ == 0) {
      value_ = nullptr;
    } else {
      ++counts_.back();
    }
    return true;
  }
  bool refuse_or_skip(const char* found) {
    if (begin_value() && value_ != nullptr)
      throw Refused{std::string(found) + "; expected a number or a text"};
    return end_value();
  }
  void check_place() const {
    if (depth_ != value_->shape.size()) throw Refused{"numbers among arrays"};
  }
  bool whole(std::int64_t number) {
    if (begin_value() && value_ != nullptr) {
      check_place();
      if (value_->whole) {
        value_->integers.push_back(number);
      } else {
        value_->numbers.push_back(static_cast<double>(number));
      }
    }
    return end_value();
  }
  bool fraction(double number) {
    if (begin_value() && value_ != nullptr) {
      check_place();
      if (!std::isfinite(number)) throw Refused{"a number that is too large"};
      if (value_->whole) {
        value_->numbers.assign(value_->integers.begin(), value_->integers.end());
        value_->integers.clear();
        value_->whole = false;
      }
      value_->numbers.push_back(number);
    }
    return end_value();
  }
  bool open(bool array) {
    if (open_.size() == kDeepest) throw Refused{"nested deeper than " + std::to_string(kDeepest) + " levels"};
    open_.push_back({array, path_.size(), 0});
    return true;
  }
  void close() {
    path_.resize(open_.back().path_size);
    open_.pop_back();
  }

  const std::function<bool(std::string_view)>& wanted_;
  JsonValues values_;
  std::string path_;
  std::vector<Container> open_;  // outside of a wanted value
  JsonValue* value_ = nullptr;   // being collected
  std::size_t depth_ = 0;        // arrays open in it
  std::size_t closed_ = 0;       // the deepest array that was closed in it
  std::vector<std::uint64_t> counts_;
};

// Gives its reader's place away: nlohmann's parser says no column while it parses.
class Counted {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Counted(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  Counted& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const Counted& other) const { return at_ == other.at_; }
  bool operator!=(const Counted& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

}  // namespace

JsonValues read_json_values(std::string_view text, const std::function<bool(std::string_view)>& wanted,
                            const std::string& file, std::uint64_t line) {
  Collector collector(wanted);
  const char* furthest = text.data();
  try {
    read_json_events(Counted(text.data(), &furthest), Counted(text.data() + text.size(), &furthest),
                     collector);
  } catch (const Refused& refused) {
    const std::string at = collector.path().empty() ? "" : collector.path() + ": ";
    fail_at_line(file, line, static_cast<std::size_t>(furthest - text.data()), at + refused.what);
  }
  return collector.take();
}

std::string json_problem(const std::exception& error) {
  constexpr std::size_t kMost = 200;
  const std::string_view what = said_by_library(error.what());
  const std::size_t place = what.find(": ");  // of a text's end it says only what is too large
  return printable(place == what.npos ? what : what.substr(place + 2), kMost);
}

}  // namespace moelab
