#include "traces/requests.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "models/input_error.hpp"
#include "traces/atomic_file.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kMostTokens = std::numeric_limits<std::uint32_t>::max();
constexpr const char* kColumns = "arrival_s,prompt_tokens,output_tokens";
constexpr const char* kSharedColumns = ",shared_tokens,shared_with";
constexpr const char* kPriorityColumn = ",priority";

std::uint32_t count_at(const CsvReader& csv, std::size_t column, const char* what) {
  const std::uint64_t value = csv.unsigned_at(column, what);
  if (value > kMostTokens) csv.fail(column, what + std::string(" above 2^32 - 1"));
  return static_cast<std::uint32_t>(value);
}

std::int32_t priority_at(const CsvReader& csv, std::size_t column) {
  const double value = csv.number_at(column, "a priority");
  if (value != std::floor(value) || std::abs(value) > kMostPriority)
    csv.fail(column, "expected a priority, a whole number from -1000000 to 1000000");
  return static_cast<std::int32_t>(value);
}

RequestRecord record_at(const CsvReader& csv) {
  RequestRecord request{csv.number_at(0, "seconds"), count_at(csv, 1, "a number of tokens"),
                        count_at(csv, 2, "a number of tokens")};
  const std::size_t columns = csv.header().size();
  if (columns >= 5) {
    request.shared_tokens = count_at(csv, 3, "a number of tokens");
    request.shared_with = count_at(csv, 4, "a request's number");
  }
  if (columns == 4 || columns == 6) request.priority = priority_at(csv, columns - 1);
  return request;
}

bool has_columns(const CsvReader& csv) {
  std::string header;
  for (const std::string& name : csv.header()) {
    if (name.find(',') != std::string::npos) return false;  // one column, not several
    header += (header.empty() ? "" : ",") + name;
  }
  if (header.ends_with(kPriorityColumn)) header.resize(header.size() - std::string(kPriorityColumn).size());
  return header == kColumns || header == std::string(kColumns) + kSharedColumns;
}

std::uint64_t all_tokens(const RequestRecord& request) {
  return std::uint64_t{request.prompt_tokens} + request.output_tokens;
}

}  // namespace

std::string request_problem(const RequestRecord& request, double before) {
  if (!(request.arrival_s >= 0 && request.arrival_s <= kLatestArrival))
    return "the arrival is not a number of seconds from 0 to 1e12";
  if (request.arrival_s < before) return "arrives before the request before it";
  if (request.prompt_tokens == 0) return "has no prompt tokens; expected at least 1";
  if (request.output_tokens == 0) return "has no output tokens; expected at least 1";
  return {};
}

std::string sharing_problem(const RequestRecord& request, std::span<const RequestRecord> before) {
  const std::string with = "request " + std::to_string(request.shared_with);
  if (request.shared_tokens == 0)
    return request.shared_with == 0 ? "" : "shares no token with " + with + "; expected 0 in its place";
  const std::string shares = "shares " + std::to_string(request.shared_tokens) +
                             (request.shared_tokens == 1 ? " token with " : " tokens with ") + with;
  if (request.shared_with >= before.size())
    return shares + ", which is not before it; requests are counted from 0, and this is number " +
           std::to_string(before.size());
  if (request.shared_tokens > request.prompt_tokens)
    return shares + ", its prompt has " + std::to_string(request.prompt_tokens);
  const std::uint64_t there = all_tokens(before[request.shared_with]);
  if (request.shared_tokens > there) return shares + ", which has " + std::to_string(there);
  return {};
}

bool shares_tokens(std::span<const RequestRecord> requests) {
  return std::ranges::any_of(requests, [](const RequestRecord& r) { return r.shared_tokens > 0; });
}

bool has_priorities(std::span<const RequestRecord> requests) {
  return std::ranges::any_of(requests, [](const RequestRecord& r) { return r.priority != 0; });
}

std::vector<RequestRecord> read_request_log(const std::string& path) {
  CsvReader csv(path);
  if (!has_columns(csv))
    fail_at_line(csv.name(), 1, 0,
                 "expected the columns arrival_s,prompt_tokens,output_tokens, and shared_tokens,shared_with "
                 "behind them where prompts have beginnings in common, and priority last where requests have "
                 "priorities; `moelab trace import-requests` makes "
                 "them of logs that others recorded");
  std::vector<RequestRecord> requests;
  double before = 0;
  while (csv.next()) {
    const RequestRecord request = record_at(csv);
    if (const std::string problem = request_problem(request, before); !problem.empty()) csv.fail(0, problem);
    if (const std::string problem = sharing_problem(request, requests); !problem.empty())
      csv.fail(3, problem);
    before = request.arrival_s;
    requests.push_back(request);
  }
  if (requests.empty()) throw InputError(csv.name(), "has no requests");
  return requests;
}

void write_request_log(std::span<const RequestRecord> requests, const std::string& path) {
  if (requests.empty()) throw InputError(path, "cannot be written: there are no requests");
  AtomicFile file(path);
  const bool shared = shares_tokens(requests), priorities = has_priorities(requests);
  std::string text =
      std::string(kColumns) + (shared ? kSharedColumns : "") + (priorities ? kPriorityColumn : "") + "\n";
  double before = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestRecord& request = requests[i];
    std::string problem = request_problem(request, before);
    if (problem.empty()) problem = sharing_problem(request, requests.first(i));
    if (!problem.empty())
      throw InputError(path, "cannot be written: request " + std::to_string(i) + " " + problem);
    before = request.arrival_s;
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), request.arrival_s).ptr;
    text.append(digits.data(), end);
    text += ',' + std::to_string(request.prompt_tokens) + ',' + std::to_string(request.output_tokens);
    if (shared)
      text += ',' + std::to_string(request.shared_tokens) + ',' + std::to_string(request.shared_with);
    if (priorities) text += ',' + std::to_string(request.priority);
    text += '\n';
  }
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace moelab
