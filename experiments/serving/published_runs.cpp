#include "experiments/serving/published_runs.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "experiments/serving/front_end.hpp"
#include "experiments/serving/published_setup.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::published {
namespace {

LatencyFigures in_ms(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  const Summary summary = summarize(std::move(seconds));
  return {1e3 * summary.mean, 1e3 * summary.p50, 1e3 * summary.p99};
}

/// As a user sees them, behind the front end. `sent_s`: of ServingQuestion.
ServingFigures figures_of(const Metrics& metrics, const std::vector<double>& sent_s) {
  std::vector<RequestTimes> requests = metrics.requests;
  std::erase_if(requests, [](const RequestTimes& r) { return !r.answered(); });
  const std::vector<HandedOut> seen = handed_out(requests, kFrontEnd);
  std::vector<double> ttft, tpot;
  double end = 0, gaps = 0, gaps_s = 0, tokens = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestTimes& r = requests[i];
    const double sent = sent_s.empty() ? r.arrival_s - kFrontEnd.request_s : sent_s[r.number];
    const double decoded = seen[i].last_s - seen[i].first_s;
    ttft.push_back(seen[i].first_s - sent);
    if (r.output_tokens > 1) tpot.push_back(decoded / (r.output_tokens - 1));
    gaps_s += decoded;
    gaps += r.output_tokens - 1;
    tokens += r.output_tokens;
    end = std::max(end, seen[i].last_s);
  }
  // What users' first requests wait for the front end is before the engine's time.
  if (sent_s.empty()) end += kFrontEnd.request_s;
  if (end <= 0) return {};
  ServingFigures figures{.requests_per_s = static_cast<double>(requests.size()) / end,
                         .output_tokens_per_s = tokens / end,
                         .ttft = in_ms(std::move(ttft)),
                         .tpot = in_ms(std::move(tpot)),
                         .itl = {}};
  if (gaps > 0) figures.itl.mean = 1e3 * gaps_s / gaps;
  return figures;
}

PredictedServing predict(const ServingPoint& point) {
  PredictedServing row{.point = &point, .predicted = {}, .why_not = ""};
  try {
    const ServingQuestion question = serving_question(point);
    row.why_not = question.why_not;
    if (!question.scenario) return row;
    const Scenario& s = *question.scenario;
    const RoutingTrace trace = scenario_trace(s);
    check_scenario(s, trace);
    const RunResult result = run_system(s, s.systems.front(), trace);
    row.why_not = lacking_text(result);
    if (row.answered()) row.predicted = figures_of(result.metrics, question.sent_s);
  } catch (const InputError& error) {
    row.why_not = error.problems().front().what;
  }
  return row;
}

std::optional<HeadlinePair> first_printed(
    const std::vector<std::pair<std::optional<double>, std::optional<double>>>& measured_and_predicted) {
  for (const auto& [measured, predicted] : measured_and_predicted)
    if (measured && predicted) return HeadlinePair{*measured, *predicted};
  return {};
}

}  // namespace

std::vector<PredictedServing> predicted_serving(const std::vector<ServingPoint>& points, unsigned jobs) {
  std::vector<PredictedServing> rows(points.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (unsigned job = 0; job < std::max(1u, jobs); ++job)
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::size_t i = next++; i < points.size(); i = next++) rows[i] = predict(points[i]);
    }));
  for (std::future<void>& worker : workers) worker.get();
  return rows;
}

std::optional<HeadlinePair> headline(Headline which, const PredictedServing& row) {
  const ServingFigures& m = row.point->measured;
  const ServingFigures& p = row.predicted;
  switch (which) {
    case Headline::throughput:
      return first_printed({{m.output_tokens_per_s, p.output_tokens_per_s}});
    case Headline::ttft:
      return first_printed({{m.ttft.mean, p.ttft.mean}, {m.ttft.median, p.ttft.median}});
    case Headline::tpot:
      return first_printed({{m.tpot.mean, p.tpot.mean},
                            {m.tpot.median, p.tpot.median},
                            {m.itl.mean, p.itl.mean},
                            {m.itl.median, p.itl.median}});
  }
  return {};
}

}  // namespace moelab::published
