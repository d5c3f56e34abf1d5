// The JSON, the CSV and the picture of `moelab load`.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>

#include "cli/layer_table.hpp"
#include "cli/load_limits.hpp"
#include "cli/load_report.hpp"
#include "cli/load_values.hpp"
#include "cli/report/load_results.hpp"
#include "models/json.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/token_cost_table.hpp"
#include "sim/version.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Statistic {
  const char* name;
  double Summary::*value;
};
constexpr std::array<Statistic, 5> kStatistics = {{{"mean", &Summary::mean},
                                                   {"p50", &Summary::p50},
                                                   {"p90", &Summary::p90},
                                                   {"p95", &Summary::p95},
                                                   {"p99", &Summary::p99}}};

/// Keys as those of a run's result.
constexpr std::array<const char*, kLatencies> kLatencyKeys = {
    "ttft_s", "tpot_s", "itl_s", "end_to_end_s", "normalised_latency_s", "queueing_s"};

/// Of several servers their sums, and the longest of their least waits.
Json backlog_json(const std::vector<Backlog>& servers) {
  Backlog all;
  for (const Backlog& b : servers) {
    all.came += b.came;
    all.started += b.started;
    all.answered += b.answered;
    all.half_s = std::max(all.half_s, b.half_s);
    all.least_wait_s = std::max(all.least_wait_s, b.least_wait_s);
  }
  return {{"came", all.came},
          {"started", all.started},
          {"answered", all.answered},
          {"seconds", all.half_s},
          {"least_wait_s", all.least_wait_s < 0 ? Json(nullptr) : Json(all.least_wait_s)}};
}

template <class Sample>
void add_latencies(const Sample& s, Json& j) {
  for (const Latency latency : kAllLatencies) {
    Json& summary = j[kLatencyKeys[static_cast<std::size_t>(latency)]];
    for (const Statistic& statistic : kStatistics)
      summary[statistic.name] =
          s.of(latency) == nullptr ? Json(nullptr) : Json(s.of(latency)->*statistic.value);
  }
}

/// Of each class of requests what `sample` says of all.
Json class_samples_json(const LoadReport& r, const LoadSample& s) {
  const std::vector<std::string> names = class_names(r.runs->scenario().workload);
  const bool level = !r.runs->level().clauses.empty();
  Json all = Json::array();
  for (std::size_t i = 0; i < s.classes.size(); ++i) {
    const ClassSample& c = s.classes[i];
    Json j = {{"name", names[i]},
              {"requests", c.requests},
              {"answered", c.answered},
              {"throughput_requests_per_s", s.a_second(c.answered)}};
    add_latencies(c, j);
    j["met_requests"] = level ? Json(c.met) : Json(nullptr);
    j["met_share"] = level && c.met_share() ? Json(*c.met_share()) : Json(nullptr);
    j["goodput_requests_per_s"] = level ? Json(s.a_second(c.good)) : Json(nullptr);
    all.push_back(j);
  }
  return all;
}

Json sample_json(const LoadReport& r, const LoadSample& s, double rate, std::uint64_t seed) {
  Json j = {{"seed", seed}, {"refusal", s.refusal.empty() ? Json(nullptr) : Json(s.refusal)}};
  if (!s.refusal.empty()) return j;
  j.update({{"requests", s.requests},
            {"answered", s.answered},
            {"throughput_requests_per_s", s.answered_per_s()},
            {"throughput_tokens_per_s", s.tokens_per_s},
            {"throughput_input_tokens_per_s", s.input_tokens_per_s},
            {"wall_s", s.wall_s},
            {"preemptions", s.preemptions},
            {"verdict", to_string(s.verdict(r.runs->offered(rate)))},
            {"second_half", backlog_json(s.backlogs)}});
  add_latencies(s, j);
  const bool level = !r.runs->level().clauses.empty();
  j["met_requests"] = level ? Json(s.met) : Json(nullptr);
  j["met_share"] = level ? Json(s.met_share()) : Json(nullptr);
  j["goodput_requests_per_s"] = level ? Json(s.goodput()) : Json(nullptr);
  if (Json cost = token_cost_json(s.service, s.token_cost()); !cost.is_null()) j["service"] = std::move(cost);
  if (!s.classes.empty()) j["classes"] = class_samples_json(r, s);
  return j;
}

