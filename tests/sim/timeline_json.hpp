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

}  // namespace moelab::test
