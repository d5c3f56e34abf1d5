#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "models/stored_weights.hpp"
#include "sim/results/cause_words.hpp"
#include "sim/results/cluster_table.hpp"
#include "sim/results/instances_table.hpp"
#include "sim/results/latency_causes.hpp"
#include "sim/results/latency_table.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/serving_picture.hpp"
#include "sim/results/speed_table.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_report.hpp"
#include "sim/results/text_table.hpp"
#include "sim/results/token_cost_table.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {
namespace {

/// Systems to which requests come when they come.
std::vector<const RunResult*> results_under_load(const Scenario& scenario,
                                                 const std::vector<RunResult>& results) {
  std::vector<const RunResult*> under_load;
  for (const RunResult& r : results)
    for (const SystemConfig& system : scenario.systems)
      if (system.name == r.system && !come_in_turn(scenario, system)) under_load.push_back(&r);
  return under_load;
}

/// Whether the system keeps experts at all.
bool caches(const Scenario& scenario, const std::string& name) {
  return std::none_of(scenario.systems.begin(), scenario.systems.end(), [&](const SystemConfig& system) {
    return system.name == name && system.cache.name == "none";
  });
}

/// Whether a discrete GPU's experts came from the SSD, the host's memory being too small for them, or a
/// window's backend.
bool read_from_ssd(const std::vector<RunResult>& results) {
  return std::any_of(results.begin(), results.end(), [](const RunResult& r) {
    return r.memory.experts_on_ssd || r.metrics.serving.ssd_bytes > 0;
  });
}

/// Where one memory holds all: of every system; beside a discrete GPU: of those that keep planes there.
TextTable hits_table(const Scenario& scenario, const std::vector<RunResult>& results) {
  const bool linked = scenario.device.is_discrete();
  std::vector<std::vector<std::string>> rows = {
      {"found in state, % of experts used while decoding", "F", "C", "S", "E", "missing"}};
  std::vector<std::pair<Tier, const char*>> tiers;
  if (!linked || read_from_ssd(results)) tiers.emplace_back(Tier::ssd, "SSD GB");
  tiers.emplace_back(linked ? std::pair{Tier::host, "link GB"}
                            : std::pair{Tier::page_cache, "page cache GB"});
  for (const auto& [tier, title] : tiers) rows.front().push_back(title);
  rows.front().push_back("cache GB");
  const auto gigabytes = [](const RunResult& r, Tier tier) {
    return three_digits(r.metrics.bytes[static_cast<std::size_t>(tier)] / 1e9, 1);
  };
  for (const RunResult& r : results) {
    if (!r.counted.lookups || r.paged || r.memory.shortfall > Bytes(0) || (linked && r.counted.execution))
      continue;
    double all = 0;
    for (const std::uint64_t n : r.metrics.decode_hits) all += static_cast<double>(n);
    std::vector<std::string> row = {r.system};
    for (const std::uint64_t n : r.metrics.decode_hits) row.push_back(percent(static_cast<double>(n), all));
    for (const auto& [tier, title] : tiers) row.push_back(gigabytes(r, tier));
    row.push_back(caches(scenario, r.system) ? three_digits(r.memory.expert_cache.value() / 1e9, 2) : "-");
    rows.push_back(std::move(row));
  }
  return {rows};
}

/// With a discrete GPU: where the experts used while decoding were, who made ready what was missing, and what
/// was changed for that. Of systems that keep experts whole.
TextTable gpu_table(const Scenario& scenario, const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"experts used while decoding, %", "on the GPU", "prefetch late", "loaded", "by the CPU"}};
  const bool ssd = read_from_ssd(results);
  for (const char* title : {"SSD GB", "link GB", "cache GB"})
    if (ssd || title != std::string("SSD GB")) rows.front().push_back(title);
  for (const RunResult& r : results) {
    if (!r.counted.execution || r.memory.shortfall > Bytes(0)) continue;
    double all = 0;
    for (const std::uint64_t n : r.metrics.decode_hits) all += static_cast<double>(n);
    const auto on_gpu = static_cast<double>(r.metrics.decode_hits[index(State::F)]);
    const auto loaded = static_cast<double>(r.metrics.execution.loaded);
    const auto on_cpu = static_cast<double>(r.metrics.execution.on_cpu);
    std::vector<std::string> row = {r.system, percent(on_gpu, all),
                                    percent(all - on_gpu - loaded - on_cpu, all), percent(loaded, all),
                                    percent(on_cpu, all)};
    for (const Tier tier : {Tier::ssd, Tier::host})
      if (ssd || tier == Tier::host)
        row.push_back(three_digits(r.metrics.bytes[static_cast<std::size_t>(tier)] / 1e9, 1));
    row.push_back(caches(scenario, r.system) ? three_digits(r.memory.expert_cache.value() / 1e9, 2) : "-");
    rows.push_back(std::move(row));
  }
  return {rows};
}

