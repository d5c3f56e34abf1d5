#include "traces/import/request_import.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/json_values.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kLongestLog = 9'000'000'000;  // seconds; 64 bits hold so many nanoseconds

// Days from 1970-01-01 to a date of the Gregorian calendar, nullopt for none. The count of days by Howard
// Hinnant, "chrono-Compatible Low-Level Date Algorithms".
std::optional<std::int64_t> days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  constexpr std::array<std::int64_t, 12> kDays{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12) return std::nullopt;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day < 1 || day > kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0))
    return std::nullopt;
  const std::int64_t y = year - (month <= 2 ? 1 : 0);
  const std::int64_t era = y / 400, of_era = y % 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct Instant {
  std::int64_t seconds = 0;  // since 1970
  std::int64_t nanoseconds = 0;
};

// "2023-11-16 18:17:03.9799600", or with "T", a fraction of 1 to 9 digits or none, "Z" or "+00:00" at the
// end.
std::optional<Instant> parse_instant(std::string_view text) {
  for (const std::string_view zone : {"Z", "+00:00"}) {
    if (text.ends_with(zone)) {
      text.remove_suffix(zone.size());
      break;
    }
  }
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  std::array<std::int64_t, 6> parts{};
  constexpr std::array<std::pair<std::size_t, std::size_t>, 6> kPlaces{
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<std::uint64_t> value =
        parse_unsigned(text.substr(kPlaces[i].first, kPlaces[i].second));
    if (!value) return std::nullopt;
    parts[i] = static_cast<std::int64_t>(*value);
  }
  const auto days = days_of(parts[0], parts[1], parts[2]);
  if (!days || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return std::nullopt;
  Instant instant{*days * 86400 + parts[3] * 3600 + parts[4] * 60 + parts[5], 0};
  if (text.size() == 19) return instant;
  std::string digits(text.substr(20));
  if (text[19] != '.' || digits.empty() || digits.size() > 9) return std::nullopt;
  digits.resize(9, '0');
  const std::optional<std::uint64_t> fraction = parse_unsigned(digits);
  if (!fraction) return std::nullopt;
  instant.nanoseconds = static_cast<std::int64_t>(*fraction);
  return instant;
}

std::optional<std::uint32_t> as_tokens(double value) {
  const bool fits =
      value >= 0 && value <= std::numeric_limits<std::uint32_t>::max() && value == std::floor(value);
  return fits ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

class Collected {
 public:
  explicit Collected(bool skip_failed) : skip_failed_(skip_failed) {}
  // What is wrong with the request, or nothing.
  std::string add(const RequestRecord& request) {
    if (skip_failed_ && request.output_tokens == 0) {
      ++result.skipped;
      return {};
    }
    std::string problem = request_problem(request, before_);
    if (problem.empty()) {
      before_ = request.arrival_s;
      result.requests.push_back(request);
    } else if (request.output_tokens == 0) {
      problem += "; --skip-failed leaves such requests out";
    }
    return problem;
  }
  ImportedRequests result;

 private:
  bool skip_failed_;
  double before_ = 0;
};

/// Beginnings of prompts as logs with hashes have them: a number for each block of tokens, the same where
/// these and all before them are the same.
class PromptBlocks {
 public:
  explicit PromptBlocks(std::uint64_t block) : block_(block) {}
  /// What a request, which will have this number, has in common with one before it.
  void connect(std::span<const std::int64_t> blocks, std::span<const RequestRecord> before,
               RequestRecord& request) {
    std::uint32_t place = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto [found, is_new] = places_.try_emplace({place, blocks[i]}, first_.size() + 1);
      place = static_cast<std::uint32_t>(found->second);
      if (is_new) {
        first_.push_back(static_cast<std::uint32_t>(before.size()));
        continue;
      }
      const std::uint32_t with = first_[place - 1];
      const std::uint64_t shared =
          std::min<std::uint64_t>({(i + 1) * block_, request.prompt_tokens, before[with].prompt_tokens});
      if (shared > request.shared_tokens) {
        request.shared_tokens = static_cast<std::uint32_t>(shared);
        request.shared_with = with;
      }
    }
  }

 private:
  std::uint64_t block_;  // tokens
  /// Places in the tree of all beginnings, from 1 on: by the place before and the block's number.
  std::map<std::pair<std::uint32_t, std::int64_t>, std::size_t> places_;
  std::vector<std::uint32_t> first_;  // request that was the first there
};

/// The numbers of a request's blocks; none where the log has none.
std::span<const std::int64_t> block_numbers(const JsonValues& values, const LineReader& lines) {
  const auto found = values.find("hash_ids");
  if (found == values.end()) return {};
  const JsonValue& blocks = found->second;
  if (blocks.is_text || blocks.shape.size() != 1 || !blocks.whole)
    lines.fail(0, "has 'hash_ids' that are no list of whole numbers");
  return blocks.integers;
}

// JSON lines with hashes of the prompt's blocks.
struct HashedLog {
  double units_per_s = 1;   // of its timestamps
  std::uint64_t block = 0;  // tokens
};

void read_hashed_log(const std::filesystem::path& input, const HashedLog& log, Collected& collected,
                     const Progress& progress) {
  constexpr std::array<std::string_view, 3> kNames{"timestamp", "input_length", "output_length"};
  const auto wanted = [&](std::string_view path) {
    return path == kNames[0] || path == kNames[1] || path == kNames[2] || path == "hash_ids";
  };
  PromptBlocks prompts(log.block);
  LineReader lines(input, progress);
  std::string_view line;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const JsonValues values = read_json_values(line, wanted, lines.name(), lines.number());
    std::array<double, 3> numbers{};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const auto found = values.find(std::string(kNames[i]));
      if (found == values.end() || found->second.is_text || !found->second.shape.empty())
        lines.fail(0, "has no number " + shown(kNames[i]));
      numbers[i] = found->second.number(0);
    }
    const auto prompt = as_tokens(numbers[1]), output = as_tokens(numbers[2]);
    if (!prompt || !output) lines.fail(0, "a length that is not a whole number of tokens");
    RequestRecord request{numbers[0] / log.units_per_s, *prompt, *output};
    if (*output > 0) prompts.connect(block_numbers(values, lines), collected.result.requests, request);
    const std::string problem = collected.add(request);
    if (!problem.empty()) lines.fail(0, problem);
  }
}

