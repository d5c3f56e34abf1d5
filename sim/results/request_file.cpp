#include "sim/results/request_file.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/benchmark_file.hpp"

namespace moelab {

namespace {

/// Whether a spreadsheet would take the text for a formula and run it.
bool is_formula(const std::string& text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text[0]) == std::string_view::npos) return false;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + (text[0] == '+' ? 1 : 0), end, number);
  return error != std::errc() || rest != end;
}

}  // namespace

std::string csv_cell(const std::string& text) {
  if (is_formula(text)) return csv_cell("'" + text);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

using Json = nlohmann::ordered_json;

std::string csv_cell_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_cell(value.get_ref<const std::string&>()) : value.dump();
}

namespace {

/// null for what never came.
Json if_ever(double seconds) {
  return seconds < 0 ? Json(nullptr) : Json(seconds);
}

/// Whether prompts have beginnings in common, so that some may be found in a KV cache.
bool any_prefixes(const std::vector<RunResult>& results) {
  return std::ranges::any_of(results, [](const RunResult& r) { return r.counted.prefixes; });
}

/// Whether any of them has requests that one instance began and another one went on with.
bool any_handed_over(const std::vector<RunResult>& results) {
  return std::ranges::any_of(results, [](const RunResult& r) { return r.instances.transfers.transfers > 0; });
}

/// Of a cluster's servers or of a system's instances; null where there is one.
Json server_name(const RunResult& r, std::int32_t number) {
  if (number < 0) return nullptr;
  const auto place = static_cast<std::size_t>(number);
  if (!r.instances.servers.empty()) return r.instances.servers[place].name;
  return r.cluster.servers.empty() ? Json(nullptr) : Json(r.cluster.servers[place].name);
}

/// What records have of some results only.
struct RecordColumns {
  bool prefixes = false, handed_over = false;
};

Json record(const RunResult& r, const RequestTimes& q, const RecordColumns& columns) {
  Json j = {{"system", r.system},
            {"seed", r.seed},
            {"request", q.number},
            {"server", server_name(r, static_cast<std::int32_t>(q.server))},
            {"arrival_s", q.arrival_s},
            {"started_s", q.started_s},
            {"first_token_s", if_ever(q.first_token_s)},
            {"end_s", if_ever(q.end_s)},
            {"prompt_tokens", q.prompt_tokens},
            {"output_tokens", q.output_tokens},
            {"preempted", q.preempted},
            {"longest_gap_s", if_ever(q.longest_gap_s)}};
  if (columns.handed_over) {
    j["decode_server"] = server_name(r, q.decoded_by);
    j["kv_sent_from_s"] = if_ever(q.sent_from_s);
    j["kv_sent_until_s"] = if_ever(q.sent_until_s);
  }
  if (columns.prefixes) j["cached_tokens"] = r.counted.prefixes ? Json(q.cached_tokens) : Json(nullptr);
  if (!r.classes.empty())
    j["class"] = q.of_class < r.classes.size() ? Json(r.classes[q.of_class]) : Json(nullptr);
  if (!r.metrics.measured.whole) j["measured"] = q.measured;
  return j;
}

/// Calls `add` with the record of each request, by system and number.
template <class Add>
void each_record(const std::vector<RunResult>& results, const Add& add) {
  const RecordColumns columns{any_prefixes(results), any_handed_over(results)};
  for (const RunResult& r : results) {
    std::vector<RequestTimes> requests = r.metrics.requests;
    std::stable_sort(requests.begin(), requests.end(),
                     [](const RequestTimes& a, const RequestTimes& b) { return a.number < b.number; });
    for (const RequestTimes& q : requests) add(record(r, q, columns));
  }
}

bool ends_in(const std::string& path, const std::string& ending) {
  return path.size() > ending.size() && path.ends_with(ending);
}

}  // namespace

std::string requests_jsonl(const std::vector<RunResult>& results) {
  std::string text;
  each_record(results, [&](const Json& one) { text += one.dump() + "\n"; });
  return text;
}

std::string requests_csv(const std::vector<RunResult>& results) {
  std::string text;
  const RunResult none;
  // Columns as the lines have them: of a system that does not fit there is no line, nor what was
  // measured.
  const auto ran =
      std::ranges::find_if(results, [](const RunResult& r) { return !r.metrics.requests.empty(); });
  const RunResult& first = ran != results.end() ? *ran : results.empty() ? none : results.front();
  const Json nothing = record(first, {}, {any_prefixes(results), any_handed_over(results)});
  for (const auto& [key, value] : nothing.items()) text += (text.empty() ? "" : ",") + key;
  text += "\n";
  each_record(results, [&](const Json& one) {
    const char* comma = "";
    for (const auto& [key, value] : one.items()) {
      text += comma + csv_cell_of(value);
      comma = ",";
    }
    text += "\n";
  });
  return text;
}

std::string requests_text(const std::string& path, const std::vector<RunResult>& results) {
  if (ends_in(path, ".json")) return benchmark_json(results.at(0));
  return ends_in(path, ".csv") ? requests_csv(results) : requests_jsonl(results);
}

void check_requests_path(const std::string& option, const std::string& path) {
  if (!path.empty() && !ends_in(path, ".jsonl") && !ends_in(path, ".csv") && !ends_in(path, ".json"))
    throw InputError(option + " " + path,
                     "expected a file that ends in .jsonl (a JSON object a request), .csv, or .json (as a "
                     "serving benchmark writes it)");
}

void check_benchmark_path(const std::string& option, const std::string& path,
                          const std::vector<std::string>& systems) {
  if (!ends_in(path, ".json") || systems.size() == 1) return;
  std::string names;
  for (const std::string& name : systems) names += (names.empty() ? "" : ", ") + name;
  throw InputError(
      option + " " + path,
      "is of one server, as a serving benchmark writes it; expected --system with one of " + names);
}

}  // namespace moelab
