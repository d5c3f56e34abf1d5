// A timeline as its JSON has it.
#pragma once

#include "models/json.hpp"
#include "sim/results/timeline.hpp"
#include "sim/run_result.hpp"

namespace moelab::test {

inline nlohmann::json timeline_json(const Timeline& timeline, const RunResult& result,
                                    const TimelineTitle& title = {}) {
  return nlohmann::json::parse(
      timeline_file(TimelineForm::json, {timeline.events(TimelineForm::json, result, title)}));
}

/// Whether an event of it is an operation: no request, no pass and no layer, nothing of the legend or a
/// cluster's.
inline bool is_operation(const nlohmann::json& event) {
  if (event["ph"] != "X") return false;
  for (const char* other : {"request", "pass", "layer", "legend", "migration", "fault"})
    if (event["cat"] == other) return false;
  return true;
}

}  // namespace moelab::test