/// Numbers of one array of a benchmark's output.
const JsonValue& benchmark_array(const JsonValues& values, const std::string& name, const std::string& file,
                                 std::size_t size) {
  const auto found = values.find(name);
  if (found == values.end() || found->second.is_text || found->second.shape.size() != 1)
    throw InputError(file, "has no list of numbers '" + name +
                               "'; a benchmark writes it where it saves details (--save-detailed)");
  if (size > 0 && found->second.size() != size)
    throw InputError(file, "'" + name + "' has " + std::to_string(found->second.size()) +
                               " numbers, 'input_lens' " + std::to_string(size));
  return found->second;
}

/// With details a benchmark also writes each token's gap, some 20 characters: 12 million tokens.
constexpr std::size_t kMostJson = std::size_t{256} << 20;

void read_benchmark(const std::filesystem::path& input, Collected& collected, const Progress& progress) {
  LineReader lines(input, progress);
  std::string text;
  for (std::string_view line; lines.next(line); text += '\n') {
    text += line;
    if (text.size() > kMostJson)
      lines.fail(0, "more than " + std::to_string(kMostJson >> 20) + " MiB of JSON");
  }
  const auto wanted = [](std::string_view path) {
    return path == "input_lens" || path == "output_lens" || path == "start_times";
  };
  const JsonValues values = read_json_values(text, wanted, lines.name(), 1);
  const JsonValue& prompts = benchmark_array(values, "input_lens", lines.name(), 0);
  const JsonValue& outputs = benchmark_array(values, "output_lens", lines.name(), prompts.size());
  const JsonValue* const times = values.contains("start_times")
                                     ? &benchmark_array(values, "start_times", lines.name(), prompts.size())
                                     : nullptr;
  std::vector<RequestRecord> requests;
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const double at = times != nullptr ? times->number(i) : 0;
    const auto prompt = as_tokens(prompts.number(i)), output = as_tokens(outputs.number(i));
    if (!prompt || !output)
      throw InputError(lines.name(), "request " + std::to_string(i + 1) +
                                         " has a length that is not a whole number of tokens");
    first = std::min(first, at);
    requests.push_back({at, *prompt, *output});
  }
  std::stable_sort(requests.begin(), requests.end(),
                   [](const RequestRecord& a, const RequestRecord& b) { return a.arrival_s < b.arrival_s; });
  for (RequestRecord& request : requests) {
    request.arrival_s -= first;
    const std::string problem = collected.add(request);
    if (!problem.empty()) throw InputError(lines.name(), "a request " + problem);
  }
}