/// Of windows by whose experts' numbers something goes: what was kept, what became of the experts that came,
/// and where from.
TextTable window_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"window, experts a step and layer", "used and kept",
                                                 "used and come", "in time", "late", "came unused",
                                                 "cancelled", "SSD TB", "page cache TB"}};
  for (const RunResult& r : results) {
    const Metrics& m = r.metrics;
    if (!r.paged || m.serving.steps == 0 || (!r.counted.lookups && m.serving.ssd_bytes == 0)) continue;
    const double layers = static_cast<double>(m.serving.steps) * static_cast<double>(m.layers.stall_s.size());
    const auto each = [&](std::uint64_t n) { return fixed(static_cast<double>(n) / layers, 1); };
    const auto if_known = [&](bool known, std::uint64_t n) { return known ? each(n) : std::string("-"); };
    const auto used = [&](State s) { return if_known(r.counted.lookups, m.hits[index(s)]); };
    const auto ahead = [&](std::uint64_t n) { return if_known(r.counted.prefetch, n); };
    const PrefetchCounts& p = m.prefetch;
    rows.push_back({r.system, used(State::F), used(State::M), ahead(p.used), ahead(p.late), ahead(p.unused),
                    ahead(p.cancelled), three_digits(m.serving.ssd_bytes / 1e12, 2),
                    three_digits(m.serving.page_cache_bytes / 1e12, 2)});
  }
  return {rows};
}

/// How the memory of each GPU was spent, of systems with pages.
TextTable paged_memory_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"memory of a GPU, GB", "experts", "window", "other weights",
                                                 "activations", "KV cache", "KV blocks", "host experts"}};
  const auto any = [&](Bytes MemoryPlan::*item) {
    return std::any_of(results.begin(), results.end(),
                       [item](const RunResult& r) { return r.paged && r.memory.*item > Bytes(0); });
  };
  const bool pins = any(&MemoryPlan::pinned), caches_pages = any(&MemoryPlan::page_cache);
  const bool drafts = any(&MemoryPlan::draft);
  if (pins) rows.front().emplace_back("pinned");
  if (caches_pages) rows.front().emplace_back("page cache");
  if (drafts) rows.front().emplace_back("draft");
  for (const RunResult& r : results) {
    if (!r.paged) continue;
    const auto gb = [](Bytes bytes) { return three_digits(bytes.value() / 1e9, 2); };
    const MemoryPlan& m = r.memory;
    rows.push_back({r.system, gb(m.expert_cache), gb(m.staging), gb(m.non_expert), gb(m.activations),
                    gb(m.kv_cache), std::to_string(m.kv_blocks), gb(m.host_experts)});
    if (pins) rows.back().push_back(gb(m.pinned));
    if (caches_pages) rows.back().push_back(gb(m.page_cache));
    if (drafts) rows.back().push_back(gb(m.draft));
  }
  return {rows};
}

/// What serving from KV caches in blocks came to.
TextTable serving_table(const Scenario& scenario, const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"serving, bytes of a GPU", "steps", "requests a step",
                                                 "KV peak %", "swapped out", "dropped", "swap GB",
                                                 "decoded TB", "loaded TB", "residency %"}};
  for (const RunResult& r : results) {
    const ServingCounts& c = r.metrics.serving;
    if (c.steps == 0) continue;
    const auto terabytes = [&](double bytes) { return r.paged ? three_digits(bytes / 1e12, 2) : "-"; };
    const auto& series = r.metrics.series.samples();
    rows.push_back({r.system, std::to_string(c.steps),
                    fixed(static_cast<double>(r.metrics.tokens) / static_cast<double>(c.steps), 1),
                    percent(c.most_kv_use, 1), std::to_string(c.swapped_out), std::to_string(c.dropped),
                    three_digits((c.swap_in_bytes + c.swap_out_bytes) / scenario.data_parallel / 1e9, 1),
                    terabytes(c.decoded_bytes), terabytes(c.loaded_bytes),
                    series.empty() ? "-" : fixed(100 * series.back().residency, 1)});
  }
  return {rows};
}