Json point_json(const LoadReport& r, const LoadPoint& point, bool best) {
  Json samples = Json::array();
  for (std::size_t i = 0; i < point.samples.size(); ++i)
    samples.push_back(sample_json(r, point.samples[i], point.rate, r.runs->scenario().seed + i));
  const bool refused = !point.samples.front().refusal.empty();
  return {{"rate_per_s", point.rate},
          {"verdict", refused ? Json(nullptr) : Json(to_string(point.verdict))},
          {"meets_level", point.meets_level},
          {"best", best},
          {"seeds", samples}};
}

Json found_json(const LoadReport& r, const HighestRate& found) {
  Json j = {{"tolerance", r.tolerance}, {"by_seed_per_s", found.by_seed}};
  for (const auto& [key, rate] : {std::pair("median_per_s", found.median()),
                                  std::pair("low_per_s", found.low()), std::pair("high_per_s", found.high())})
    j[key] = found.by_seed.empty() ? Json(nullptr) : Json(rate);
  j["limit"] = limit_json(limit_of(r, found));
  if (const LoadSample* const at = found.at_median(); at != nullptr && at->service.any())
    j["service"] = token_cost_json(at->service, at->token_cost());
  return j;
}

Json level_json(const LoadReport& r) {
  if (r.runs->level().clauses.empty()) return nullptr;
  Json clauses = Json::array();
  for (const LevelClause& clause : r.runs->level().clauses) {
    clauses.push_back({{"latency", latency_name(clause.latency).word},
                       {"quantile", clause.quantile ? Json(*clause.quantile) : Json(nullptr)},
                       {"limit_s", clause.limit_s}});
    if (clause.of_class) clauses.back()["class"] = clause.class_name;
  }
  return {{"text", r.runs->level().text},
          {"share", r.rule.share ? Json(*r.rule.share) : Json(nullptr)},
          {"clauses", clauses}};
}

using PointFigure = std::function<std::optional<double>(const LoadPoint&)>;

/// A band around a line.
struct Band {
  PointFigure low, high;
};

/// What a panel shows of each point: a figure over another one, which is usually the rate.
struct Curve {
  PointFigure x, y;
  Band band = {};
};

std::optional<double> rate_asked(const LoadPoint& point) {
  return point.rate;
}

/// Points at which the figure is not that of a steady state.
plot::Series marked(const LoadReport& r, const Curve& curve, LoadVerdict verdict) {
  plot::Series series{.name = to_string(verdict), .mark = plot::Mark::dots};
  for (const LoadPoint& point : r.points) {
    const std::optional<double> x = curve.x(point), y = curve.y(point);
    if (point.verdict != verdict || !x || !y) continue;
    series.x.push_back(*x);
    series.y.push_back(*y);
  }
  return series;
}

/// Rates that lie far apart stand on a log axis.
plot::Axis rate_axis(const LoadReport& r) {
  const auto [low, high] = std::ranges::minmax(r.points, {}, &LoadPoint::rate);
  const bool far = high.rate > 30 * low.rate;
  return {.label = "requests offered",
          .unit = "1/s",
          .scale = far ? plot::ScaleKind::log : plot::ScaleKind::linear};
}

/// A line for each system, by its rates, and marks where it is saturated or unsettled.
plot::Panel curve_panel(const LoadReport& r, const std::string& title, plot::Axis x, plot::Axis y,
                        const Curve& curve) {
  plot::Panel panel{.title = title, .x = std::move(x), .y = std::move(y)};
  const auto value = [](const std::optional<double>& v) {
    return v.value_or(std::numeric_limits<double>::quiet_NaN());
  };
  for (const auto& points : points_by_system(r.points)) {
    plot::Series series{.name = r.runs->scenario().systems[points.front().system].name};
    for (const LoadPoint& point : points) {
      series.x.push_back(value(curve.x(point)));
      series.y.push_back(value(curve.y(point)));
      if (!curve.band.low) continue;
      series.low.push_back(value(curve.band.low(point)));
      series.high.push_back(value(curve.band.high(point)));
    }
    panel.series.push_back(std::move(series));
  }
  for (const LoadVerdict verdict : {LoadVerdict::saturated, LoadVerdict::unsettled})
    if (plot::Series series = marked(r, curve, verdict); !series.x.empty())
      panel.series.push_back(std::move(series));
  return panel;
}

