#include "cli/report/request_records.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/report/document_check.hpp"
#include "models/input_error.hpp"
#include "models/text_file.hpp"
#include "sim/results/other_file.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostOfRecord = 1e12;  // seconds, tokens or requests: beyond what any run comes to

struct RecordField {
  const char* key;
  bool may_be_null;
};
constexpr std::array<RecordField, 7> kRecordFields = {{{"request", false},
                                                       {"arrival_s", false},
                                                       {"prompt_tokens", false},
                                                       {"output_tokens", false},
                                                       {"started_s", false},
                                                       {"first_token_s", true},
                                                       {"end_s", true}}};

std::string fault_of(const Json& record) {
  DocumentCheck check("moelab run --requests");
  check.text("", record, "system");
  for (const RecordField& field : kRecordFields)
    check.number("", record, field.key, kMostOfRecord, field.may_be_null);
  if (record.contains("measured") && !record["measured"].is_boolean())
    check.fail("measured", "true or false");
  for (const char* key : {"class", "server"})
    if (record.contains(key)) check.text_or_null("", record, key);
  if (record.contains("seed")) check.number("", record, "seed", 1.9e19, true);  // 64 bits
  if (record.contains("rate_per_s")) check.number("", record, "rate_per_s", kMostOfRecord, true);
  return check.problem();
}

/// The requests of a system at a rate, by their lines.
struct RequestGroup {
  std::string system;
  Json rate;
  std::vector<Json> requests;
};

class RequestGroups {
 public:
  void add(const Json& record) {
    const Json rate = record.contains("rate_per_s") ? record["rate_per_s"] : Json(nullptr);
    const auto [found, is_new] =
        places_.try_emplace({record["system"].get<std::string>(), rate.dump()}, groups_.size());
    if (is_new) groups_.push_back({record["system"], rate, {}});
    Json request = Json::array();
    for (const RecordField& field : kRecordFields) request.push_back(record[field.key]);
    for (const char* key : {"class", "seed", "server"})
      request.push_back(record.contains(key) ? record[key] : Json(nullptr));
    groups_[found->second].requests.push_back(std::move(request));
    ++all_;
  }
  std::size_t all() const { return all_; }

  /// Every group's share of `most`, one at least, spread evenly over it; of more groups than that the first
  /// ones.
  Json drawn(std::size_t most) const {
    Json list = Json::array();
    for (const RequestGroup& group : groups_) {
      if (list.size() == most) break;
      const std::size_t has = group.requests.size();
      const std::size_t shown = all_ <= most ? has : std::clamp<std::size_t>(most * has / all_, 1, has);
      Json requests = Json::array();
      for (std::size_t i = 0; i < shown; ++i) requests.push_back(group.requests[i * has / shown]);
      list.push_back({{"system", group.system},
                      {"rate_per_s", group.rate},
                      {"all", has},
                      {"requests", std::move(requests)}});
    }
    return list;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
  std::vector<RequestGroup> groups_;
  std::size_t all_ = 0;
};

}  // namespace

Json read_request_records(const std::string& file) {
  const std::string text = read_text_file(file);
  RequestGroups groups;
  std::istringstream lines(text);
  const std::string expected =
      "; expected a request a line, as 'moelab run --requests' and 'moelab load --records' write them";
  int number = 0;
  std::size_t left_out = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto refuse = [&](const std::string& what) {
      throw InputError(std::vector<Problem>{{file, number, 0, what}});
    };
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      check_json_depth(file, line);
    } catch (const InputError& error) {
      refuse(error.problems().front().what);
    }
    const Json record = Json::parse(line, nullptr, false);
    if (record.is_discarded()) refuse("is not JSON" + expected);
    if (!record.is_object()) refuse("is no JSON object" + expected);
    if (groups.all() + left_out == 0 && !record.contains("system"))
      throw InputError(file, kind_of_text(file, text) + expected);  // lines of another kind
    if (const std::string problem = fault_of(record); !problem.empty()) refuse(problem);
    if (record.contains("measured") && record["measured"] == false)
      ++left_out;
    else
      groups.add(record);
  }
  return {{"requests_of", file},
          {"all", groups.all()},
          {"left_out", left_out},
          {"groups", groups.drawn(kMostRequestsDrawn)}};
}

bool is_request_records(const Json& document) {
  return document.is_object() && document.contains("requests_of");
}

}  // namespace moelab