/// How evenly GPUs divide the experts, and what they exchange for them.
TextTable balance_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"experts over GPUs", "balancedness (mean / most)", "exchanged GB a GPU"}};
  for (const RunResult& r : results) {
    const ServingCounts& c = r.metrics.serving;
    if (c.most_pairs + c.exchanged_bytes == 0) continue;
    rows.push_back({r.system, c.most_pairs > 0 ? fixed(c.balancedness(), 3) : "-",
                    c.exchanged_bytes > 0 ? three_digits(c.exchanged_bytes / 1e9, 1) : "-"});
  }
  return {rows};
}

/// What could not be run for want of memory.
std::string shortfall_lines(const std::vector<RunResult>& results) {
  std::string out;
  for (const RunResult& r : results)
    if (r.memory.shortfall > Bytes(0))
      out += "system '" + r.system + "' does not fit: it needs " + to_string(r.memory.shortfall) + " more" +
             (r.paged ? " on each GPU than its budget of " + to_string(r.memory.budget)
                      : "; " + lacking_text(r)) +
             "\n";
  return out;
}

/// Whose experts the host's memory behind a discrete GPU is too small for.
std::string ssd_lines(const std::vector<RunResult>& results) {
  std::string out;
  for (const RunResult& r : results)
    if (r.memory.experts_on_ssd && r.memory.shortfall == Bytes(0))
      out += "system '" + r.system + "': host memory holds " + to_string(r.memory.page_cache) +
             " of experts, those read last; the others are on the SSD\n";
  return out;
}

/// What routing policies did while decoding.
TextTable routing_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"% of experts chosen while decoding", "low-score",
                                                 "substituted", "score moved", "top misses", "low misses"}};
  for (const RunResult& r : results) {
    const RoutingCounts& c = r.metrics.routing;
    if (c.active == 0) continue;
    const auto active = static_cast<double>(c.active);
    double experts = 0;
    for (const std::uint64_t n : r.metrics.decode_hits) experts += static_cast<double>(n);
    rows.push_back({r.system, percent(static_cast<double>(c.low_score), active),
                    percent(static_cast<double>(c.substituted), active), percent(c.mass_moved, c.score_sum),
                    percent(static_cast<double>(c.top_score_misses), experts),
                    percent(static_cast<double>(c.low_score_misses), experts)});
  }
  return {rows};
}

/// What answers are worth after substitution, as published.
TextTable quality_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const RunResult& r : results) {
    if (r.quality.datasets.empty()) continue;
    if (rows.empty()) {
      rows.push_back({"% right, from the paper, by alpha"});
      rows.push_back({"as the model chooses"});
      for (const DatasetAccuracy& d : r.quality.datasets) {
        rows[0].push_back(d.dataset);
        rows[1].push_back(fixed(d.unchanged, 1));
      }
    }
    rows.push_back({r.system});
    for (const DatasetAccuracy& d : r.quality.datasets) rows.back().push_back(fixed(d.expected, 1));
  }
  return {rows};
}

/// What speculative decoding came to.
TextTable speculation_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"speculation", "tokens a step", "drafted", "accepted", "acceptance %"}};
  for (const RunResult& r : results) {
    const SpeculationCounts& c = r.metrics.speculation;
    if (c.steps == 0) continue;
    rows.push_back(
        {r.system, fixed(c.tokens_a_step(), 2), std::to_string(c.drafted), std::to_string(c.accepted),
         c.judged == 0 ? "-" : percent(static_cast<double>(c.accepted), static_cast<double>(c.judged))});
  }
  return {rows};
}

