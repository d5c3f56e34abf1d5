#include "cli/report/report.hpp"

#include <string_view>

#include "sim/sweep/compared_family.hpp"

extern "C" const char moelab_report_page_begin[], moelab_report_page_end[];

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDataPlace = "{{data}}";

/// Whether its system knows the future or tries everything: a bound of the others, not their rival.
bool is_oracle(const Json& result) {
  static const Json::json_pointer kSystem("/inputs/scenario/systems/0");
  return result.is_object() && result.contains(kSystem) && names_a_bound(result.at(kSystem));
}

Json point_json(const ReportPoint& point) {
  Json axes = Json::array();
  for (const auto& [name, value] : point.axes) axes.push_back({name, value});
  Json result = point.result;
  const bool oracle = is_oracle(result);
  if (result.is_object()) result.erase("inputs");  // the whole scenario: the page shows what came of it
  return {{"axes", axes}, {"series", point.series}, {"oracle", oracle}, {"result", std::move(result)}};
}

/// JSON that no HTML parser finds a tag in. Bytes that are no UTF-8 are replaced.
std::string data_block(const Report& report) {
  Json data = {{"title", report.title}, {"question", report.question}, {"points", Json::array()}};
  data["loads"] = report.loads;
  data["worlds"] = report.worlds;
  data["requests"] = report.requests;
  for (const ReportPoint& point : report.points) data["points"].push_back(point_json(point));
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

}  // namespace

std::string report_html(const Report& report) {
  const std::string_view page(moelab_report_page_begin,
                              static_cast<std::size_t>(moelab_report_page_end - moelab_report_page_begin));
  const std::size_t place = page.find(kDataPlace);
  return std::string(page.substr(0, place)) + data_block(report) +
         std::string(page.substr(place + kDataPlace.size()));
}

}  // namespace moelab
