#include <algorithm>
#include <array>
#include <numeric>

#include "models/stored_weights.hpp"
#include "sim/results/cluster_table.hpp"
#include "sim/results/latency_table.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/serving_picture.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {
namespace {

std::string speed_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"system", "TTFT s", "TPOT ms", "ITL p50", "p90", "p99", "tokens/s", "end-to-end s"}};
  for (const RunResult& r : results) {
    const Summary gaps = summarize(r.metrics.token_gaps_s);
    const auto ms = [&](double seconds) {
      return r.metrics.token_gaps_s.empty() ? std::string("-") : fixed(1e3 * seconds, 1);
    };
    if (r.memory.shortfall > Bytes(0)) {
      rows.push_back({r.system, "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const RunRates rates = run_rates(r.metrics);
    rows.push_back({r.system, fixed(mean(r.metrics.ttft_s), 2),
                    ms(mean(request_latencies(r.metrics).of(Latency::tpot))), ms(gaps.p50), ms(gaps.p90),
                    ms(gaps.p99), fixed(rates.a_second(rates.output_tokens), 2),
                    fixed(mean(r.metrics.end_to_end_s), 1)});
  }
  return align_columns(rows, 1);
}

/// What requests met, of systems to which they come when they come; and of all what was measured.
std::string load_tables(const Scenario& scenario, const std::vector<RunResult>& results) {
  std::vector<const RunResult*> under_load;
  for (const RunResult& r : results)
    for (const SystemConfig& system : scenario.systems)
      if (system.name == r.system && !come_in_turn(scenario, system)) under_load.push_back(&r);
  return latency_tables(under_load) + measured_lines(results);
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

/// Where one memory holds all: of every system; beside a discrete GPU: of those that keep planes there, ""
/// where none does.
std::string hits_table(const Scenario& scenario, const std::vector<RunResult>& results) {
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
    return fixed(r.metrics.bytes[static_cast<std::size_t>(tier)] / 1e9, 1);
  };
  for (const RunResult& r : results) {
    if (!r.counted.lookups || r.paged || r.memory.shortfall > Bytes(0) || (linked && r.counted.execution))
      continue;
    double all = 0;
    for (const std::uint64_t n : r.metrics.decode_hits) all += static_cast<double>(n);
    std::vector<std::string> row = {r.system};
    for (const std::uint64_t n : r.metrics.decode_hits) row.push_back(percent(static_cast<double>(n), all));
    for (const auto& [tier, title] : tiers) row.push_back(gigabytes(r, tier));
    row.push_back(caches(scenario, r.system) ? fixed(r.memory.expert_cache.value() / 1e9, 2) : "-");
    rows.push_back(std::move(row));
  }
  const bool paged = std::any_of(results.begin(), results.end(), [](const RunResult& r) { return r.paged; });
  return (linked || paged) && rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// With a discrete GPU: where the experts used while decoding were, who made ready what was missing, and what
/// was changed for that. Of systems that keep experts whole; "" where none does.
std::string gpu_table(const Scenario& scenario, const std::vector<RunResult>& results) {
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
        row.push_back(fixed(r.metrics.bytes[static_cast<std::size_t>(tier)] / 1e9, 1));
    row.push_back(caches(scenario, r.system) ? fixed(r.memory.expert_cache.value() / 1e9, 2) : "-");
    rows.push_back(std::move(row));
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// Of windows by whose experts' numbers something goes: what was kept, what became of the experts that came,
/// and where from; "" where none is.
std::string window_table(const std::vector<RunResult>& results) {
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
                    ahead(p.cancelled), fixed(m.serving.ssd_bytes / 1e12, 2),
                    fixed(m.serving.page_cache_bytes / 1e12, 2)});
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// How the memory of each GPU was spent; "" where no system has pages.
std::string paged_memory_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"memory of a GPU, GB", "experts", "window", "other weights",
                                                 "activations", "KV cache", "KV blocks", "host experts"}};
  const auto any = [&](Bytes MemoryPlan::*item) {
    return std::any_of(results.begin(), results.end(),
                       [item](const RunResult& r) { return r.paged && r.memory.*item > Bytes(0); });
  };
  const bool pins = any(&MemoryPlan::pinned), caches_pages = any(&MemoryPlan::page_cache);
  if (pins) rows.front().emplace_back("pinned");
  if (caches_pages) rows.front().emplace_back("page cache");
  for (const RunResult& r : results) {
    if (!r.paged) continue;
    const auto gb = [](Bytes bytes) { return fixed(bytes.value() / 1e9, 2); };
    const MemoryPlan& m = r.memory;
    rows.push_back({r.system, gb(m.expert_cache), gb(m.staging), gb(m.non_expert), gb(m.activations),
                    gb(m.kv_cache), std::to_string(m.kv_blocks), gb(m.host_experts)});
    if (pins) rows.back().push_back(gb(m.pinned));
    if (caches_pages) rows.back().push_back(gb(m.page_cache));
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// What serving from KV caches in blocks came to; "" where no system has one.
std::string serving_table(const Scenario& scenario, const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"serving, bytes of a GPU", "steps", "requests a step",
                                                 "KV peak %", "swapped out", "dropped", "swap GB",
                                                 "decoded TB", "loaded TB", "residency %"}};
  for (const RunResult& r : results) {
    const ServingCounts& c = r.metrics.serving;
    if (c.steps == 0) continue;
    const auto terabytes = [&](double bytes) { return r.paged ? fixed(bytes / 1e12, 2) : "-"; };
    const auto& series = r.metrics.series.samples();
    rows.push_back({r.system, std::to_string(c.steps),
                    fixed(static_cast<double>(r.metrics.tokens) / static_cast<double>(c.steps), 1),
                    percent(c.most_kv_use, 1), std::to_string(c.swapped_out), std::to_string(c.dropped),
                    fixed((c.swap_in_bytes + c.swap_out_bytes) / scenario.data_parallel / 1e9, 1),
                    terabytes(c.decoded_bytes), terabytes(c.loaded_bytes),
                    series.empty() ? "-" : fixed(100 * series.back().residency, 1)});
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// How evenly GPUs divide the experts, and what they exchange for them; "" where they do not.
std::string balance_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"experts over GPUs", "balancedness (mean / most)", "exchanged GB a GPU"}};
  for (const RunResult& r : results) {
    const ServingCounts& c = r.metrics.serving;
    if (c.most_pairs + c.exchanged_bytes == 0) continue;
    rows.push_back({r.system, c.most_pairs > 0 ? fixed(c.balancedness(), 3) : "-",
                    c.exchanged_bytes > 0 ? fixed(c.exchanged_bytes / 1e9, 1) : "-"});
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// What could not be run for want of memory.
std::string shortfall_lines(const std::vector<RunResult>& results) {
  std::string out;
  for (const RunResult& r : results)
    if (r.memory.shortfall > Bytes(0))
      out += "system '" + r.system + "' does not fit: it needs " + to_string(r.memory.shortfall) + " more" +
             (r.paged ? " on each GPU than its budget of " + to_string(r.memory.budget)
                      : "; " + shortfall_text(r.system, r.memory)) +
             "\n";
  return out.empty() ? "" : out + "\n";
}

/// Whose experts the host's memory behind a discrete GPU is too small for.
std::string ssd_lines(const std::vector<RunResult>& results) {
  std::string out;
  for (const RunResult& r : results)
    if (r.memory.experts_on_ssd && r.memory.shortfall == Bytes(0))
      out += "system '" + r.system + "': host memory holds " + to_string(r.memory.page_cache) +
             " of experts, those read last; the others are on the SSD\n";
  return out.empty() ? "" : out + "\n";
}

/// What routing policies did while decoding; "" where no system has one.
std::string routing_table(const std::vector<RunResult>& results) {
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
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// What answers are worth after substitution, as published; "" where no system substitutes or it is not
/// known.
std::string quality_table(const std::vector<RunResult>& results) {
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
  return rows.empty() ? "" : align_columns(rows, 1) + "\n";
}

/// What was fetched ahead; "" where no system does that.
std::string prefetch_table(const std::vector<RunResult>& results) {
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
                    fixed(p.wasted_bytes / 1e9, 1)});
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

/// Of several servers, the time that each of them served, together.
double served_seconds(const RunResult& r) {
  if (r.cluster.servers.empty()) return r.metrics.wall_s;
  return std::accumulate(r.metrics.stall_s.begin(), r.metrics.stall_s.end(), 0.0);
}

/// The causes that took any time at all.
std::string stall_table(const std::vector<RunResult>& results) {
  static constexpr std::array<std::string_view, kCauses> kColumns = {
      "SSD",      "page cache", "decompress",     "recover",     "experts",     "dense",   "host",
      "prefetch", "load",       "load low",       "CPU experts", "activations", "predict", "reduce",
      "KV swap",  "network",    "remote experts", "recovery",    "exchange"};
  std::vector<std::vector<std::string>> rows = {{"critical path, % of the time"}};
  for (const RunResult& r : results) rows.push_back({r.system});
  for (std::size_t c = 0; c < kCauses; ++c) {
    if (std::all_of(results.begin(), results.end(),
                    [&](const RunResult& r) { return r.metrics.stall_s[c] == 0; }))
      continue;
    rows[0].emplace_back(kColumns[c]);
    for (std::size_t i = 0; i < results.size(); ++i)
      rows[i + 1].push_back(percent(results[i].metrics.stall_s[c], served_seconds(results[i])));
  }
  return align_columns(rows, 1);
}

std::string pools_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"pools, experts a layer (share of memory)", "F", "C", "S", "E", "expected load ms a layer"}};
  for (const RunResult& r : results) {
    if (!r.planned) continue;
    std::vector<std::string> row = {r.system};
    for (std::size_t s = 0; s < 4; ++s)
      row.push_back(std::to_string(r.plan.capacity[s]) + " (" + fixed(100 * r.plan.ratios[s], 0) + " %)");
    row.push_back(fixed(1e3 * r.plan.expected_makespan_s, 2));
    rows.push_back(std::move(row));
  }
  return rows.size() == 1 ? "" : align_columns(rows, 1) + "\n";
}

}  // namespace

namespace {

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

std::string cluster_results(const Scenario& s, const std::vector<RunResult>& results) {
  const std::string title = s.cluster->profile.title;
  std::string out = s.name + ": " + title_with_weights(s.model) + " on " + title + "\nbudget " +
                    to_string(s.budget) + " of each GPU, batch " + std::to_string(s.workload.batch) +
                    " a server, " + std::to_string(results.front().metrics.end_to_end_s.size()) +
                    " request(s), seed " + std::to_string(s.seed) + ", executor " + results.front().executor +
                    "\nrouting: " + results.front().routing + "\n\n";
  out += cluster_latency_table(results) + "\n" + cluster_calls_table(results) + "\n";
  out += local_share_picture(results) + "\n" + stall_table(results) + "\n";
  const std::string events = cluster_events(results);
  return out + events + (events.empty() ? "" : "\n") + notes(results);
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

}  // namespace

std::string results_table(const Scenario& s, const std::vector<RunResult>& results) {
  if (results.empty()) return "";
  if (s.cluster) return cluster_results(s, results);
  const auto ran = std::find_if(results.begin(), results.end(),
                                [](const RunResult& r) { return r.memory.shortfall == Bytes(0); });
  const Metrics& m = (ran == results.end() ? results.front() : *ran).metrics;
  const bool looked_up = std::any_of(results.begin(), results.end(), [](const RunResult& r) {
    return r.counted.lookups && r.memory.shortfall == Bytes(0);
  });
  std::string out = s.name + ": " + title_with_weights(s.model) + " on " + s.device.title + "\n" + "budget " +
                    to_string(s.budget) + (s.gpus() > 1 ? " on " + gpus_text(s) : "") + ", batch " +
                    std::to_string(s.workload.batch) + ", " + amount_text(m) + ", seed " +
                    std::to_string(s.seed) + ", executor " + results.front().executor + "\n" +
                    runtime_line(results) + "routing: " + results.front().routing + "\n\n";
  out +=
      speed_table(results) + "\n" + load_tables(s, results) + shortfall_lines(results) + ssd_lines(results);
  if (looked_up && s.device.is_discrete()) out += gpu_table(s, results);
  if (looked_up) out += hits_table(s, results);
  out += serving_table(s, results) + window_table(results) + balance_table(results) +
         paged_memory_table(results);
  out += routing_table(results) + quality_table(results) +
         (s.device.is_discrete() ? prefetch_table(results) : "");
  out += stall_table(results) + "\n" + pools_table(results) + serving_picture(results);
  return out + notes(results);
}

}  // namespace moelab
