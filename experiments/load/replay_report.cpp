#include "experiments/load/replay_report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::replay {
namespace {

void add_times(RequestTimes& times, const MeasuredRequest& asked, double first, double last) {
  times.ttft.push_back(first - asked.queued_s);
  times.end_to_end.push_back(last - asked.queued_s);
  if (asked.output_tokens > 1) times.tpot.push_back((last - first) / (asked.output_tokens - 1.0));
}

Compared compared_quantile(const std::vector<double>& measured, const std::vector<double>& predicted,
                           double q) {
  return {quantile(measured, q), quantile(predicted, q)};
}

ComparedSample compare_sample(std::vector<double> measured, std::vector<double> predicted) {
  if (measured.empty() || predicted.empty()) return {};
  std::sort(measured.begin(), measured.end());
  std::sort(predicted.begin(), predicted.end());
  return {.mean = {mean(measured), mean(predicted)},
          .p50 = compared_quantile(measured, predicted, 0.5),
          .p90 = compared_quantile(measured, predicted, 0.9),
          .p95 = compared_quantile(measured, predicted, 0.95),
          .p99 = compared_quantile(measured, predicted, 0.99)};
}

/// Means over [begin, end) of what holds throughout steps; tokens that come at a step's end are spread over
/// it.
class OverTime {
 public:
  OverTime(const Replay& replayed, std::uint64_t kv_blocks)
      : steps_(replayed.steps), kv_blocks_(static_cast<double>(std::max<std::uint64_t>(1, kv_blocks))) {}

  /// Stretches follow each other.
  ComparedMoment over(double begin, double end) {
    ComparedMoment m;
    m.time_s = end;
    if (!(end > begin)) return m;
    while (first_ < steps_.size() && steps_[first_].end_s <= begin) ++first_;
    for (std::size_t i = first_; i < steps_.size() && steps_[i].begin_s < end; ++i) {
      const ReplayedStep& step = steps_[i];
      if (!(step.end_s > step.begin_s)) continue;
      const double within = std::min(end, step.end_s) - std::max(begin, step.begin_s);
      const double share = within / (end - begin), of_step = within / (step.end_s - step.begin_s);
      m.tokens_per_s.predicted += of_step * static_cast<double>(step.tokens) / (end - begin);
      m.prompt_tokens_per_s.predicted += of_step * static_cast<double>(step.prompt_tokens) / (end - begin);
      m.running.predicted += share * static_cast<double>(step.running);
      m.waiting.predicted += share * static_cast<double>(step.waiting);
      m.kv_use.predicted += share * static_cast<double>(step.kv_blocks) / kv_blocks_;
    }
    return m;
  }

 private:
  const std::vector<ReplayedStep>& steps_;
  double kv_blocks_;
  std::size_t first_ = 0;
};

/// At the folder's samples, or each second where it has none.
std::vector<ComparedMoment> compare_over_time(const ServingFolder& folder, const Setup& setup,
                                              const Replay& replayed) {
  std::vector<ComparedMoment> all;
  OverTime predicted(replayed, setup.memory.kv_blocks * setup.scenario.data_parallel);
  double before = 0;
  for (const MeasuredSample& s : folder.samples) {
    ComparedMoment m = predicted.over(before, s.time_s);
    m.tokens_per_s.measured = s.tokens_per_s;
    m.prompt_tokens_per_s.measured = s.prompt_tokens_per_s;
    m.running.measured = s.running;
    m.waiting.measured = s.waiting;
    m.kv_use.measured = s.kv_use;
    before = s.time_s;
    all.push_back(m);
  }
  // An engine that reports 0 throughout does not report its KV cache at all.
  const auto reported = [](const MeasuredSample& s) { return s.kv_use > 0; };
  if (std::none_of(folder.samples.begin(), folder.samples.end(), reported))
    for (ComparedMoment& m : all) m.kv_use.measured.reset();
  const double end = replayed.steps.empty() ? 0 : replayed.steps.back().end_s;
  constexpr double kMostMoments = 100000;
  const double apart = std::max(1.0, end / kMostMoments);
  while (before < end) {
    all.push_back(predicted.over(before, before + apart));
    before += apart;
  }
  return all;
}

nlohmann::ordered_json json_of(const Compared& c) {
  nlohmann::ordered_json json;
  json["measured"] = c.measured ? nlohmann::ordered_json(*c.measured) : nlohmann::ordered_json(nullptr);
  json["predicted"] = c.predicted;
  return json;
}

nlohmann::ordered_json json_of(const ComparedSample& s) {
  nlohmann::ordered_json json;
  json["mean"] = json_of(s.mean);
  json["p50"] = json_of(s.p50);
  json["p90"] = json_of(s.p90);
  json["p95"] = json_of(s.p95);
  json["p99"] = json_of(s.p99);
  return json;
}

std::string shown_error(const Compared& c) {
  if (!c.measured || *c.measured == 0) return "-";
  const double error = 100 * (c.predicted / *c.measured - 1);
  return (error >= 0 ? "+" : "") + fixed(error, 1) + " %";
}

using Table = std::vector<std::vector<std::string>>;

void add_row(Table& table, const std::string& metric, const std::string& statistic, const Compared& c,
             double unit, int digits) {
  table.push_back({metric, statistic, c.measured ? fixed(*c.measured * unit, digits) : "-",
                   fixed(c.predicted * unit, digits), shown_error(c)});
}

void add_rows(Table& table, const std::string& metric, const ComparedSample& s, double unit, int digits) {
  add_row(table, metric, "mean", s.mean, unit, digits);
  add_row(table, "", "median", s.p50, unit, digits);
  add_row(table, "", "p90", s.p90, unit, digits);
  add_row(table, "", "p95", s.p95, unit, digits);
  add_row(table, "", "p99", s.p99, unit, digits);
}

/// A dozen stretches of equal length.
std::string over_time_text(const Comparison& c) {
  constexpr std::size_t kRows = 12;
  Table table{{"until s", "tokens/s", "predicted", "running", "predicted", "waiting", "predicted",
               "KV cache %", "predicted"}};
  const std::size_t count = c.over_time.size();
  for (std::size_t row = 0; row < std::min(kRows, count); ++row) {
    const std::size_t rows = std::min(kRows, count), begin = row * count / rows,
                      end = (row + 1) * count / rows;
    std::vector<std::string> cells{fixed(c.over_time[end - 1].time_s, 0)};
    const auto add = [&](Compared ComparedMoment::*figure, double unit, int digits) {
      double measured = 0, predicted = 0;
      bool known = true;
      for (std::size_t i = begin; i < end; ++i) {
        const Compared& value = c.over_time[i].*figure;
        known = known && value.measured.has_value();
        measured += value.measured.value_or(0);
        predicted += value.predicted;
      }
      const auto n = static_cast<double>(end - begin);
      cells.push_back(known ? fixed(measured / n * unit, digits) : "-");
      cells.push_back(fixed(predicted / n * unit, digits));
    };
    add(&ComparedMoment::tokens_per_s, 1, 0);
    add(&ComparedMoment::running, 1, 0);
    add(&ComparedMoment::waiting, 1, 0);
    add(&ComparedMoment::kv_use, 100, 1);
    table.push_back(std::move(cells));
  }
  return align_columns(table, 0);
}

}  // namespace