/// A line across the panel at what is asked of its figure.
plot::Series asked_line(const LoadReport& r, const std::string& name, double value) {
  const auto [low, high] = std::ranges::minmax(r.points, {}, &LoadPoint::rate);
  const bool one_rate = low.rate == high.rate;
  return {.name = name,
          .x = {low.rate * (one_rate ? 0.9 : 1), high.rate * (one_rate ? 1.1 : 1)},
          .y = {value, value},
          .mark = plot::Mark::level};
}

PointFigure latency_figure(Latency latency, double Summary::*statistic) {
  return [latency, statistic](const LoadPoint& point) { return latency_at(point, latency, statistic); };
}

plot::Panel latency_panel(const LoadReport& r, const std::string& title, Latency latency, plot::Axis y) {
  const auto at = [latency](double Summary::*statistic) { return latency_figure(latency, statistic); };
  plot::Panel panel = curve_panel(r, title, rate_axis(r), std::move(y),
                                  {rate_asked, at(&Summary::p95), {at(&Summary::p50), at(&Summary::p99)}});
  for (const LevelClause& clause : r.runs->level().clauses)
    if (clause.latency == latency) panel.series.push_back(asked_line(r, to_string(clause), clause.limit_s));
  return panel;
}

/// What is served at which latency: each system's line runs by its rates.
plot::Panel throughput_panel(const LoadReport& r, const std::string& title, Latency latency, plot::Axis x) {
  return curve_panel(r, title, std::move(x), {.label = "throughput", .unit = "tokens/s"},
                     {latency_figure(latency, &Summary::p99),
                      [](const LoadPoint& p) { return mean_of(p, &LoadSample::tokens_per_s); }});
}

bool has_classes(const LoadReport& r) {
  return has_classes(r.runs->scenario().workload);
}

constexpr std::array<const char*, 7> kServiceKeys = {
    "power_w",  "energy_j_per_output_token",      "energy_j_per_token",     "price_per_h",
    "currency", "cost_per_million_output_tokens", "cost_per_million_tokens"};

/// Whether of any run is known what its tokens take; else the columns are left out.
bool has_service(const LoadReport& r) {
  return std::ranges::any_of(r.points, [](const LoadPoint& point) {
    return std::ranges::any_of(point.samples, [](const LoadSample& s) { return s.service.any(); });
  });
}

std::string csv_header(const LoadReport& r) {
  std::string line = "system,rate_per_s,verdict,seed," + std::string(has_classes(r) ? "class," : "") +
                     "requests,answered,throughput_requests_per_s,"
                     "throughput_tokens_per_s,throughput_input_tokens_per_s,wall_s,preemptions,"
                     "second_half_came,second_half_started,second_half_answered,second_half_seconds,"
                     "second_half_least_wait_s";
  for (const char* key : kLatencyKeys)
    for (const Statistic& statistic : kStatistics) line += std::string(",") + key + "_" + statistic.name;
  line += ",met_requests,met_share,goodput_requests_per_s";
  if (has_service(r))
    for (const char* key : kServiceKeys) line += std::string(",") + key;
  return line + ",refusal\n";
}

/// What is null in a sample's JSON, or not in it, is empty here.
std::string csv_line(const LoadReport& r, const LoadPoint& point, const Json& sample) {
  std::string line = csv_cell(r.runs->scenario().systems[point.system].name) + "," + Json(point.rate).dump() +
                     "," + (sample["refusal"].is_null() ? sample["verdict"].get<std::string>() : "") + "," +
                     csv_cell_of(sample["seed"]);
  if (has_classes(r)) line += "," + (sample.contains("name") ? csv_cell_of(sample["name"]) : "");
  const auto add = [&](const Json& value) { line += "," + csv_cell_of(value); };
  const Json none;
  const auto of = [&](const char* key) -> const Json& { return sample.contains(key) ? sample[key] : none; };
  for (const char* key : {"requests", "answered", "throughput_requests_per_s", "throughput_tokens_per_s",
                          "throughput_input_tokens_per_s", "wall_s", "preemptions"})
    add(of(key));
  for (const char* key : {"came", "started", "answered", "seconds", "least_wait_s"})
    add(of("second_half").is_null() ? none : of("second_half")[key]);
  for (const char* key : kLatencyKeys)
    for (const Statistic& statistic : kStatistics) add(of(key).is_null() ? none : of(key)[statistic.name]);
  for (const char* key : {"met_requests", "met_share", "goodput_requests_per_s"}) add(of(key));
  if (has_service(r))
    for (const char* key : kServiceKeys) add(of("service").contains(key) ? of("service")[key] : none);
  add(of("refusal"));
  return line + "\n";
}

