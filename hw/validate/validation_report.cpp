#include "hw/validate/validation_report.hpp"

#include <numeric>

#include "hw/bench/sample_statistics.hpp"
#include "models/json.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, 2);
}
std::string percent(double ratio) {
  return fixed(ratio * 100, 1);
}
std::string signed_percent(double ratio) {
  return (ratio >= 0 ? "+" : "") + percent(ratio);
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Row row_of(const ValidationPoint& p) {
  Row row = {p.codec, to_string(p.budget), std::to_string(p.threads), p.system};
  if (p.measured_tpot.empty()) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-", "-"});
  } else {
    const Summary predicted = summarize(p.predicted_layers), measured = summarize(p.measured_layers);
    const Repeated tpot = p.measured_tpot_s();
    const bool any = tpot.median > 0;  // else no request has a second token
    row.insert(
        row.end(),
        {milliseconds(measured.p50), milliseconds(predicted.p50), milliseconds(measured.p90),
         milliseconds(predicted.p90),
         p.too_noisy() ? "too noisy" : percent(errors_of(p.predicted_layers, p.measured_layers).median),
         any ? milliseconds(tpot.median) + " (" + milliseconds(tpot.low) + "-" + milliseconds(tpot.high) + ")"
             : "-",
         any ? milliseconds(p.predicted_tpot_s()) : "-",
         !any            ? "-"
         : p.too_noisy() ? "too noisy"
                         : signed_percent(signed_error(p.predicted_tpot_s(), tpot.median))});
  }
  const auto hits = std::accumulate(p.measured_hits.begin(), p.measured_hits.end() - 1, std::uint64_t{0});
  row.push_back(std::to_string(hits) + (p.predicted_hits == p.measured_hits ? " =" : " !"));
  row.push_back(fixed(static_cast<double>(p.read_bytes) / 1e6, 1) +
                (p.named_bytes == p.read_bytes ? " =" : " !"));
  return row;
}

std::string points_table(const Validation& v) {
  std::vector<Row> rows = {{"codec", "budget", "L", "system", "layer ms", "predicted", "p90", "predicted",
                            "error %", "TPOT ms (range)", "predicted", "error %", "hits", "read MB"}};
  for (const ValidationPoint& point : v.points) rows.push_back(row_of(point));
  return align_columns(rows, 4);
}

