#include "experiments/load/replay_picture.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace moelab::replay {
namespace {

/// The share of requests that took at most so long.
plot::Series distribution(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  plot::Series series{.name = name, .mark = plot::Mark::step};
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.x.push_back(values[i]);
    series.y.push_back(static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return series;
}

plot::Panel distributions(const std::string& title, const std::vector<double>& measured,
                          const std::vector<double>& predicted) {
  return {.title = title,
          .x = {.label = "at most", .unit = "s"},
          .y = {.label = "share of requests", .range = plot::AxisRange{0, 1}},
          .series = {distribution("measured", measured), distribution("predicted", predicted)}};
}

plot::Panel over_time(const Comparison& c, const std::string& title, plot::Axis y,
                      Compared ComparedMoment::*figure) {
  plot::Series measured{.name = "measured"}, predicted{.name = "predicted"};
  for (const ComparedMoment& m : c.over_time) {
    const Compared& value = m.*figure;
    predicted.x.push_back(m.time_s);
    predicted.y.push_back(value.predicted);
    if (!value.measured) continue;
    measured.x.push_back(m.time_s);
    measured.y.push_back(*value.measured);
  }
  plot::Panel panel{.title = title, .x = {.label = "time", .unit = "s"}, .y = std::move(y)};
  if (!measured.x.empty()) panel.series.push_back(std::move(measured));
  panel.series.push_back(std::move(predicted));
  return panel;
}

}  // namespace

plot::Figure replay_figure(const ServingFolder& folder, const Setup& setup, const Replay& replayed,
                           const Comparison& c, const std::string& times) {
  const RequestTimes measured = measured_times(folder), predicted = replayed_times(folder, replayed);
  plot::Figure figure{
      .title = setup.scenario.model.title + " on " + setup.gpu,
      .caption = std::to_string(folder.requests.size()) + " requests of a server's run, predicted " + times,
      .columns = 4};
  figure.panels = {
      distributions("TTFT", measured.ttft, predicted.ttft),
      distributions("TPOT", measured.tpot, predicted.tpot),
      distributions("End to end", measured.end_to_end, predicted.end_to_end),
      over_time(c, "Throughput", {.label = "output tokens/s"}, &ComparedMoment::tokens_per_s),
      over_time(c, "Requests that run", {.label = "requests"}, &ComparedMoment::running),
      over_time(c, "Requests that wait", {.label = "requests"}, &ComparedMoment::waiting),
      over_time(c, "Prompts", {.label = "prompt tokens/s"}, &ComparedMoment::prompt_tokens_per_s),
      over_time(c, "KV cache in use", {.label = "share"}, &ComparedMoment::kv_use)};
  return figure;
}

}  // namespace moelab::replay
