// Reads leaderboards, which people edit: nothing in the file is believed that can be checked.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "models/control_characters.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/physical_bounds.hpp"
#include "models/text_file.hpp"
#include "models/units.hpp"
#include "policies/policy_families.hpp"
#include "sim/results/statistics.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/leaderboard.hpp"
#include "sim/sweep/utc_time.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kKeys = {"setting",
                                        "family",
                                        "scenario",
                                        "system",
                                        "model",
                                        "device",
                                        "trace",
                                        "law",
                                        "budget_bytes",
                                        "first_seed",
                                        "seeds",
                                        "policy",
                                        "parameters",
                                        "library",
                                        "bound",
                                        "tpot_by_seed_s",
                                        "tpot_s",
                                        "tpot_half_width_s",
                                        "hit_share",
                                        "regret_s",
                                        "regret_hit_share",
                                        "moelab",
                                        "date",
                                        "end_to_end_by_seed_s",
                                        "end_to_end_s",
                                        "end_to_end_half_width_s"};

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// "2026-11-30T12:00:00Z", such that later is greater.
bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return false;
  const auto number = [&](std::size_t at) { return unsigned(10 * (text[at] - '0') + (text[at + 1] - '0')); };
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(100 * number(0) + number(2))),
                                        std::chrono::month(number(5)), std::chrono::day(number(8)));
  return day.ok() && number(11) < 24 && number(14) < 60 && number(17) < 60;
}

bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (control_character_at(text, i) > 0) return true;
  return false;
}

/// Refuses keys that a map has twice, of which the parser would keep the last.
class KeysOnce : public nlohmann::json_sax<Json> {
 public:
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second)
      throw InputError("", "key '" + shown_word(key) + "' stands twice in one object");
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // the parser says it
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

/// What is read of a line; of several things wrong with it the first is thrown, without a place.
class LineReader {
 public:
  explicit LineReader(const Json& json) : json_(json) {
    if (!json.is_object()) fail("expected an object of JSON");
    for (const auto& [key, value] : json.items())
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        fail("unknown key '" + shown_word(key) + "'" + suggestion(key, kKeys));
  }

  bool has(const char* key) const { return json_.contains(key); }
  std::string text(const char* key) const {
    constexpr std::size_t kLongest = 1000;
    const Json& value = at(key);
    if (!value.is_string()) fail(key, "a text");
    const auto& found = value.get_ref<const std::string&>();
    if (found.empty() || found.size() > kLongest || has_control(found))
      fail(key, "1 to 1000 bytes without control characters");
    return found;
  }
  double number(const char* key, double low, double high) const { return number_of(at(key), key, low, high); }
  std::optional<double> optional_number(const char* key, double low, double high) const {
    if (!has(key)) return std::nullopt;
    return number(key, low, high);
  }
  std::uint64_t whole(const char* key, std::uint64_t low, std::uint64_t high) const {
    const Json& value = at(key);
    const bool good =
        value.is_number_unsigned() && value.get<std::uint64_t>() >= low && value.get<std::uint64_t>() <= high;
    if (!good) fail(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return value.get<std::uint64_t>();
  }
  bool truth(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).get<bool>();
  }
  std::vector<double> numbers(const char* key, std::size_t count) const {
    const Json& list = at(key);
    if (!list.is_array() || list.size() != count)
      fail(key, "a list of " + std::to_string(count) + " numbers");
    std::vector<double> all;
    for (const Json& value : list) all.push_back(number_of(value, key, kTimes.least, kTimes.most));
    return all;
  }
  PolicyParameters parameters(const char* key) const {
    constexpr std::size_t kMost = 64;
    constexpr double kLargest = 1e300;
    const Json& map = at(key);
    if (!map.is_object() || map.size() > kMost) fail(key, "an object of 64 numbers at most");
    PolicyParameters all;
    for (const auto& [name, value] : map.items()) {
      if (!is_policy_name(name)) fail(key, "names of parameters, found '" + shown_word(name) + "'");
      all[name] = number_of(value, key, -kLargest, kLargest);
    }
    return all;
  }
  [[noreturn]] static void fail(const std::string& what) { throw InputError("", what); }
  [[noreturn]] static void fail(const std::string& key, const std::string& expected) {
    fail("'" + key + "': expected " + expected);
  }

  static inline const PhysicalBounds kTimes = physical_bounds(Seconds());

 private:
  const Json& at(const char* key) const {
    if (!json_.contains(key)) fail("'" + std::string(key) + "' is missing");
    return json_.at(key);
  }
  static double number_of(const Json& value, const char* key, double low, double high) {
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high))
      fail(key, "a number from " + shortest_text(low) + " to " + shortest_text(high));
    return number;
  }

  const Json& json_;
};

/// Within so much of itself, or next to nothing of the times that it is of.
bool is_near(double found, double right, double share, double time) {
  return std::abs(found - right) <= share * std::abs(right) + 1e-9 * time;
}

