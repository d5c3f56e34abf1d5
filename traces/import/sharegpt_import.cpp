#include "traces/import/sharegpt_import.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/json_values.hpp"
#include "traces/import/streamed_text.hpp"

namespace moelab {
namespace {

constexpr std::size_t kDeepestList = 64;
constexpr std::array<std::string_view, 4> kAsking = {"human", "user", "system", "tool"};
constexpr std::array<std::string_view, 5> kAnswering = {"gpt", "chatgpt", "assistant", "bing", "bard"};

/// Of UTF-8: bytes that continue a character are none.
std::uint64_t characters_of(std::string_view text) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// A request while its place in the log is not known.
struct Turn {
  double arrival_s = 0;
  std::uint32_t prompt = 0, output = 0;
  std::uint32_t shared = 0;
  std::size_t before = 0;  // the turn that it shares these with
};

/// The requests of conversations, from their messages in order.
class Turns {
 public:
  Turns(const ShareGptImport& how, bool skip_failed) : how_(how), skip_failed_(skip_failed) {}

  void begin() {
    said_ = answer_ = 0;
    answering_ = false;
    opening_ = true;
    last_ = std::nullopt;
    asked_ = 0;
  }
  /// What is wrong, or nothing.
  std::string add(bool answers, std::string_view text) {
    const std::uint64_t tokens = tokens_of(text);
    if (!answers) {
      std::string problem = end_answer();
      opening_ = false;
      said_ += tokens;
      return problem;
    }
    if (opening_) {
      said_ += tokens;
    } else {
      answer_ += tokens;
      answering_ = true;
    }
    return "";
  }
  std::string end() {
    std::string problem = end_answer();
    if (asked_ > 0) ++conversations_;
    return problem;
  }
  ShareGptRequests take();

 private:
  std::uint64_t tokens_of(std::string_view text) const {
    const double tokens = std::round(static_cast<double>(characters_of(text)) / how_.characters_per_token);
    return text.empty() ? 0 : static_cast<std::uint64_t>(std::max(1.0, tokens));
  }
  std::string end_answer() {
    if (!answering_) return "";
    answering_ = false;
    const std::uint64_t prompt = said_, output = std::exchange(answer_, 0);
    said_ += output;
    if (prompt == 0 || output == 0) {
      if (!skip_failed_)
        return std::string(output == 0 ? "an answer" : "a prompt") +
               " without text; --skip-failed leaves such requests out";
      ++skipped_;
      return "";
    }
    if (said_ > std::numeric_limits<std::uint32_t>::max())
      return "a conversation of more than 2^32 - 1 tokens";
    Turn turn{.arrival_s = static_cast<double>(conversations_) / how_.conversations_per_s +
                           static_cast<double>(asked_++) * how_.turn_gap_s,
              .prompt = static_cast<std::uint32_t>(prompt),
              .output = static_cast<std::uint32_t>(output)};
    if (last_) {
      turn.before = *last_;
      turn.shared = turns_[*last_].prompt + turns_[*last_].output;
    }
    last_ = turns_.size();
    turns_.push_back(turn);
    return "";
  }