RequestTimes measured_times(const ServingFolder& folder) {
  RequestTimes times;
  for (const MeasuredRequest& r : folder.requests) add_times(times, r, r.first_token_s, r.last_token_s);
  return times;
}

RequestTimes replayed_times(const ServingFolder& folder, const Replay& replayed) {
  RequestTimes times;
  for (std::size_t i = 0; i < folder.requests.size(); ++i)
    add_times(times, folder.requests[i], replayed.requests[i].first_token_s,
              replayed.requests[i].last_token_s);
  return times;
}

Comparison compare(const ServingFolder& folder, const Setup& setup, const Replay& replayed) {
  const RequestTimes measured = measured_times(folder), predicted = replayed_times(folder, replayed);
  Comparison c;
  c.ttft = compare_sample(measured.ttft, predicted.ttft);
  c.tpot = compare_sample(measured.tpot, predicted.tpot);
  c.end_to_end = compare_sample(measured.end_to_end, predicted.end_to_end);
  if (folder.engine.kv_blocks) c.kv_blocks.measured = static_cast<double>(*folder.engine.kv_blocks);
  c.kv_blocks.predicted = static_cast<double>(setup.predicted_blocks);
  double tokens = 0, measured_end = 0, predicted_end = 0;
  for (std::size_t i = 0; i < folder.requests.size(); ++i) {
    tokens += folder.requests[i].output_tokens;
    measured_end = std::max(measured_end, folder.requests[i].last_token_s);
    predicted_end = std::max(predicted_end, replayed.requests[i].last_token_s);
  }
  c.duration_s = {measured_end, predicted_end};
  c.tokens_per_s = {measured_end > 0 ? tokens / measured_end : 0,
                    predicted_end > 0 ? tokens / predicted_end : 0};
  c.over_time = compare_over_time(folder, setup, replayed);
  return c;
}

nlohmann::ordered_json comparison_json(const Comparison& c) {
  nlohmann::ordered_json json;
  json["ttft_s"] = json_of(c.ttft);
  json["tpot_s"] = json_of(c.tpot);
  json["end_to_end_s"] = json_of(c.end_to_end);
  json["kv_blocks"] = json_of(c.kv_blocks);
  return json;
}

std::string comparison_text(const ServingFolder& folder, const Setup& setup, const Replay& replayed,
                            const Comparison& c, const std::string& times) {
  const EngineArguments& e = folder.engine;
  std::string text = setup.scenario.model.title + " on ";
  if (setup.scenario.gpus() > 1) text += std::to_string(setup.scenario.gpus()) + " x ";
  text += setup.gpu + ": " + std::to_string(folder.requests.size()) + " requests, at most " +
          std::to_string(e.max_requests) + " at once, " + std::to_string(e.max_tokens) + " tokens a step, " +
          std::to_string(setup.memory.kv_blocks) + " blocks of " + std::to_string(e.block_tokens) +
          " tokens" + (e.kv_blocks ? "" : " (predicted)") + ".\nPredicted " + times + ": " +
          std::to_string(replayed.steps.size()) + " steps, " + std::to_string(replayed.preempted) +
          " preemptions, " + std::to_string(replayed.recomputed_tokens) + " tokens computed again.\n\n";
  Table table{{"metric", "", "measured", "predicted", "error"}};
  add_rows(table, "TTFT ms", c.ttft, 1e3, 1);
  add_rows(table, "TPOT ms", c.tpot, 1e3, 2);
  add_rows(table, "end to end ms", c.end_to_end, 1e3, 1);
  add_row(table, "output tokens/s", "", c.tokens_per_s, 1, 1);
  add_row(table, "all answered after s", "", c.duration_s, 1, 1);
  add_row(table, "KV blocks", "", c.kv_blocks, 1, 0);
  text += align_columns(table, 2) + "\n" + over_time_text(c);
  for (const std::string& note : folder.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace moelab::replay