/// What was fetched ahead.
TextTable prefetch_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"fetched ahead, % of experts", "experts", "in time", "late", "unused", "top-score", "wasted GB"}};
  for (const RunResult& r : results) {
    const PrefetchCounts& p = r.metrics.prefetch;
    if (p.fetched == 0) continue;
    const auto share = [&](std::uint64_t n) {
      return percent(static_cast<double>(n), static_cast<double>(p.fetched));
    };
    rows.push_back({r.system, std::to_string(p.fetched), share(p.used), share(p.late), share(p.unused),
                    r.metrics.routing.active > 0 ? share(p.used_top_score) : "-",
                    three_digits(p.wasted_bytes / 1e9, 1)});
  }
  return {rows};
}

constexpr std::array<std::string_view, kCauses> kCauseColumns = {
    "SSD",      "page cache", "decompress",     "recover",     "experts",     "dense",   "host",
    "prefetch", "load",       "load low",       "CPU experts", "activations", "predict", "reduce",
    "KV swap",  "network",    "remote experts", "recovery",    "exchange",    "drafting"};

/// A critical path of a run.
struct ShownPath {
  std::string system, of;  // "": the system's only one
  const std::array<double, kCauses>* stall_s;
  double wall_s;
};

/// Of several instances those of the busiest of each kind.
std::vector<ShownPath> shown_paths(const std::vector<RunResult>& results) {
  std::vector<ShownPath> paths;
  for (const RunResult& r : results) {
    const auto& servers = r.instances.servers;
    if (servers.size() < 2) paths.push_back({r.system, "", &r.metrics.stall_s, r.metrics.wall_s});
    if (servers.size() < 2) continue;
    bool first = true;
    for (const std::size_t place : r.instances.busiest()) {
      paths.push_back({first ? r.system : "", r.instances.busiest_words(place), &servers[place].stall_s,
                       r.metrics.wall_s});
      first = false;
    }
  }
  return paths;
}

/// The causes that took any time at all.
TextTable stall_table(const std::vector<RunResult>& results) {
  const std::vector<ShownPath> paths = shown_paths(results);
  std::vector<std::vector<std::string>> rows = {{"critical path, % of the time"}};
  for (const ShownPath& path : paths) rows.push_back({path.system});
  const bool apart = std::ranges::any_of(paths, [](const ShownPath& path) { return !path.of.empty(); });
  if (apart) {
    rows[0].emplace_back("of");
    for (std::size_t i = 0; i < paths.size(); ++i) rows[i + 1].push_back(paths[i].of);
  }
  for (std::size_t c = 0; c < kCauses; ++c) {
    if (std::ranges::all_of(paths, [&](const ShownPath& path) { return (*path.stall_s)[c] == 0; })) continue;
    rows[0].emplace_back(kCauseColumns[c]);
    for (std::size_t i = 0; i < paths.size(); ++i)
      rows[i + 1].push_back(percent((*paths[i].stall_s)[c], paths[i].wall_s));
  }
  return {rows, apart ? std::size_t{2} : std::size_t{1}};
}

/// What the requests of a cluster waited for: the causes that took any of them time.
TextTable latency_causes_table(const std::vector<RunResult>& results) {
  std::vector<std::pair<std::string, std::string_view>> columns = {{kAwayCause, "server away"},
                                                                   {kQueueCause, "queue"}};
  for (std::size_t c = 0; c < kCauses; ++c) columns.emplace_back(kCauseNames[c], kCauseColumns[c]);
  std::vector<std::vector<std::string>> rows = {{"latency of requests, % of it"}};
  std::vector<std::map<std::string, double>> shares;
  for (const RunResult& r : results) {
    rows.push_back({r.system});
    double all = 0;
    for (const auto& [cause, seconds] : latency_causes(r)) all += seconds;
    auto& of = shares.emplace_back();
    for (const auto& [cause, seconds] : latency_causes(r)) of[cause] = 100 * seconds / all;
  }
  for (const auto& [cause, title] : columns) {
    const auto takes_time = [&cause = cause](const auto& of) { return of.contains(cause); };
    if (std::none_of(shares.begin(), shares.end(), takes_time)) continue;
    rows[0].emplace_back(title);
    for (std::size_t i = 0; i < results.size(); ++i)
      rows[i + 1].push_back(shares[i].empty() ? "-" : fixed(shares[i][cause], 1));
  }
  return {rows};
}