/// What the line is judged by, one of two, and the keys of its times.
LeaderboardTimeKeys time_keys(const LineReader& read, LeaderboardLine& line) {
  line.by =
      read.has(leaderboard_time_keys(JudgedBy::end_to_end).by_seed) ? JudgedBy::end_to_end : JudgedBy::tpot;
  const JudgedBy other = line.by == JudgedBy::tpot ? JudgedBy::end_to_end : JudgedBy::tpot;
  const LeaderboardTimeKeys none = leaderboard_time_keys(other);
  for (const char* key : {none.by_seed, none.mean, none.half_width})
    if (read.has(key))
      LineReader::fail("'" + std::string(key) + "' is beside '" + leaderboard_time_keys(line.by).by_seed +
                       "'; expected times per output token or latencies of requests");
  return leaderboard_time_keys(line.by);
}

/// The figures, which have to be those of the values.
void read_figures(const LineReader& read, LeaderboardLine& line) {
  const auto [least, most] = LineReader::kTimes;
  const LeaderboardTimeKeys keys = time_keys(read, line);
  const std::string by_seed = keys.by_seed;
  line.by_seed_s = read.numbers(keys.by_seed, line.seeds);
  line.mean_s = read.number(keys.mean, least, most);
  line.half_width_s = read.number(keys.half_width, 0, 100 * most);  // Student's t is up to 12.7
  const Interval interval = interval95(line.by_seed_s);
  if (!is_near(line.mean_s, interval.mean, 1e-6, interval.mean))
    LineReader::fail(keys.mean, "the mean of '" + by_seed + "', " + shortest_text(interval.mean));
  // Tables of Student's t have three digits or more.
  if (!is_near(line.half_width_s, interval.half_width, 1e-3, interval.mean))
    LineReader::fail(keys.half_width, "that of '" + by_seed + "', " + shortest_text(interval.half_width));
  line.hit_share = read.optional_number("hit_share", 0, 1);
  line.regret_s = read.optional_number("regret_s", -most, most);
  line.regret_hit_share = read.optional_number("regret_hit_share", -1, 1);
}

/// A policy of moelab's own is a bound or none, whatever the line says; of others the line is believed.
void check_bound(const LeaderboardLine& line) {
  const ComparedFamily& family = compared_family(line.family);
  for (const PolicyInfo& info : policies_of(family))
    if (info.name == line.policy && info.library.empty() && is_a_bound(family, info.name) != line.bound)
      LineReader::fail("bound", std::string(line.bound ? "false" : "true") + " for the " + line.family +
                                    " policy '" + line.policy + "'");
}

void check_date(const std::string& date) {
  constexpr std::int64_t kDay = 24 * 60 * 60;
  if (!is_date(date)) LineReader::fail("date", "a date such as 2026-11-30T12:00:00Z");
  if (date > utc_now(kDay)) LineReader::fail("date", "one that has been, found " + date);
}

LeaderboardLine read_line(const std::string& text) {
  check_json_depth("", text);
  KeysOnce once;
  read_json_events(text.cbegin(), text.cend(), once);
  const Json json = Json::parse(text);
  const LineReader read(json);
  LeaderboardLine line;
  line.setting = read.text("setting");
  if (!is_hexadecimal(line.setting, 32)) LineReader::fail("setting", "32 hexadecimal digits");
  line.family = compared_family(read.text("family")).name;
  line.scenario = read.text("scenario");
  line.system = read.text("system");
  line.model = read.text("model");
  line.device = read.text("device");
  if (read.has("trace")) line.trace = read.text("trace");
  if (read.has("law")) line.law = read.text("law");
  line.budget_bytes = read.number("budget_bytes", 1, 1e18);
  line.first_seed = read.whole("first_seed", 0, std::numeric_limits<std::int64_t>::max());
  line.seeds = read.whole("seeds", 1, 1000);
  line.policy = read.text("policy");
  if (!is_policy_name(line.policy)) LineReader::fail("policy", "the name of a policy");
  line.parameters = read.parameters("parameters");
  line.library = read.text("library");
  line.bound = read.truth("bound");
  check_bound(line);
  read_figures(read, line);
  line.moelab = read.text("moelab");
  line.date = read.text("date");
  check_date(line.date);
  return line;
}

}  // namespace

std::vector<LeaderboardLine> read_leaderboard(const std::string& file) {
  const std::string text = read_text_file(file);
  std::vector<LeaderboardLine> lines;
  Problems problems;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back(read_line(line));
    } catch (const InputError& error) {
      const Problem& problem = error.problems().front();
      problems.add(
          {file, number, 0, problem.file.empty() ? problem.what : problem.file + " " + problem.what});
    } catch (const Json::exception& error) {
      problems.add({file, number, 0, "is not JSON: " + std::string(said_by_library(error.what()))});
    }
  }
  problems.throw_if_any();
  return lines;
}

}  // namespace moelab