// Columns of a log in CSV: the arrival's (empty: none), the prompt's and the output's.
struct CsvLog {
  std::string arrival, prompt, output;
  double units_per_s = 1;
  bool date_and_time = false;
};

void read_csv_log(const std::filesystem::path& input, const CsvLog& log, Collected& collected,
                  const Progress& progress) {
  CsvReader csv(input, progress);
  const bool timed = !log.arrival.empty();
  const std::size_t prompt = csv.column(log.prompt), output = csv.column(log.output);
  const std::size_t arrival = timed ? csv.column(log.arrival) : prompt;
  const auto tokens = [&](std::size_t column) {
    const std::optional<std::uint32_t> value =
        as_tokens(static_cast<double>(csv.unsigned_at(column, "a number of tokens")));
    if (!value) csv.fail(column, "a number of tokens above 2^32 - 1");
    return *value;
  };
  std::optional<Instant> first;
  while (csv.next()) {
    RequestRecord request{0, tokens(prompt), tokens(output)};
    if (log.date_and_time) {
      const std::optional<Instant> at = parse_instant(csv.field(arrival));
      if (!at)
        csv.fail(arrival, "expected a date and time such as 2023-11-16 18:17:03.9799600, found " +
                              shown(csv.field(arrival)));
      if (!first) first = at;
      if (std::abs(at->seconds - first->seconds) > kLongestLog)
        csv.fail(arrival, "centuries from the first request");
      // Exact in whole nanoseconds, then rounded once.
      request.arrival_s = static_cast<double>((at->seconds - first->seconds) * 1'000'000'000 +
                                              (at->nanoseconds - first->nanoseconds)) /
                          1e9;
    } else if (timed) {
      request.arrival_s = csv.number_at(arrival, "a time") / log.units_per_s;
    }
    const std::string problem = collected.add(request);
    if (!problem.empty()) csv.fail(request.output_tokens == 0 ? output : arrival, problem);
  }
}

}  // namespace

ImportedRequests import_requests(const std::filesystem::path& input, const RequestImport& how,
                                 const Progress& progress) {
  Collected collected(how.skip_failed);
  switch (how.kind) {
    case RequestLogKind::mooncake:
      read_hashed_log(input, {.units_per_s = 1000, .block = 512}, collected, progress);
      break;
    case RequestLogKind::bailian:
      read_hashed_log(input, {.units_per_s = 1, .block = 16}, collected, progress);
      break;
    case RequestLogKind::servegen:
      read_csv_log(input, {"timestamp", "input_tokens", "output_tokens", 1, false}, collected, progress);
      break;
    case RequestLogKind::sharegpt: {
      ShareGptRequests made = import_sharegpt(input, how.sharegpt, how.skip_failed, progress);
      collected.result = {std::move(made.requests), made.conversations, made.skipped};
      break;
    }
    case RequestLogKind::azure:
      read_csv_log(input, {"TIMESTAMP", "ContextTokens", "GeneratedTokens", 1, true}, collected, progress);
      break;
    case RequestLogKind::burstgpt:
      read_csv_log(input, {"Timestamp", "Request tokens", "Response tokens", 1, false}, collected, progress);
      break;
    case RequestLogKind::benchmark:
      read_benchmark(input, collected, progress);
      break;
    case RequestLogKind::log:
      collected.result.requests = read_request_log(input.string());
      break;
    case RequestLogKind::lengths:
      read_csv_log(input, {how.arrival, how.prompt, how.output, how.arrival_units_per_s, false}, collected,
                   progress);
      break;
  }
  if (collected.result.requests.empty()) throw InputError(input.string(), "has no requests");
  return std::move(collected.result);
}

}  // namespace moelab
