#include "cli/report/load_results.hpp"

#include <array>
#include <cmath>
#include <sstream>
#include <utility>

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLargest = 1e12;  // seconds, or a second: beyond what any run comes to

constexpr std::array<const char*, 6> kSummaries = {
    "ttft_s", "tpot_s", "itl_s", "end_to_end_s", "normalised_latency_s", "queueing_s"};

/// Walks through a document and keeps the first thing that is wrong in it, with where it stands.
class LoadCheck {
 public:
  bool is_good() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }

  void fail(const std::string& at, const std::string& expected) {
    if (is_good()) problem_ = at + ": expected " + expected + "; 'moelab load --out' writes it so";
  }
  /// What an object has at a key; null where it has nothing.
  static const Json& part(const Json& object, const char* key) {
    static const Json none;
    const auto found = object.find(key);
    return found == object.end() ? none : *found;
  }
  void text(const std::string& at, const Json& object, const char* key) {
    if (!part(object, key).is_string()) fail(at + key, "a text");
  }
  /// A number from 0 to `most`, or null where there may be none.
  void number(const std::string& at, const Json& object, const char* key, double most, bool may_be_null) {
    const Json& value = part(object, key);
    if (value.is_null() && may_be_null) return;
    std::ostringstream range;
    range << "a number from 0 to " << most << (may_be_null ? " or null" : "");
    if (!value.is_number()) return fail(at + key, range.str());
    const auto known = value.get<double>();
    if (!(known >= 0 && known <= most)) fail(at + key, range.str());
  }
  /// A list of objects that is not empty.
  template <typename Check>
  void each(const std::string& at, const Json& object, const char* key, const Check& check) {
    const Json& list = part(object, key);
    if (!list.is_array() || list.empty()) return fail(at + key, "a list that is not empty");
    for (std::size_t i = 0; i < list.size() && is_good(); ++i) {
      const std::string place = at + key + "[" + std::to_string(i) + "]";
      if (list[i].is_object())
        check(place + ".", list[i]);
      else
        fail(place, "an object");
    }
  }

 private:
  std::string problem_;
};

void check_seed(LoadCheck& check, const std::string& at, const Json& seed) {
  const Json& refusal = LoadCheck::part(seed, "refusal");
  if (refusal.is_string()) return;
  if (!refusal.is_null()) return check.fail(at + "refusal", "a text or null");
  for (const char* key : {"throughput_requests_per_s", "throughput_tokens_per_s"})
    check.number(at, seed, key, kLargest, true);
  check.number(at, seed, "met_share", 1, true);
  check.number(at, seed, "goodput_requests_per_s", kLargest, true);
  for (const char* key : kSummaries) {
    const Json& summary = LoadCheck::part(seed, key);
    if (!summary.is_object()) return check.fail(at + key, "an object");
    for (const char* statistic : {"mean", "p50", "p90", "p95", "p99"})
      check.number(at + key + ".", summary, statistic, kLargest, true);
  }
}

void check_point(LoadCheck& check, const std::string& at, const Json& point) {
  check.number(at, point, "rate_per_s", kLargest, false);
  if (check.is_good() && !(point["rate_per_s"].get<double>() > 0))
    check.fail(at + "rate_per_s", "a rate above 0");
  if (!LoadCheck::part(point, "verdict").is_null()) check.text(at, point, "verdict");
  check.each(at, point, "seeds",
             [&](const std::string& place, const Json& seed) { check_seed(check, place, seed); });
}

void check_system(LoadCheck& check, const std::string& at, const Json& system) {
  check.text(at, system, "system");
  check.number(at, system, "best_rate_per_s", kLargest, true);
  if (const Json& highest = LoadCheck::part(system, "highest_rate"); highest.is_object()) {
    for (const char* key : {"median_per_s", "low_per_s", "high_per_s"})
      check.number(at + "highest_rate.", highest, key, kLargest, true);
  } else if (!highest.is_null()) {
    check.fail(at + "highest_rate", "an object");
  }
  check.each(at, system, "points",
             [&](const std::string& place, const Json& point) { check_point(check, place, point); });
}

void check_level(LoadCheck& check, const Json& level) {
  if (level.is_null()) return;
  if (!level.is_object()) return check.fail("level", "an object or null");
  check.text("level.", level, "text");
  check.number("level.", level, "share", 1, true);
  check.each("level.", level, "clauses", [&](const std::string& at, const Json& clause) {
    check.text(at, clause, "latency");
    check.number(at, clause, "quantile", 1, true);
    check.number(at, clause, "limit_s", kLargest, false);
    if (clause.contains("class")) check.text(at, clause, "class");
  });
}

}  // namespace

bool is_load_result(const Json& document) {
  return document.is_object() && document.contains("load_format");
}

std::string problem_of_load(const Json& document) {
  LoadCheck check;
  const Json& format = document["load_format"];
  if (!format.is_number_integer() || format != kLoadFormat)
    check.fail("load_format", std::to_string(kLoadFormat) + ", the form that this program reads");
  for (const char* key : {"scenario", "model", "device", "version", "arrivals"})
    check.text("", document, key);
  for (const char* key : {"requests", "seeds"}) check.number("", document, key, kLargest, false);
  check_level(check, LoadCheck::part(document, "level"));
  check.each("", document, "systems",
             [&](const std::string& at, const Json& system) { check_system(check, at, system); });
  return check.problem();
}

}  // namespace moelab