/// A line of all requests of a run, and one of each class of them.
std::string csv_lines(const LoadReport& r, const LoadPoint& point, const Json& sample) {
  std::string text = csv_line(r, point, sample);
  if (!sample.contains("classes")) return text;
  for (Json of_class : sample["classes"]) {
    for (const char* key : {"seed", "verdict", "refusal"}) of_class[key] = sample[key];
    text += csv_line(r, point, of_class);
  }
  return text;
}

}  // namespace

std::string load_json(const LoadReport& r) {
  const Scenario& s = r.runs->scenario();
  Json systems = Json::array();
  for (const auto& points : points_by_system(r.points)) {
    const LoadPoint* const best = best_point(points);
    Json curve = Json::array();
    for (const LoadPoint& point : points) curve.push_back(point_json(r, point, best == &point));
    Json j = {{"system", s.systems[points.front().system].name},
              {"best_rate_per_s", best == nullptr ? Json(nullptr) : Json(best->rate)}};
    if (!r.found.empty()) j["highest_rate"] = found_json(r, r.found[points.front().system]);
    j["limit"] = limit_json(limit_of(r, points));
    j["points"] = curve;
    systems.push_back(j);
  }
  return json_text({{"load_format", kLoadFormat},
                    {"scenario", s.name},
                    {"question", s.question},
                    {"version", program_version()},
                    {"model", s.model.title},
                    {"device", s.place_title()},
                    {"requests", r.runs->requests()},
                    {"seeds", r.runs->seeds()},
                    {"arrivals", arrivals_text(s)},
                    {"level", level_json(r)},
                    {"answer", {{"text", load_answer(r)}}},
                    {"notes", r.runs->notes()},
                    {"systems", systems}});
}

std::string load_csv(const LoadReport& r) {
  std::string text = csv_header(r);
  for (const LoadPoint& point : r.points)
    for (std::size_t i = 0; i < point.samples.size(); ++i)
      text += csv_lines(r, point, sample_json(r, point.samples[i], point.rate, r.runs->scenario().seed + i));
  return text;
}

plot::Figure load_figure(const LoadReport& r) {
  const Scenario& s = r.runs->scenario();
  plot::Figure figure{.title = s.name + ": " + s.model.title + " on " + s.place_title(),
                      .caption = "TTFT and TPOT over the rate: p95 in a band from p50 to p99; means over " +
                                 std::to_string(r.runs->seeds()) + " seeds of " +
                                 std::to_string(r.runs->requests()) + " requests; arrivals " +
                                 arrivals_text(s)};
  figure.panels = {
      latency_panel(r, "Time to first token", Latency::ttft,
                    {.label = "TTFT", .unit = "s", .scale = plot::ScaleKind::log}),
      latency_panel(r, "Time per output token", Latency::tpot, {.label = "TPOT", .unit = "s"}),
      curve_panel(r, "Served", rate_axis(r), {.label = "requests answered", .unit = "1/s"},
                  {rate_asked, [](const LoadPoint& p) { return mean_of(p, &LoadSample::answered_per_s); }})};
  if (!r.runs->level().clauses.empty()) {
    figure.panels.push_back(curve_panel(
        r, "Within the limits", rate_axis(r), {.label = "share of requests", .range = plot::AxisRange{0, 1}},
        {rate_asked, [](const LoadPoint& p) { return mean_of(p, &LoadSample::met_share); }}));
    if (r.rule.share)
      figure.panels.back().series.push_back(
          asked_line(r, significant(100 * *r.rule.share) + " % of requests", *r.rule.share));
  }
  figure.panels.push_back(
      throughput_panel(r, "Throughput over TTFT", Latency::ttft,
                       {.label = "TTFT p99", .unit = "s", .scale = plot::ScaleKind::log}));
  figure.panels.push_back(
      throughput_panel(r, "Throughput over TPOT", Latency::tpot, {.label = "TPOT p99", .unit = "s"}));
  figure.columns = 3;
  return figure;
}

}  // namespace moelab::cli