  ShareGptImport how_;
  bool skip_failed_;
  std::vector<Turn> turns_;
  std::uint64_t conversations_ = 0, skipped_ = 0;
  // Of the conversation that is read.
  std::uint64_t said_ = 0, answer_ = 0;  // tokens: before the answer, and of it
  bool answering_ = false;
  bool opening_ = true;              // no one has asked yet
  std::optional<std::size_t> last_;  // its turn before
  std::uint64_t asked_ = 0;          // its turns
};

ShareGptRequests Turns::take() {
  std::vector<std::size_t> order(turns_.size()), place(turns_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [this](std::size_t i) { return turns_[i].arrival_s; });
  ShareGptRequests made{.requests = {}, .conversations = conversations_, .skipped = skipped_};
  for (const std::size_t i : order) {
    const Turn& turn = turns_[i];
    place[i] = made.requests.size();
    made.requests.push_back({turn.arrival_s, turn.prompt, turn.output, turn.shared,
                             static_cast<std::uint32_t>(turn.shared > 0 ? place[turn.before] : 0)});
  }
  return made;
}

/// Hears a file's JSON and gives its messages to Turns.
class Conversations : public nlohmann::json_sax<nlohmann::json> {
 public:
  Conversations(StreamedText& text, Turns& turns) : text_(text), turns_(turns) {}

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("true or false"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (in() != Where::message || !is_message_key()) return scalar("a text");
    std::optional<std::string>& part = key_ == "from" ? from_ : value_;
    if (part) refuse_twice("a message");
    part = std::move(value);
    text_.done_with_read();
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    text_.done_with_read();
    return true;
  }
  bool start_array(std::size_t) override {
    if (in() == Where::file) return enter(Where::list);
    if (in() == Where::conversation && key_ == "conversations") {
      if (std::exchange(has_messages_, true)) refuse_twice("a conversation");
      return enter(Where::messages);
    }
    return enter_unread("a list");
  }
  bool start_object(std::size_t) override {
    if (in() == Where::list) {
      has_messages_ = false;
      turns_.begin();
      return enter(Where::conversation);
    }
    if (in() == Where::messages) {
      from_.reset();
      value_.reset();
      return enter(Where::message);
    }
    return enter_unread("an object");
  }
  bool end_array() override { return leave(); }
  bool end_object() override {
    if (in() == Where::message) end_message();
    if (in() == Where::conversation) {
      if (!has_messages_) text_.fail("a conversation without 'conversations', the list of its messages");
      check(turns_.end());
    }
    return leave();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    text_.fail("not JSON: " + json_problem(error));
  }

 private:
  enum class Where : std::uint8_t { file, list, conversation, messages, message, unread };

  Where in() const { return open_.empty() ? Where::file : open_.back(); }
  bool is_message_key() const { return key_ == "from" || key_ == "value"; }
  bool enter(Where where) {
    if (open_.size() == kDeepestList)
      text_.fail("nested deeper than " + std::to_string(kDeepestList) + " levels");
    open_.push_back(where);
    return true;
  }
  bool leave() {
    open_.pop_back();
    text_.done_with_read();
    return true;
  }
  /// A value where another one is due is refused, and one of a key that means nothing here passed over.
  void check_due(const char* found) const {
    const auto refuse = [&](const char* expected) {
      text_.fail(std::string(found) + " where " + expected + " is due");
    };
    if (in() == Where::file) refuse("a list of conversations");
    if (in() == Where::list) refuse("a conversation, an object with 'conversations',");
    if (in() == Where::messages) refuse("a message, an object with 'from' and 'value',");
    if (in() == Where::conversation && key_ == "conversations")
      refuse("the list of a conversation's messages");
    if (in() == Where::message && is_message_key()) refuse("a message's text");
  }
  /// Readers of JSON take the first or the last of them; joined they would be a longer conversation.
  void refuse_twice(const char* where) const {
    text_.fail("the name '" + key_ + "' comes twice in " + where);
  }
  bool enter_unread(const char* found) {
    check_due(found);
    return enter(Where::unread);
  }
  bool scalar(const char* found) {
    check_due(found);
    text_.done_with_read();
    return true;
  }
  void check(const std::string& problem) const {
    if (!problem.empty()) text_.fail(problem);
  }
  void end_message() {
    for (const auto& [name, part] : {std::pair("from", &from_), std::pair("value", &value_)})
      if (!*part) text_.fail("a message without '" + std::string(name) + "'");
    const bool answers = std::ranges::find(kAnswering, *from_) != kAnswering.end();
    if (!answers && std::ranges::find(kAsking, *from_) == kAsking.end()) {
      std::vector<std::string> known(kAsking.begin(), kAsking.end());
      known.insert(known.end(), kAnswering.begin(), kAnswering.end());
      text_.fail("a message from " + shown(*from_) + suggestion(*from_, known));
    }
    check(turns_.add(answers, *value_));
  }

  StreamedText& text_;
  Turns& turns_;
  std::vector<Where> open_;
  std::string key_;
  std::optional<std::string> from_, value_;
  bool has_messages_ = false;
};

}  // namespace

ShareGptRequests import_sharegpt(const std::filesystem::path& input, const ShareGptImport& how,
                                 bool skip_failed, const Progress& progress) {
  StreamedText text(input, progress);
  Turns turns(how, skip_failed);
  Conversations conversations(text, turns);
  read_json_events(text.begin(), text.end(), conversations);
  return turns.take();
}

}  // namespace moelab
