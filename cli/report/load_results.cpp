#include "cli/report/load_results.hpp"

#include <array>

#include "cli/report/document_check.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLargest = 1e12;  // seconds, or a second: beyond what any run comes to

constexpr std::array<const char*, 6> kSummaries = {
    "ttft_s", "tpot_s", "itl_s", "end_to_end_s", "normalised_latency_s", "queueing_s"};

void check_seed(DocumentCheck& check, const std::string& at, const Json& seed) {
  if (DocumentCheck::part(seed, "refusal").is_string()) return;
  check.text_or_null(at, seed, "refusal");
  for (const char* key : {"throughput_requests_per_s", "throughput_tokens_per_s"})
    check.number(at, seed, key, kLargest, true);
  check.number(at, seed, "met_share", 1, true);
  check.number(at, seed, "goodput_requests_per_s", kLargest, true);
  for (const char* key : kSummaries) {
    const Json& summary = DocumentCheck::part(seed, key);
    if (!summary.is_object()) return check.fail(at + key, "an object");
    for (const char* statistic : {"mean", "p50", "p90", "p95", "p99"})
      check.number(at + key + ".", summary, statistic, kLargest, true);
  }
}

void check_point(DocumentCheck& check, const std::string& at, const Json& point) {
  check.number(at, point, "rate_per_s", kLargest, false);
  if (check.is_good() && !(point["rate_per_s"].get<double>() > 0))
    check.fail(at + "rate_per_s", "a rate above 0");
  check.text_or_null(at, point, "verdict");
  check.each(at, point, "seeds",
             [&](const std::string& place, const Json& seed) { check_seed(check, place, seed); });
}

void check_system(DocumentCheck& check, const std::string& at, const Json& system) {
  check.text(at, system, "system");
  check.number(at, system, "best_rate_per_s", kLargest, true);
  if (const Json& highest = DocumentCheck::part(system, "highest_rate"); highest.is_object()) {
    for (const char* key : {"median_per_s", "low_per_s", "high_per_s"})
      check.number(at + "highest_rate.", highest, key, kLargest, true);
  } else if (!highest.is_null()) {
    check.fail(at + "highest_rate", "an object");
  }
  check.each(at, system, "points",
             [&](const std::string& place, const Json& point) { check_point(check, place, point); });
}

void check_level(DocumentCheck& check, const Json& level) {
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
  DocumentCheck check("moelab load --out");
  check.form(document, "load_format", kLoadFormat);
  for (const char* key : {"scenario", "model", "device", "version", "arrivals"})
    check.text("", document, key);
  for (const char* key : {"requests", "seeds"}) check.number("", document, key, kLargest, false);
  check_level(check, DocumentCheck::part(document, "level"));
  check.each("", document, "systems",
             [&](const std::string& at, const Json& system) { check_system(check, at, system); });
  return check.problem();
}

}  // namespace moelab
