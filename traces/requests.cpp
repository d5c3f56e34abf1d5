#include "traces/requests.hpp"

#include <array>
#include <charconv>
#include <limits>

#include "models/input_error.hpp"
#include "traces/atomic_file.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

constexpr std::array<const char*, 3> kColumns{"arrival_s", "prompt_tokens", "output_tokens"};

std::uint32_t token_count(const CsvReader& csv, std::size_t column) {
  const std::uint64_t value = csv.unsigned_at(column, "a number of tokens");
  if (value > std::numeric_limits<std::uint32_t>::max())
    csv.fail(column, "a number of tokens above 2^32 - 1");
  return static_cast<std::uint32_t>(value);
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

std::vector<RequestRecord> read_request_log(const std::string& path) {
  CsvReader csv(path);
  if (csv.header() != std::vector<std::string>(kColumns.begin(), kColumns.end()))
    fail_at_line(csv.name(), 1, 0,
                 "expected the columns arrival_s,prompt_tokens,output_tokens; `moelab trace import-requests` "
                 "makes them of Azure's, BurstGPT's and Mooncake's traces");
  std::vector<RequestRecord> requests;
  double before = 0;
  while (csv.next()) {
    const RequestRecord request{csv.number_at(0, "seconds"), token_count(csv, 1), token_count(csv, 2)};
    const std::string problem = request_problem(request, before);
    if (!problem.empty()) csv.fail(0, problem);
    before = request.arrival_s;
    requests.push_back(request);
  }
  if (requests.empty()) throw InputError(csv.name(), "has no requests");
  return requests;
}

void write_request_log(std::span<const RequestRecord> requests, const std::string& path) {
  if (requests.empty()) throw InputError(path, "cannot be written: there are no requests");
  AtomicFile file(path);
  std::string text = "arrival_s,prompt_tokens,output_tokens\n";
  double before = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestRecord& request = requests[i];
    const std::string problem = request_problem(request, before);
    if (!problem.empty())
      throw InputError(path, "cannot be written: request " + std::to_string(i) + " " + problem);
    before = request.arrival_s;
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), request.arrival_s).ptr;
    text.append(digits.data(), end);
    text += ',' + std::to_string(request.prompt_tokens) + ',' + std::to_string(request.output_tokens) + '\n';
  }
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace moelab
