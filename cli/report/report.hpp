// One page that shows results side by side: self-contained HTML that needs no network.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/json.hpp"

namespace moelab {

/// One result, and where it stands among the others.
struct ReportPoint {
  std::vector<std::pair<std::string, std::string>> axes;  // name, value as written; the same names in all
  std::string series;                                     // points of one series belong together: the system
  nlohmann::ordered_json result;                          // as results_json writes it
};

struct Report {
  std::string title, question;  // question: of all points, or ""
  std::vector<ReportPoint> points;
  std::vector<nlohmann::ordered_json> loads = {};   // over request rates, as `moelab load --out` writes them
  std::vector<nlohmann::ordered_json> worlds = {};  // published measurements, predicted: world_results.hpp
  std::vector<nlohmann::ordered_json> requests = {};  // request by request: request_records.hpp
};

/// The whole page. Results and names may hold anything: the page reads them as data and shows them as text,
/// and what is no number in the place of one is shown as missing.
std::string report_html(const Report& report);

}  // namespace moelab