TextTable pools_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"pools, experts a layer (share of memory)", "F", "C", "S", "E", "expected load ms a layer"}};
  for (const RunResult& r : results) {
    if (!r.planned) continue;
    std::vector<std::string> row = {r.system};
    for (std::size_t s = 0; s < 4; ++s)
      row.push_back(std::to_string(r.plan.capacity[s]) + " (" + fixed(100 * r.plan.ratios[s], 0) + " %)");
    row.push_back(three_digits(1e3 * r.plan.expected_makespan_s, 2));
    rows.push_back(std::move(row));
  }
  return {rows};
}

std::string notes(const std::vector<RunResult>& results) {
  std::vector<std::string> said;
  for (const RunResult& r : results)
    for (const std::string& w : r.warnings)
      if (std::find(said.begin(), said.end(), w) == said.end()) said.push_back(w);
  std::string out;
  for (const std::string& w : said) out += "note: " + w + "\n";
  return out;
}

/// "4 request(s), 200 tokens generated"
std::string amount_text(const Metrics& m) {
  const std::string answered = std::to_string(m.end_to_end_s.size()), tokens = std::to_string(m.tokens);
  if (m.measured.whole) return answered + " request(s), " + tokens + " tokens generated";
  return answered + " measured request(s) of " + std::to_string(m.requests.size()) + ", " + tokens +
         " tokens generated for all";
}

/// "600 request(s)", or of how many so many were answered: "153 of 600 request(s)".
std::string answered_text(const std::vector<RunResult>& results) {
  std::uint64_t asked = 0, least = std::numeric_limits<std::uint64_t>::max(), most = 0;
  for (const RunResult& r : results) {
    if (r.memory.shortfall > Bytes(0)) continue;
    const RequestCounts counts = request_counts(r.cluster);
    asked = counts.asked;
    least = std::min(least, counts.answered());
    most = std::max(most, counts.answered());
  }
  std::string text = std::to_string(asked) + " request(s)";
  if (least < asked) text = std::to_string(most) + " of " + text;
  return least < most ? std::to_string(least) + " to " + text : text;
}

/// Which software each system runs in, where that is said of any: "software: llama.cpp (CUDA)", or by system.
std::string runtime_line(const std::vector<RunResult>& results) {
  const auto same = [&](const RunResult& r) { return r.runtime == results.front().runtime; };
  if (std::all_of(results.begin(), results.end(), same))
    return results.front().runtime.empty() ? "" : "software: " + results.front().runtime + "\n";
  std::string line;
  for (const RunResult& r : results)
    line += (line.empty() ? "software: " : "; ") + r.system + " in " +
            (r.runtime.empty() ? std::string("none that is stated") : r.runtime);
  return line + "\n";
}

/// What was set for this run, each value cut where it is long.
std::string settings_line(const Scenario& s) {
  constexpr std::size_t kMost = 60;
  std::string line;
  for (const auto& [path, value] : s.settings) {
    std::size_t end = std::min(value.size(), kMost);
    while (end < value.size() && end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U)
      --end;  // within a character
    std::string shown = path + "=" + value.substr(0, end) + (end < value.size() ? "..." : "");
    std::replace(shown.begin(), shown.end(), '\n', ' ');
    line += (line.empty() ? "set for this run: " : ", ") + shown;
  }
  return line.empty() ? "" : line + "\n";
}

std::string marks_line(const std::vector<std::string>& marked) {
  return marked.empty() ? "" : "*: not the system of that name as its file has it, what is set changes it\n";
}

/// " (page cache beside it: 42.7 GB)": what systems that read through it have of one memory, outside the
/// budget.
std::string page_cache_text(const Scenario& s, const std::vector<RunResult>& results) {
  Bytes most;
  for (const RunResult& r : results) most = std::max(most, page_cache_beside_budget(s, r));
  if (!(most > Bytes(0))) return "";
  return " (page cache beside it: " + to_string(most) + ")";
}

/// Of which seeds the tables are.
std::string seeds_line(const Scenario& s, std::size_t seeds) {
  if (seeds < 2) return "";
  const std::string first = std::to_string(s.seed), last = std::to_string(s.seed + seeds - 1);
  const std::string all = "seeds " + first + " to " + last, alone = "of seed " + first + " alone";
  return (s.cluster ? "tables: "
                    : "first table: means over " + all + ", and the least and the most; others: ") +
         alone + "; the answer: over " + all + ", but what bounds a system is " + alone + "\n";
}

