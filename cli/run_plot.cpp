#include "cli/run_plot.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "sim/results/serving_picture.hpp"
#include "sim/scenario.hpp"

namespace moelab::cli {
namespace {

/// A curve for each system: what holds throughout a sample, from its begin.
plot::Panel panel(const std::vector<RunResult>& results, const std::string& title, plot::Axis y,
                  const SampleFigure& figure) {
  plot::Panel out{.title = title, .x = {.label = "time", .unit = "s"}, .y = std::move(y)};
  for (const RunResult& r : results) {
    const std::vector<ServingSample>& samples = r.metrics.series.samples();
    if (samples.empty()) continue;
    plot::Series series{.name = r.system, .mark = plot::Mark::step};
    for (const ServingSample& sample : samples) {
      series.x.push_back(sample.begin_s);
      series.y.push_back(figure(sample));
    }
    series.x.push_back(samples.back().time_s);
    series.y.push_back(series.y.back());
    out.series.push_back(std::move(series));
  }
  return out;
}

/// What the figure's numbers rest on.
std::string caption(const std::vector<RunResult>& results) {
  std::string text;
  for (const RunResult& r : results) {
    if (r.memory.shortfall > Bytes(0)) text += r.system + " does not fit; ";
  }
  return text + "seed " + std::to_string(results.front().seed) + ", executor " + results.front().executor;
}

}  // namespace

void check_serving_figure(const Scenario& scenario) {
  if (std::none_of(scenario.systems.begin(), scenario.systems.end(),
                   [](const SystemConfig& system) { return system.paging.has_value(); }))
    throw InputError("--plot", "draws serving from a paged KV cache over time; no system of scenario '" +
                                   scenario.name + "' that is run has 'weights: paged'");
}

plot::Figure serving_figure(const Scenario& s, const std::vector<RunResult>& results) {
  using S = ServingSample;
  const plot::Axis share{.label = "share", .range = plot::AxisRange{0, 1}}, requests{.label = "requests"};
  plot::Figure figure{.title = s.name + ": " + s.model.title, .caption = caption(results), .columns = 3};
  figure.panels = {
      panel(results, "Throughput", {.label = "tokens/s"}, [](const S& x) { return x.tokens_per_s(); }),
      panel(results, "KV cache in use", share, [](const S& x) { return x.kv_use(); }),
      panel(results, "Experts in GPU memory", share, [](const S& x) { return x.residency; }),
      panel(results, "Requests that run", requests,
            [](const S& x) { return static_cast<double>(x.running); }),
      panel(results, "Requests waiting or swapped", requests,
            [](const S& x) { return static_cast<double>(x.waiting + x.swapped); }),
      panel(results, "KV cache to and from the host, a GPU", {.label = "swap traffic", .unit = "B/s"},
            [](const S& x) { return x.swapped_bytes_per_s(); })};
  return figure;
}

}  // namespace moelab::cli
