#include "cli/explain_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <sstream>

#include "cli/layer_table.hpp"
#include "cli/wrapped_text.hpp"
#include "models/json.hpp"
#include "sim/results/cause_words.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

constexpr std::size_t kBar = 30;          // columns of a whole one
constexpr std::size_t kMostKeys = 30;     // differences of scenarios that are listed
constexpr std::size_t kWidestValue = 40;  // of these
constexpr double kLeastShare = 0.0005;    // of a cause that is shown: it rounds to 0.1 %
constexpr double kWorse = 0.995;          // times as fast: it is shown as less than 1
constexpr double kLeastPromptGain = 1.02;
constexpr double kLeastWords = 0.02;  // of a gap that is worth a word

/// A bar as long as the share of a whole one, to an eighth of a column.
std::string bar(double share) {
  static constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double most = 8.0 * static_cast<double>(kBar);
  const auto eighths = static_cast<std::size_t>(std::clamp(std::round(share * most), 0.0, most));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kParts[eighths % 8];
}

struct Chart {
  std::vector<std::vector<std::string>> rows;
  std::vector<double> shares;  // a bar behind each row but the first
};

/// Rows with their bars, whose characters of several bytes no aligned column may have.
std::string draw(const Chart& chart, std::size_t left = 1) {
  std::vector<std::vector<std::string>> rows = chart.rows;
  for (auto& row : rows) row.emplace_back("|");
  std::istringstream lines(align_columns(rows, left));
  std::string out, line;
  for (std::size_t i = 0; std::getline(lines, line); ++i) {
    line.pop_back();
    line += i == 0 ? "" : bar(chart.shares[i - 1]);
    out += "  " + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string ms(double seconds) {
  const double value = 1e3 * seconds;
  return fixed(value, value < 10 ? 3 : 1);
}
std::string ms(const std::optional<double>& seconds) {
  return seconds ? ms(*seconds) : "-";
}
/// 1.23, or how many times in round figures.
std::string times(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return fixed(ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0);
}
/// How many times as fast as before.
double faster(const ResultFile& before, const ResultFile& after) {
  const bool by_tokens = before.tpot_s && after.tpot_s;
  return (by_tokens ? *before.tpot_s : before.wall_s) / (by_tokens ? *after.tpot_s : after.wall_s);
}

/// Sentences, in lines that fit the terminal.
std::string said(const std::string& sentences) {
  return wrapped_lines(sentences, line_width());
}

std::string speed_words(const ResultFile& r) {
  std::string text = r.tpot_s ? ms(*r.tpot_s) + " ms a token after the first (TPOT), " : "";
  return text + "first token after " + fixed(r.ttft_s, 2) + " s, " + fixed(r.tokens_per_s, 2) +
         " tokens/s, " + std::to_string(r.tokens) + " tokens";
}

/// Whether this program gives the result that the file holds.
std::string again_words(const Explanation& e) {
  if (e.changed.empty()) return "Simulated again: every figure is the same.\n";
  std::string text = "Simulated again, " + std::to_string(e.changed.size()) +
                     " figures are not those of the file; what follows is of the new ones.\n";
  if (e.version != e.given.version)
    text += "  It was written by moelab " + e.given.version + ", this is " + e.version + ".\n";
  for (const std::string& file : e.changed_data) text += "  The data has changed: " + one_line(file) + "\n";
  if (e.version == e.given.version && e.changed_data.empty())
    text += "  Version and data are the same: the file was changed, or another build wrote it.\n";
  constexpr std::size_t kMostFigures = 5;
  for (std::size_t i = 0; i < std::min(kMostFigures, e.changed.size()); ++i) {
    const ChangedFigure& c = e.changed[i];
    std::ostringstream line;
    line.precision(10);
    line << "  " << c.path << ": " << c.was << " in the file, " << c.is << " now";
    text += line.str() + "\n";
  }
  return text;
}

/// What seconds_a_token() are of: "ms of the run a token".
std::string of_time_words(const ResultFile& r) {
  return !r.latency_s.empty() ? "ms of latencies a token" : "ms of the run a token";
}

/// How the time is told by its causes, and how much there is of it.
std::string counted_words(const ResultFile& r, double seconds_a_token) {
  const std::string how =
      r.latency_s.empty()
          ? " % of " + (r.stalls_of.empty() ? "the run's time" : "the time of " + one_line(r.stalls_of)) +
                ", prompts included.\nEvery instant counts for the operation that all waited "
                "for. The run's time over all generated tokens is "
          : " % of the requests' latencies, prompts included.\nBefore a request is begun it waits for a "
            "server "
            "that is away or in the queue; from then on every instant counts for the operation that all "
            "waited "
            "for. The latencies of all requests that were answered, added up, over all generated tokens are ";
  return how + ms(seconds_a_token) + " ms; TPOT leaves out the time to first tokens.\n";
}

std::string bounds_text(const Explanation& e) {
  auto causes = seconds_a_token(e.again);
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (causes.empty()) return "It took no time.\n\n";  // on a device that takes none for anything
  double all = 0;
  for (const auto& [cause, seconds] : causes) all += seconds;
  Chart chart{{{"on the critical path", of_time_words(e.again), "%"}}, {}};
  for (const auto& [cause, seconds] : causes) {
    if (seconds < kLeastShare * all) continue;
    chart.rows.push_back({words_of_cause(cause), ms(seconds), percent(seconds, all)});
    chart.shares.push_back(seconds / all);
  }
  return said("What bounds it: " + words_of_cause(causes.front().first) + ", " +
              percent(causes.front().second, all) + counted_words(e.again, all)) +
         "\n" + draw(chart) + "\n";
}

std::string slots_words(double slots) {
  if (slots == 1) return "";
  return std::isfinite(slots) ? " (" + fixed(slots, 0) + ")" : " (any number)";
}

/// What "fast" is said of.
std::string judged_words(const ResultFile& r) {
  return r.tpot_s ? " for a token after the first" : "";
}

/// Whose speed the first token waits for, where that is another kind than `best`.
std::string prompt_words(const Explanation& e, const FreedResource& best) {
  const auto first = std::min_element(
      e.freed.begin(), e.freed.end(),
      [](const FreedResource& a, const FreedResource& b) { return a.result.ttft_s < b.result.ttft_s; });
  const double gain = e.again.ttft_s / first->result.ttft_s;
  if (!e.again.tpot_s || first->kind == best.kind || !(gain > kLeastPromptGain)) return "";
  return "\nThe first token waits most for '" + first->kind + "': " + times(gain) + " times as fast at best.";
}

/// How much of the run's time a free kind saves, beside the share that waited for it where it is what bounds
/// the run: what was done beside it is waited for then.
std::string saved_words(const Explanation& e, const FreedResource& best) {
  const double saved = 1 - best.result.wall_s / e.again.wall_s;
  if (!(saved >= kLeastShare)) return "";
  std::string text = " The run takes " + percent(saved, 1) + " % less time then";
  if (e.again.on_cluster) return text + ".";  // causes are of its requests' latencies
  double waited = 0, all = 0;
  for (const auto& [cause, seconds] : seconds_a_token(e.again)) {
    all += seconds;
    if (cause == best.kind) waited += seconds;
  }
  if (waited / all - saved >= kLeastShare)
    text += ", not the " + percent(waited, all) + " % that wait for " + words_of_cause(best.kind) +
            ": what was done beside that is waited for then";
  return text + ".";
}

std::string help_words(const Explanation& e) {
  const FreedResource& best = e.freed.front();
  const double gain = faster(e.again, best.result);
  if (std::isfinite(gain) && gain <= 1) return "What would help: no kind of resources alone, however fast.\n";
  return "What would help: a faster '" + best.kind + "' brings most, " +
         (std::isfinite(gain) ? times(gain) + " times as fast at best" + judged_words(e.again) + "."
                              : "all of the time at best.") +
         saved_words(e, best) + prompt_words(e, best) + "\n";
}

std::string free_text(const Explanation& e) {
  if (e.freed.empty()) return "";
  Chart chart{{{"one kind infinitely fast", "busy %", "TPOT ms", "TTFT s", "tokens/s", "end-to-end s",
                "times as fast"}},
              {}};
  const auto figures = [](const ResultFile& r) {
    return std::vector<std::string>{ms(r.tpot_s), fixed(r.ttft_s, 2), fixed(r.tokens_per_s, 2),
                                    fixed(r.end_to_end_s, 2)};
  };
  const auto add = [&](std::vector<std::string> row, const ResultFile& r, double gain) {
    const auto more = figures(r);
    row.insert(row.end(), more.begin(), more.end());
    row.push_back(times(gain));
    chart.rows.push_back(std::move(row));
  };
  double most = 1;
  for (const FreedResource& f : e.freed)
    if (const double gain = faster(e.again, f.result); std::isfinite(gain)) most = std::max(most, gain);
  add({"as it is", ""}, e.again, 1);
  chart.shares.push_back(1 / most);
  for (const FreedResource& f : e.freed) {
    const double gain = faster(e.again, f.result);
    const double busy = std::isfinite(f.slots) ? f.busy_s / f.slots : 0;
    add({f.kind + slots_words(f.slots), std::isfinite(f.slots) ? percent(busy, e.again.wall_s) : "-"},
        f.result, gain);
    chart.shares.push_back(std::isfinite(gain) ? gain / most : 1);
  }
  std::string text =
      said(help_words(e) +
           "Simulated with the work of one kind of resources taking no time, policies and plans as "
           "they were; in brackets how many there are of a kind.\n") +
      "\n";
  text += draw(chart);
  if (faster(e.again, e.freed.back().result) < kWorse)
    text += "  Below 1: what is ready starts, and with a part faster the order that comes of it is worse.\n";
  return text + "\n";
}

double share_in(const ResultFile& r, State state) {
  const double all =
      static_cast<double>(std::accumulate(r.decode_hits.begin(), r.decode_hits.end(), std::uint64_t{0}));
  return all > 0 ? static_cast<double>(r.decode_hits[index(state)]) / all : 0;
}

const ResultFile* reference_of(const Explanation& e, const std::string& policy) {
  for (const CacheReference& r : e.references)
    if (r.policy == policy && r.result) return &*r.result;
  return nullptr;
}

std::string regret_words(const Explanation& e) {
  const ResultFile* const best = reference_of(e, "belady");
  if (best == nullptr) return "";
  const double points = 100 * (share_in(*best, State::F) - share_in(e.again, State::F));
  std::string text =
      "Regret of '" + e.cache + "' against belady: " + fixed(points, 1) + " points of experts found full";
  if (e.again.tpot_s && best->tpot_s)
    text += ", " + ms(*e.again.tpot_s - *best->tpot_s) + " ms of TPOT (" + times(faster(e.again, *best)) +
            " times as fast with belady)";
  return text + ".\n";
}

std::string cache_text(const Explanation& e) {
  if (e.references.empty())
    return said(
               "There is no regret of a cache: the system does not keep experts by a cache policy, it places "
               "or "
               "pages them whole layers at a time.\n") +
           "\n";
  std::vector<std::vector<std::string>> rows = {{"the cache, while decoding, % of experts used", "full",
                                                 "in parts", "missing", "SSD GB", "TPOT ms",
                                                 "times as fast"}};
  const auto add = [&](const std::string& name, const ResultFile& r) {
    const double full = share_in(r, State::F), missing = share_in(r, State::M);
    rows.push_back({name, fixed(100 * full, 1), fixed(100 * std::max(0.0, 1 - full - missing), 1),
                    fixed(100 * missing, 1), fixed(r.bytes[static_cast<std::size_t>(Tier::ssd)] / 1e9, 1),
                    ms(r.tpot_s), times(faster(e.again, r))});
  };
  add(e.cache + " (as it is)", e.again);
  std::string refused;
  for (const CacheReference& r : e.references)
    if (r.result)
      add(r.policy, *r.result);
    else
      refused += one_line("No run with '" + r.policy + "': " + r.refused + ".") + "\n";
  std::istringstream lines(rows.size() > 1 ? align_columns(rows, 1) : "");
  std::string out = said(regret_words(e) + refused) + "\n";
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out + "\n";
}

/// How far the answer moves over the range in which the routing is known.
std::string routing_text(const Explanation& e) {
  if (!e.routing) return "";
  const auto time = [](const ResultFile& r) {
    return r.tpot_s ? ms(*r.tpot_s) + " ms a token after the first" : fixed(r.wall_s, 2) + " s";
  };
  const RoutingRange& range = *e.routing;
  const std::string points = fixed(100 * range.points, 0);
  return said("How well the routing is known: " + range.routing +
              ". With LRU's hit rate (places for a quarter of the experts) " + points +
              " points lower it takes " + time(range.lower) + ", " + points + " points higher " +
              time(range.higher) + ".\n") +
         "\n";
}

std::string shortened(const std::string& value) {
  if (value.empty()) return "(none)";
  return value.size() <= kWidestValue ? value : value.substr(0, kWidestValue - 3) + "...";
}

/// What was asked differently. Names and where numbers are from come last.
std::string keys_text(const ExplainedResult& x) {
  const Comparison& c = *x.comparison;
  const std::string &executor = x.explanation.given.executor, &other = x.other->executor;
  std::string out;
  if (executor != other) out = one_line("  executor: " + executor + " -> " + other) + "\n";
  if (c.keys.empty() && c.data.empty()) return out + "  The scenarios are the same.\n";
  const auto is_text = [](const KeyDifference& d) {
    for (const char* key : {"source", "title", "name", "question", "provenance"})
      if (d.path == key || d.path.ends_with("." + std::string(key))) return true;
    return false;
  };
  std::vector<KeyDifference> keys = c.keys;
  std::stable_partition(keys.begin(), keys.end(), [&](const KeyDifference& d) { return !is_text(d); });
  for (std::size_t i = 0; i < std::min(kMostKeys, keys.size()); ++i)
    out += "  " + one_line(keys[i].path + ": " + shortened(keys[i].a) + " -> " + shortened(keys[i].b)) + "\n";
  if (keys.size() > kMostKeys)
    out += "  and " + std::to_string(keys.size() - kMostKeys) + " more (--format json lists all)\n";
  for (const std::string& file : c.data) out += "  other data: " + one_line(file) + "\n";
  return out;
}

/// "Of the 30.1 ms between them: 62 % decompression, 42 % SSD reads; the other way: 4 % dense layers".
std::string gap_words(const Comparison& c) {
  const double gap = c.a_s - c.b_s;
  std::string less, more;
  for (const CauseDifference& d : c.causes) {
    const double share = (d.a_s - d.b_s) / gap;
    if (std::abs(share) < kLeastWords) continue;
    std::string& list = share > 0 ? less : more;
    list += (list.empty() ? "" : ", ") + fixed(100 * std::abs(share), 0) + " % " + words_of_cause(d.cause);
  }
  return "Of the " + ms(std::abs(gap)) + " ms between them: " + less +
         (more.empty() ? "" : "; the other way: " + more);
}

std::string comparison_words(const ExplainedResult& x) {
  const ResultFile &a = x.explanation.given, &b = *x.other;
  const Comparison& c = *x.comparison;
  const std::string name = one_line("'" + b.system + "' of " + b.file);
  if (c.a_s == c.b_s) return name + " takes the same time for a token.\n";
  const bool quicker = c.b_s < c.a_s;
  std::string text = name + " is " + times(quicker ? c.a_s / c.b_s : c.b_s / c.a_s) + " times as " +
                     (quicker ? "fast" : "slow") + ": " + ms(c.b_s) + " instead of " + ms(c.a_s) + " " +
                     of_time_words(b) + ", prompts included.\n" + gap_words(c) + ".\n";
  if (a.tokens != b.tokens)
    text += "The workloads differ: " + std::to_string(a.tokens) + " and " + std::to_string(b.tokens) +
            " tokens.\n";
  return text;
}

std::string comparison_text(const ExplainedResult& x) {
  if (!x.other) return "";
  if (!x.comparison)
    return one_line("There is nothing to compare: '" + x.other->system + "' of " + x.other->file +
                    " or this one answered no request.") +
           "\n";
  const Comparison& c = *x.comparison;
  const ResultFile &a = x.explanation.given, &b = *x.other;
  std::vector<std::vector<std::string>> rows = {{of_time_words(b), "this", "other", "difference"}};
  for (const CauseDifference& d : c.causes)
    if (std::abs(d.a_s - d.b_s) >= kLeastShare * std::max(c.a_s, c.b_s))
      rows.push_back({words_of_cause(d.cause), ms(d.a_s), ms(d.b_s),
                      (d.b_s < d.a_s ? "-" : "+") + ms(std::abs(d.a_s - d.b_s))});
  rows.push_back({"all", ms(c.a_s), ms(c.b_s), (c.b_s < c.a_s ? "-" : "+") + ms(std::abs(c.a_s - c.b_s))});
  rows.push_back({"", "", "", ""});
  rows.push_back({"experts found full, %", fixed(100 * share_in(a, State::F), 1),
                  fixed(100 * share_in(b, State::F), 1), ""});
  rows.push_back({"experts missing, %", fixed(100 * share_in(a, State::M), 1),
                  fixed(100 * share_in(b, State::M), 1), ""});
  for (const Tier t : {Tier::ssd, Tier::page_cache, Tier::host}) {
    const double of_a = a.bytes[static_cast<std::size_t>(t)], of_b = b.bytes[static_cast<std::size_t>(t)];
    if (of_a + of_b > 0)
      rows.push_back(
          {"read, GB, " + std::string(to_string(t)), fixed(of_a / 1e9, 1), fixed(of_b / 1e9, 1), ""});
  }
  std::istringstream lines(align_columns(rows, 1));
  std::string out = said("Against the other result: " + comparison_words(x)) + "\n";
  for (std::string line; std::getline(lines, line);) out += (line.empty() ? "" : "  " + line) + "\n";
  return out + "\nWhat was asked differently:\n" + keys_text(x) + "\n";
}

using Json = nlohmann::ordered_json;

Json speed_json(const ResultFile& r) {
  return {{"tpot_s", r.tpot_s ? Json(*r.tpot_s) : Json(nullptr)},
          {"ttft_s", r.tokens > 0 ? Json(r.ttft_s) : Json(nullptr)},
          {"throughput_tokens_per_s", r.tokens_per_s},
          {"end_to_end_s", r.tokens > 0 ? Json(r.end_to_end_s) : Json(nullptr)},
          {"wall_s", r.wall_s}};
}

/// null for what is no number: JSON has none.
Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json cache_json(const Explanation& e) {
  Json references = Json::array();
  for (const CacheReference& r : e.references) {
    Json one = {{"policy", r.policy}};
    if (!r.result) {
      one["refused"] = r.refused;
    } else {
      one["found_full"] = share_in(*r.result, State::F);
      one["missing"] = share_in(*r.result, State::M);
      one["times_as_fast"] = number_json(faster(e.again, *r.result));
      one.update(speed_json(*r.result));
    }
    references.push_back(one);
  }
  return {{"policy", e.cache.empty() ? Json(nullptr) : Json(e.cache)},
          {"found_full", share_in(e.again, State::F)},
          {"missing", share_in(e.again, State::M)},
          {"references", references}};
}

Json comparison_json(const ExplainedResult& x) {
  const Comparison& c = *x.comparison;
  Json causes, keys = Json::array();
  for (const CauseDifference& d : c.causes)
    causes[d.cause] = {{"this_s", d.a_s},
                       {"other_s", d.b_s},
                       {"share_of_gap", number_json((d.a_s - d.b_s) / (c.a_s - c.b_s))}};
  for (const KeyDifference& d : c.keys) {
    const auto value = [](const std::string& text) {
      return text.empty() ? Json(nullptr) : Json::parse(text);
    };
    keys.push_back({{"path", d.path}, {"this", value(d.a)}, {"other", value(d.b)}});
  }
  return {{"file", x.other->file},
          {"system", x.other->system},
          {"executor", x.other->executor},
          {"seconds_a_token", {{"this", c.a_s}, {"other", c.b_s}}},
          {"causes", causes},
          {"scenario", keys},
          {"data", c.data}};
}

Json again_json(const Explanation& e) {
  Json changed = Json::array();
  for (const ChangedFigure& c : e.changed)
    changed.push_back({{"figure", c.path}, {"was", number_json(c.was)}, {"is", c.is}});
  Json again = {{"same", e.changed.empty()},
                {"changed", changed},
                {"changed_data", e.changed_data},
                {"version", e.version}};
  again.update(speed_json(e.again));
  return again;
}

Json explanation_json(const ExplainedResult& x) {
  const Explanation& e = x.explanation;
  Json j = {{"file", e.given.file},         {"scenario", e.given.scenario}, {"system", e.given.system},
            {"executor", e.given.executor}, {"version", e.given.version},   {"ran", e.ran}};
  if (!e.ran) return j;
  j["again"] = again_json(e);
  double all = 0;
  const auto causes = seconds_a_token(e.again);
  for (const auto& [cause, seconds] : causes) all += seconds;
  for (const auto& [cause, seconds] : causes) j["critical_path"][cause] = seconds / all;
  if (!e.again.stalls_of.empty()) j["critical_path_of"] = e.again.stalls_of;
  j["infinitely_fast"] = Json::array();
  for (const FreedResource& f : e.freed) {
    Json one = {{"resource", f.kind},
                {"slots", number_json(f.slots)},
                {"busy", number_json(f.busy_s / (std::isfinite(f.slots) ? f.slots : 1) / e.again.wall_s)},
                {"times_as_fast", number_json(faster(e.again, f.result))}};
    one.update(speed_json(f.result));
    j["infinitely_fast"].push_back(one);
  }
  j["cache"] = cache_json(e);
  if (e.routing)
    j["routing"] = {{"source", e.routing->routing},
                    {"points", e.routing->points},
                    {"lower", speed_json(e.routing->lower)},
                    {"higher", speed_json(e.routing->higher)}};
  if (x.comparison) j["compared_with"] = comparison_json(x);
  return j;
}

}  // namespace

std::string explanation_text(const ExplainedResult& x) {
  const Explanation& e = x.explanation;
  std::string text =
      one_line(e.given.scenario + ", system " + e.given.system + ", executor " + e.given.executor) + "\n";
  if (!e.ran)
    return text + (e.given.wall_s > 0 ? "No request was answered" : "It does not fit and is not run") +
           ": there is nothing to explain.\n" + comparison_text(x);
  text += said(speed_words(e.again) + ". " + again_words(e)) + "\n";
  return text + bounds_text(e) + free_text(e) + cache_text(e) + routing_text(e) + comparison_text(x);
}

std::string explanations_json(const std::vector<ExplainedResult>& explained) {
  Json systems = Json::array();
  for (const ExplainedResult& x : explained) systems.push_back(explanation_json(x));
  return Json{{"systems", systems}}.dump(2) + "\n";
}

}  // namespace moelab::cli