/// What was run, and on what it rests.
std::string heading(const Scenario& s, const std::vector<RunResult>& results,
                    const std::vector<std::string>& marked, std::size_t seeds) {
  const auto ran = std::find_if(results.begin(), results.end(),
                                [](const RunResult& r) { return r.memory.shortfall == Bytes(0); });
  const Metrics& m = (ran == results.end() ? results.front() : *ran).metrics;
  const std::string where = s.place_title();
  const std::string of = s.cluster ? " of each GPU" : s.gpus() > 1 ? " on " + gpus_text(s) : "";
  const std::string amount = ran == results.end() ? "nothing was run"
                             : s.cluster          ? answered_text(results)
                                                  : amount_text(m);
  return s.name + ": " + title_with_weights(s.model, s.gpus(), s.expert_parallel) + " on " + where +
         "\nbudget " + to_string(s.budget) + of + page_cache_text(s, results) + ", batch " +
         std::to_string(s.workload.batch) + (s.cluster ? " a server" : "") + ", " + amount + ", seed " +
         std::to_string(s.seed) + ", executor " + results.front().executor + "\n" +
         (s.cluster ? "" : runtime_line(results)) + "routing: " + results.front().routing + "\n" +
         settings_line(s) + marks_line(marked) + seeds_line(s, seeds);
}

void add_cluster(const std::vector<RunResult>& results, TextReport& report) {
  report.add_table(cluster_latency_table(results));
  report.add_table(cluster_calls_table(results));
  report.add_picture(local_share_picture(results));
  report.add_table(speculation_table(results));
  add_token_cost(results, report);
  report.add_table(latency_causes_table(results));
  report.add_lines(cluster_events(results));
}

/// Of the systems that were run; of the others what they lack.
void add_fitting_on_cluster(const std::vector<RunResult>& results, TextReport& report) {
  std::vector<RunResult> ran;
  for (const RunResult& r : results)
    if (r.memory.shortfall == Bytes(0)) ran.push_back(r);
  if (!ran.empty()) add_cluster(ran, report);
  report.add_lines(shortfall_lines(results));
}

/// Where experts were found, and what else policies did with them.
void add_experts(const Scenario& s, const std::vector<RunResult>& results, TextReport& report) {
  const bool looked_up = std::any_of(results.begin(), results.end(), [](const RunResult& r) {
    return r.counted.lookups && r.memory.shortfall == Bytes(0);
  });
  if (looked_up && s.device.is_discrete()) report.add_table(gpu_table(s, results));
  if (looked_up) report.add_table(hits_table(s, results));
  report.add_table(serving_table(s, results));
  add_instances(results, report);
  report.add_table(window_table(results));
  report.add_table(balance_table(results));
  report.add_table(paged_memory_table(results));
  report.add_table(routing_table(results));
  report.add_table(quality_table(results));
  if (s.device.is_discrete()) report.add_table(prefetch_table(results));
}

void add_machine(const Scenario& s, const std::vector<RunResult>& results, const SpeedsBySeed& by_seed,
                 TextReport& report) {
  report.add_table(speed_table(results, by_seed));
  for (TextTable& table : latency_tables(results_under_load(s, results))) report.add_table(std::move(table));
  add_token_cost(results, report);
  report.add_lines(measured_lines(results));
  report.add_lines(shortfall_lines(results));
  report.add_lines(ssd_lines(results));
  report.add_table(speculation_table(results));
  add_experts(s, results, report);
  report.add_table(stall_table(results));
  report.add_table(pools_table(results));
  report.add_picture(serving_picture(results));
}

}  // namespace

std::string results_table(const Scenario& s, const std::vector<RunResult>& results, TextForm form,
                          const std::vector<std::string>& marked, const SpeedsBySeed& by_seed) {
  if (results.empty()) return "";
  TextReport report(form, marked);
  report.add_lines(heading(s, results, marked, by_seed.empty() ? 1 : by_seed.front().size()));
  if (s.cluster)
    add_fitting_on_cluster(results, report);
  else
    add_machine(s, results, by_seed, report);
  report.add_lines(notes(results));
  return report.text();
}

}  // namespace moelab