/// What became of experts that were not on the GPU, where they are missing one by one; empty where none are.
std::string decisions_table(const Validation& v) {
  std::vector<Row> rows = {{"decisions", "budget", "loaded", "by the CPU", "substituted"}};
  for (const ValidationPoint& p : v.points)
    if (v.discrete && !p.windowed)
      rows.push_back({p.system, to_string(p.budget), std::to_string(p.loaded), std::to_string(p.on_cpu),
                      std::to_string(p.substituted)});
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// What systems brought into their windows; empty where none has one.
std::string windows_table(const Validation& v) {
  std::vector<Row> rows = {
      {"windows, of a run", "budget", "layers loaded", "over the link MB", "decoded MB"}};
  for (const ValidationPoint& p : v.points) {
    if (!p.windowed) continue;
    const std::size_t runs = std::max<std::size_t>(1, p.measured_tpot.size());
    rows.push_back({p.system, to_string(p.budget), std::to_string(p.layers_streamed / runs),
                    fixed(static_cast<double>(p.streamed.loaded) / 1e6, 1),
                    fixed(static_cast<double>(p.streamed.decoded) / 1e6, 1)});
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

Row requests_row(const ValidationPoint& p) {
  const ServingPoint& s = p.serving;
  Row row = {p.system, p.codec, to_string(p.budget), std::to_string(p.threads)};
  if (s.measured.ttft.empty()) {
    row.insert(row.end(), 11, "-");
    return row;
  }
  row.push_back(std::to_string(s.answered));
  const auto add = [&](const std::vector<double>& predicted, const std::vector<double>& measured) {
    const Repeated times = repeated(measured);
    const double expected = repeated(predicted).median;
    if (!(times.median > 0)) {  // no request has a second token
      row.insert(row.end(), 3, "-");
      return;
    }
    row.push_back(milliseconds(times.median) + " (" + milliseconds(times.low) + "-" +
                  milliseconds(times.high) + ")");
    row.push_back(milliseconds(expected));
    row.push_back(signed_percent(signed_error(expected, times.median)));
  };
  add(s.predicted.ttft, s.measured.ttft);
  add(s.predicted.tpot, s.measured.tpot);
  if (!s.in_blocks) {  // these are not counted
    row.insert(row.end(), 4, "-");
    return row;
  }
  row.push_back(std::to_string(s.counts.steps));
  row.push_back(std::to_string(s.predicted_steps));
  row.push_back(std::to_string(s.counts.recomputed));
  row.push_back(fixed((s.counts.swap_out_bytes + s.counts.swap_in_bytes) / 1e6, 1));
  return row;
}

/// What users waited, and what the KV cache took of it; empty where batches were served in turn.
std::string requests_table(const Validation& v) {
  std::vector<Row> rows = {{"requests", "codec", "budget", "L", "answered", "TTFT ms (range)", "predicted",
                            "error %", "TPOT ms (range)", "predicted", "error %", "steps", "predicted",
                            "rows again", "swapped MB"}};
  for (const ValidationPoint& p : v.points)
    if (p.serving.any()) rows.push_back(requests_row(p));
  return rows.size() == 1 ? "" : align_columns(rows, 2) + "\n";
}

/// Nothing where all of these operations are of points that were too noisy, or take no time.
std::optional<ErrorSummary> error_of(const std::map<OperationKey, OperationTimes>& quiet,
                                     const OperationKey& key) {
  const auto found = quiet.find(key);
  if (found == quiet.end()) return std::nullopt;
  const ErrorSummary error = errors_of(found->second.predicted, found->second.measured);
  if (error.count == 0) return std::nullopt;
  return error;
}

/// What the kinds of operations add to the difference, largest first.
std::string operations_table(const Validation& v) {
  std::vector<Row> rows = {{"by operation", "codec", "L", "number", "measured us", "predicted us", "bias %",
                            "error %", "all measured s", "predicted s", "difference s"}};
  std::vector<std::pair<double, Row>> sorted;
  const std::map<OperationKey, OperationTimes> quiet = v.quiet_operations();
  for (const auto& [key, times] : v.operations()) {
    const auto& [kind, codec, threads] = key;
    const double predicted = sum(times.predicted), measured = sum(times.measured);
    const std::optional<ErrorSummary> error = error_of(quiet, key);
    sorted.push_back(
        {std::abs(predicted - measured),
         {std::string(to_string(kind)), codec, std::to_string(threads), std::to_string(times.measured.size()),
          fixed(summarize(times.measured).p50 * 1e6, 1), fixed(summarize(times.predicted).p50 * 1e6, 1),
          error ? signed_percent(error->bias) : "-", error ? percent(error->median) : "-", fixed(measured, 3),
          fixed(predicted, 3), fixed(predicted - measured, 3)}});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [size, row] : sorted) rows.push_back(std::move(row));
  return align_columns(rows, 3);
}

std::string hand_offs_table(const Validation& v) {
  std::vector<Row> rows = {{"hand-over, us an operation (profile: " + fixed(v.dispatch_s * 1e6, 1) + ")",
                            "operations", "out", "work", "back"}};
  for (std::size_t r = 0; r < v.hand_offs.size() && r < v.resources.size(); ++r) {
    const HandOffTimes& t = v.hand_offs[r];
    if (t.operations == 0) continue;
    const auto mean_us = [&](double seconds) {
      return fixed(seconds / static_cast<double>(t.operations) * 1e6, 1);
    };
    rows.push_back({v.resources[r], std::to_string(t.operations), mean_us(t.out_s), mean_us(t.work_s),
                    mean_us(t.back_s)});
  }
  return align_columns(rows, 1);
}

std::string disk_table(const Validation& v) {
  std::vector<Row> rows = {{"disk, ms a read", "reads", "p10", "p50", "p90"}};
  for (const ReadTimes& size : v.disk) {
    const SampleStatistics s = statistics_of(size.seconds);
    rows.push_back({to_string(Bytes(static_cast<double>(size.bytes))), std::to_string(s.count),
                    fixed(s.p10 * 1e3, 3), fixed(s.median * 1e3, 3), fixed(s.p90 * 1e3, 3)});
  }
  return align_columns(rows, 1);
}

/// What the CPU took before runs over what the profile says.
std::string cpu_table(const Validation& v) {
  std::vector<Row> rows = {{"CPU before each run, seconds over the profile's", "runs", "p10", "p50", "p90"}};
  const auto add = [&](const std::string& what, const std::vector<double>& ratios) {
    const SampleStatistics s = statistics_of(ratios);
    rows.push_back({what, std::to_string(s.count), fixed(s.p10, 2), fixed(s.median, 2), fixed(s.p90, 2)});
  };
  for (const auto& [what, ratios] : v.cpu_ratios) add(what, ratios);
  if (!v.hand_over_ratios.empty()) add("hand-over (in no prediction)", v.hand_over_ratios);
  if (!v.reading_ratios.empty()) add("decompression, experts beside reads, over alone", v.reading_ratios);
  return align_columns(rows, 1);
}

struct Overall {
  Ordering ordering;
  std::vector<double> correlations;
};
Overall overall(const Validation& v) {
  Overall all;
  for (const ValidationGroup& group : v.groups()) {
    all.ordering.add(group.ordering);
    if (group.rank_correlation) all.correlations.push_back(*group.rank_correlation);
  }
  return all;
}

/// Points whose times say nothing, and why: the first few by name.
std::string noisy_lines(const Validation& v) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  std::size_t named = 0;
  for (const ValidationPoint& p : v.points)
    if (p.too_noisy() && named++ < kNamed)
      text += "TOO NOISY TO SAY: " + p.codec + ", " + to_string(p.budget) + ", " + std::to_string(p.threads) +
              " threads, " + p.system + ": " + p.disturbance.too_noisy() + "\n";
  if (named > kNamed)
    text += "TOO NOISY TO SAY: " + std::to_string(named - kNamed) + " more of " +
            std::to_string(v.points.size()) +
            " points; a machine that other programs keep busy cannot be validated\n";
  return text;
}

std::string errors_clause(const Validation& v) {
  const std::size_t noisy = v.too_noisy();
  if (noisy == v.points.size() && noisy > 0) return "too noisy to say, at every point";
  const ErrorSummary layers = v.layer_error(), tpot = v.tpot_error();
  return "layer makespan off by " + percent(layers.median) + " % (median of " + std::to_string(layers.count) +
         "; bias " + signed_percent(layers.bias) + " %), TPOT by " + percent(tpot.median) + " % (of " +
         std::to_string(tpot.count) + (tpot.count == 1 ? " point" : " points") +
         (noisy > 0 ? ", " + std::to_string(noisy) + " more too noisy to say" : "") + ")";
}

std::string summary_line(const Validation& v) {
  const Overall all = overall(v);
  return v.device + ", " + v.storage + ": " + errors_clause(v) + "; rank correlation of systems " +
         (all.correlations.empty() ? "-" : fixed(summarize(all.correlations).p50, 2)) +
         " (median), order agrees in " + std::to_string(all.ordering.agreeing) + " of " +
         std::to_string(all.ordering.clear) + " clear pairs of " + std::to_string(all.ordering.pairs) +
         "; hits and bytes " + (v.same_work() ? "equal" : "NOT EQUAL") + "\n";
}

std::string differences(const Validation& v) {
  std::string text;
  for (const ValidationPoint& p : v.points) {
    if (p.same_work()) continue;
    text += "NOT THE SAME WORK: " + p.codec + ", " + to_string(p.budget) + ", " + std::to_string(p.threads) +
            " threads, " + p.system + ": " +
            (!p.difference.empty() ? p.difference
             : p.predicted_hits != p.measured_hits
                 ? "other hits"
                 : std::to_string(p.named_bytes) + " bytes to read by the simulator, " +
                       std::to_string(p.read_bytes) + " read") +
            "\n";
  }
  return text;
}

Json json_of(const ErrorSummary& e) {
  return {{"count", e.count}, {"median", e.median}, {"p90", e.p90}, {"bias", e.bias}};
}
Json json_of(const Ordering& o) {
  return {{"pairs", o.pairs}, {"clear", o.clear}, {"agreeing", o.agreeing}};
}
Json json_of(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const ServingPoint& s) {
  const auto times = [](const ServedTimes& t) {
    return Json{{"ttft_s", t.ttft}, {"tpot_s", t.tpot}, {"end_to_end_s", t.end_to_end}};
  };
  return {{"over_time", s.over_time},
          {"answered", s.answered},
          {"predicted", times(s.predicted)},
          {"measured", times(s.measured)},
          {"steps", s.counts.steps},
          {"predicted_steps", s.predicted_steps},
          {"rows", s.counts.rows},
          {"recomputed", s.counts.recomputed},
          {"swapped_out", s.counts.swapped_out},
          {"dropped", s.counts.dropped},
          {"most_blocks", s.counts.most_blocks},
          {"swap_out_bytes", s.counts.swap_out_bytes},
          {"swap_in_bytes", s.counts.swap_in_bytes}};
}

Json json_of(const Disturbance& d) {
  const bool watched = d.others_cores().has_value();
  return {{"others_cores", json_of(d.others_cores())},
          {"idle_cores", watched ? Json(d.idle / d.watched) : Json(nullptr)},
          {"speed_change", d.speed_change},
          {"too_noisy", !d.too_noisy().empty()},
          {"why", d.too_noisy()}};
}

Json json_of(const ValidationPoint& p) {
  return {{"codec", p.codec},
          {"budget_bytes", p.budget.value()},
          {"threads", p.threads},
          {"system", p.system},
          {"predicted_layer_s", p.predicted_layers},
          {"measured_layer_s", p.measured_layers},
          {"layer_error",
           p.too_noisy() ? Json(nullptr) : json_of(errors_of(p.predicted_layers, p.measured_layers))},
          {"predicted_tpot_s", p.predicted_tpot},
          {"measured_tpot_s", p.measured_tpot},
          {"predicted_hits", p.predicted_hits},
          {"measured_hits", p.measured_hits},
          {"simulated_bytes", p.simulated_bytes},
          {"named_bytes", p.named_bytes},
          {"read_bytes", p.read_bytes},
          {"loaded", p.loaded},
          {"on_cpu", p.on_cpu},
          {"substituted", p.substituted},
          {"windowed", p.windowed},
          {"streamed_bytes", {{"loaded", p.streamed.loaded}, {"decoded", p.streamed.decoded}}},
          {"layers_streamed", p.layers_streamed},
          {"requests", json_of(p.serving)},
          {"disturbance", json_of(p.disturbance)},
          {"same_work", p.same_work()},
          {"difference", p.difference}};
}

Json json_of(const OperationKey& key, const OperationTimes& times, const std::optional<ErrorSummary>& error) {
  const auto& [kind, codec, threads] = key;
  const auto side = [](const std::vector<double>& seconds) {
    const Summary s = summarize(seconds);
    return Json{{"sum_s", sum(seconds)}, {"p50_s", s.p50}, {"p90_s", s.p90}};
  };
  return {{"kind", to_string(kind)},
          {"codec", codec},
          {"threads", threads},
          {"number", times.measured.size()},
          {"predicted", side(times.predicted)},
          {"measured", side(times.measured)},
          {"error", error ? json_of(*error) : Json(nullptr)}};
}

Json hand_offs_json(const Validation& v) {
  Json all = Json::array();
  for (std::size_t r = 0; r < v.hand_offs.size() && r < v.resources.size(); ++r)
    all.push_back({{"resource", v.resources[r]},
                   {"operations", v.hand_offs[r].operations},
                   {"out_s", v.hand_offs[r].out_s},
                   {"work_s", v.hand_offs[r].work_s},
                   {"back_s", v.hand_offs[r].back_s}});
  return all;
}

}  // namespace

std::string validation_table(const Validation& v) {
  std::string text = v.scenario + " (" + v.model + ") on " + v.device + "; storage " + v.storage + "\n";
  for (const std::string& warning : v.warnings) text += "WARNING: " + warning + "\n";
  for (const std::string& note : v.notes) text += "note: " + note + "\n";
  text += "\n" + points_table(v) + "\n" + requests_table(v) + decisions_table(v) + windows_table(v) +
          operations_table(v) + "\n" + hand_offs_table(v) + "\n";
  if (!v.disk.empty()) text += disk_table(v) + "\n";
  if (!v.cpu_ratios.empty()) text += cpu_table(v) + "\n";
  return text + noisy_lines(v) + differences(v) + summary_line(v);
}

std::string validation_json(const Validation& v) {
  Json points = Json::array(), operations = Json::array(), groups = Json::array(), disk = Json::array();
  for (const ValidationPoint& point : v.points) points.push_back(json_of(point));
  const std::map<OperationKey, OperationTimes> quiet = v.quiet_operations();
  for (const auto& [key, times] : v.operations())
    operations.push_back(json_of(key, times, error_of(quiet, key)));
  for (const ValidationGroup& g : v.groups())
    groups.push_back({{"codec", g.codec},
                      {"budget_bytes", g.budget.value()},
                      {"threads", g.threads},
                      {"rank_correlation", json_of(g.rank_correlation)},
                      {"ordering", json_of(g.ordering)}});
  for (const ReadTimes& size : v.disk) {
    const SampleStatistics s = statistics_of(size.seconds);
    disk.push_back({{"bytes", size.bytes},
                    {"reads", s.count},
                    {"p10_s", s.p10},
                    {"p50_s", s.median},
                    {"p90_s", s.p90},
                    {"variation", s.variation}});
  }
  const Json all = {{"format", "moelab-validation"},
                    {"format_version", 1},
                    {"scenario", v.scenario},
                    {"model", v.model},
                    {"device", v.device},
                    {"storage", v.storage},
                    {"warnings", v.warnings},
                    {"notes", v.notes},
                    {"layer_error", json_of(v.layer_error())},
                    {"tpot_error", json_of(v.tpot_error())},
                    {"too_noisy_points", v.too_noisy()},
                    {"ordering", json_of(overall(v).ordering)},
                    {"same_work", v.same_work()},
                    {"groups", groups},
                    {"operations", operations},
                    {"dispatch_s", v.dispatch_s},
                    {"hand_overs", hand_offs_json(v)},
                    {"disk", disk},
                    {"cpu_ratios", v.cpu_ratios},
                    {"hand_over_ratios", v.hand_over_ratios},
                    {"reading_ratios", v.reading_ratios},
                    {"points", points}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab
