#include "sim/results/cluster_table.hpp"

#include <algorithm>

#include "models/units.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostColumns = 8;  // servers that have one of their own
constexpr std::size_t kBars = 60;

LocalShareSeries::Bucket sum_of(const RunResult& r, double from_s, double to_s) {
  LocalShareSeries::Bucket sum;
  for (const ServerResult& server : r.cluster.servers) {
    const double width = server.local_share.width_s();
    const auto& buckets = server.local_share.buckets();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * width;
      if (middle < from_s || middle >= to_s) continue;
      sum.local += buckets[i].local;
      sum.remote += buckets[i].remote;
    }
  }
  return sum;
}

/// Whether its servers load experts for a step.
bool loads(const RunResult& r) {
  return std::any_of(r.cluster.servers.begin(), r.cluster.servers.end(),
                     [](const ServerResult& server) { return server.loaded_experts >= 0; });
}

std::string migration_line(const RunResult& r, const MigrationRecord& m) {
  std::string line = "  " + fixed(m.at_s, 1) + " s  " + r.system + ": ";
  const std::string done = m.done_s < 0 ? "not before the end" : "by " + fixed(m.done_s, 1) + " s";
  if (m.recovery) return line + "placed anew, " + std::to_string(m.experts) + " experts move, " + done + "\n";
  line += "a new placement would save " + fixed(m.saved_s, 2) + " s of calls in " +
          to_string(Seconds(m.horizon_s)) + " and cost " + fixed(m.cost_s, 2) + " s of loading: ";
  if (!m.adopted) return line + "kept as it is\n";
  return line + std::to_string(m.experts) + " experts move, " + done + "\n";
}

std::string fault_line(const RunResult& r, const FaultRecord& f) {
  std::string line = "  " + fixed(f.at_s, 1) + " s  " + r.system + ": " + f.server + " " + f.event;
  if (f.event == "bandwidth") return line + " changes\n";
  if (f.uncovered == 0) return line + ", no expert is lost\n";
  if (loads(r)) return line + ", " + std::to_string(f.uncovered) + " experts are on no GPU and are loaded\n";
  return line + ", " + std::to_string(f.uncovered) + " experts are nowhere, " +
         (f.recovered_s < 0 ? "to the end" : "until " + fixed(f.recovered_s, 1) + " s") + "\n";
}

}  // namespace

TextTable cluster_latency_table(const std::vector<RunResult>& results) {
  const std::vector<ServerResult>& servers = results.front().cluster.servers;
  const std::size_t columns = std::min(servers.size(), kMostColumns);
  std::vector<std::vector<std::string>> rows = {{"mean latency of a request, s"}};
  for (std::size_t i = 0; i < columns; ++i) rows[0].push_back(servers[i].name);
  for (const char* title : {"all", "p50", "p90", "p99", "TTFT s", "failed", "delayed"})
    rows[0].emplace_back(title);
  for (const RunResult& r : results) {
    std::vector<std::string> row = {r.system};
    for (std::size_t i = 0; i < r.cluster.servers.size(); ++i) {
      const ServerResult& server = r.cluster.servers[i];
      if (i < columns) row.push_back(server.requests > 0 ? three_digits(server.end_to_end_s, 2) : "-");
    }
    const Summary all = summarize(r.metrics.end_to_end_s);
    const auto seconds = [](const std::vector<double>& of, double s) {
      return of.empty() ? std::string("-") : three_digits(s, 2);
    };
    for (const double s : {all.mean, all.p50, all.p90, all.p99})
      row.push_back(seconds(r.metrics.end_to_end_s, s));
    row.push_back(seconds(r.metrics.ttft_s, mean(r.metrics.ttft_s)));
    const RequestCounts counts = request_counts(r.cluster);
    row.push_back(std::to_string(counts.failed));
    row.push_back(std::to_string(counts.delayed));
    rows.push_back(std::move(row));
  }
  return {rows};
}

TextTable cluster_calls_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {{"experts called", "at home %", "calls elsewhere",
                                                 "network GB", "GPUs busy %", "experts held", "migrations"}};
  const bool any_loads = std::any_of(results.begin(), results.end(), loads);
  if (any_loads) rows.front().emplace_back("loaded");
  for (const RunResult& r : results) {
    double local = 0, remote = 0, bytes = 0, busy = 0, gpus = 0;
    std::uint64_t calls = 0, held = 0, migrations = 0;
    std::int64_t loaded = 0;
    for (const ServerResult& server : r.cluster.servers) {
      local += server.local_activations;
      remote += server.remote_activations;
      bytes += server.network_bytes;
      busy += server.busy_s;
      gpus += server.gpus;
      calls += server.remote_calls;
      held += server.experts;
      loaded += server.loaded_experts;
    }
    for (const MigrationRecord& m : r.cluster.migrations) migrations += m.adopted ? 1 : 0;
    rows.push_back({r.system, percent(local, local + remote), std::to_string(calls),
                    three_digits(bytes / 1e9, 2), percent(busy, gpus * r.metrics.wall_s),
                    std::to_string(held), std::to_string(migrations)});
    if (any_loads) rows.back().push_back(loads(r) ? std::to_string(loaded) : "-");
  }
  return {rows};
}

std::string local_share_picture(const std::vector<RunResult>& results) {
  double end = 0;
  std::size_t name = 0;
  for (const RunResult& r : results) {
    end = std::max(end, r.metrics.wall_s);
    name = std::max(name, r.system.size());
  }
  if (end <= 0) return "";
  std::string out = "experts called at home, 0 to 100 %, from 0 to " + fixed(end, 0) + " s\n";
  for (const RunResult& r : results) {
    out += r.system + std::string(name - r.system.size() + 2, ' ');
    // No narrower than the widest bucket: what is measured together is shown together.
    double width = end / kBars;
    for (const ServerResult& server : r.cluster.servers)
      width = std::max(width, server.local_share.width_s());
    for (double from = 0; from < end; from += width) {
      const LocalShareSeries::Bucket sum = sum_of(r, from, from + width);
      const double all = sum.local + sum.remote;
      out += all > 0 ? column(static_cast<std::size_t>(8 * sum.local / all + 0.5)) : "·";
    }
    out += "\n";
  }
  return out;
}

std::string cluster_events(const std::vector<RunResult>& results) {
  constexpr std::size_t kMostLines = 40;
  std::vector<std::string> lines;
  for (const RunResult& r : results) {
    std::vector<std::pair<double, std::string>> events;
    for (const MigrationRecord& m : r.cluster.migrations) events.emplace_back(m.at_s, migration_line(r, m));
    for (const FaultRecord& f : r.cluster.faults) events.emplace_back(f.at_s, fault_line(r, f));
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [at, line] : events) lines.push_back(line);
  }
  if (lines.empty()) return "";
  std::string out = "migrations and faults\n";
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) out += lines[i];
  if (lines.size() > kMostLines)
    out += "  and " + std::to_string(lines.size() - kMostLines) + " more (--format json has them all)\n";
  return out;
}

}  // namespace moelab
