#include "sim/cluster/cluster_requests.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "models/input_error.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "traces/counts_routing.hpp"
#include "traces/default_trace.hpp"
#include "traces/generator.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab {
namespace {

// Rows of a task's pool, the half that is history included: enough for the largest batch to run different
// ones, and for the popularity of experts to show; fewer where there are many tasks.
constexpr std::uint64_t kMostPoolRows = 8192, kLeastPoolRows = 512, kRowsOfAllTasks = 1 << 21;
constexpr std::uint64_t kMostRequests = 1 << 20;  // of a server; more begin where others do
// Streams of random numbers of a server's users.
constexpr std::uint64_t kArrivals = 0x6a09e667f3bcc909, kTasks = 0xbb67ae8584caa73b,
                        kRouting = 0xa54ff53a5f1d36f1;

std::uint64_t pool_rows(std::size_t tasks) {
  const std::uint64_t fair = kRowsOfAllTasks / tasks / 2 * 2;
  return std::clamp(fair, kLeastPoolRows, kMostPoolRows);
}

/// One long prompt, in which the task's own popularity is what a request's own one is elsewhere.
RoutingTrace draw_task(const Scenario& s, std::size_t task, std::uint64_t rows) {
  const FeedForward& ff = s.model.moe();
  GeneratorParameters p;
  p.model = s.model.name;
  p.layers = static_cast<std::uint32_t>(s.model.moe_layers().size());
  p.experts = static_cast<std::uint32_t>(ff.experts);
  p.top_k = static_cast<std::uint32_t>(ff.top_k);
  p.first_request = static_cast<std::uint32_t>(task);
  p.prompt_tokens = static_cast<std::uint32_t>(rows);
  p.output_tokens = 1;
  p.skew = s.workload.skew;
  p.reuse = s.workload.reuse;
  p.drift = s.cluster->own_popularity;
  p.gate_decay = s.workload.gate_decay;
  p.seed = s.seed;
  return generate_routing_trace(p);
}

RoutingTrace draw_counted_task(const Scenario& s, const CountsTrace& counts, std::size_t task,
                               std::uint64_t rows) {
  CountsRouting p;
  p.model = s.model.name;
  p.layers = static_cast<std::uint32_t>(s.model.moe_layers().size());
  p.experts = static_cast<std::uint32_t>(s.model.moe().experts);
  p.top_k = static_cast<std::uint32_t>(s.model.moe().top_k);
  p.tokens = rows;
  p.reuse = s.workload.reuse;
  p.seed = Random(s.seed, kRouting, task).next();
  return draw_routing(p, counts, s.cluster->tasks[task].domain);
}

RoutingTrace recorded_task(const Scenario& s, const std::string& file) {
  RoutingTrace trace = open_routing_trace(file);
  check_trace_fits(s.model, file, trace);
  for (std::size_t i = 0; i < trace.requests().size(); ++i) {
    const TraceRequest& q = trace.requests()[i];
    if (q.decode_begin == q.begin)
      throw InputError(file,
                       "request " + std::to_string(i + 1) +
                           " has no rows of a prompt, which a cluster's server would have to run first");
  }
  for (std::uint64_t row = 0; row < trace.tokens(); ++row)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
      if (trace.experts_of(row, layer).front() == kNoExpert)
        throw InputError(file, "token " + std::to_string(row) + " has no experts in MoE layer " +
                                   std::to_string(layer) + "; on a cluster every layer runs for every token");
  return trace;
}

/// Of all tasks' rows together.
TraceDescription description_of(const Scenario& s, const std::vector<RoutingTrace>& of_task) {
  const RoutingTrace& first = of_task.front();
  TraceDescription d;
  d.model = first.model();
  std::set<std::string> said;  // of those that were drawn the first says it
  for (const RoutingTrace& t : of_task)
    if (said.insert(t.synthetic() ? "" : t.provenance()).second)
      d.provenance += (d.provenance.empty() ? "" : "; ") + t.provenance();
  d.synthetic =
      std::any_of(of_task.begin(), of_task.end(), [](const RoutingTrace& t) { return t.synthetic(); });
  d.layers = first.layers();
  d.experts = first.experts();
  d.top_k = first.top_k();
  for (const TaskConfig& task : s.cluster->tasks) d.domains.push_back(task.name);
  return d;
}

/// A pool as one long prompt.
void append_task(const RoutingTrace& of, bool recorded, std::uint16_t task, RoutingTraceBuilder& builder) {
  std::vector<std::uint16_t> ids(std::size_t{of.layers()} * of.top_k());
  const auto append = [&](std::uint64_t row, Phase phase) {
    auto next = ids.begin();
    for (std::uint32_t layer = 0; layer < of.layers(); ++layer)
      for (const std::uint16_t expert : of.experts_of(row, layer)) *next++ = expert;
    builder.add_token(phase, ids, {});
  };
  if (!recorded) {
    builder.begin_request(task);
    for (std::uint64_t row = 0; row < of.tokens(); ++row) append(row, Phase::prefill);
    return;
  }
  for (const TraceRequest& q : of.requests()) {
    builder.begin_request(task);
    for (std::uint64_t row = q.begin; row < q.end; ++row)
      append(row, row < q.decode_begin ? Phase::prefill : Phase::decode);
  }
}

/// A task by its share.
std::size_t draw_index(const std::vector<double>& shares, double at) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    last = i;
    if (at < shares[i]) return i;
    at -= shares[i];
  }
  return last;
}

std::uint32_t draw_length(const TokenRange& range, Random& random) {
  return range.low + static_cast<std::uint32_t>(random.below(std::uint64_t{range.high} - range.low + 1));
}

/// A task's requests in the trace of all rows: its pool, or what was recorded.
using TaskRequests = std::span<const TraceRequest>;

std::vector<TaskRequests> requests_by_task(const Scenario& s, const RoutingTrace& rows) {
  std::vector<TaskRequests> by_task(s.cluster->tasks.size());
  const std::span<const TraceRequest> all = rows.requests();
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first;
    while (end < all.size() && rows.domain_of(end) == rows.domain_of(first)) ++end;
    by_task[rows.domain_of(first)] = all.subspan(first, end - first);
    first = end;
  }
  return by_task;
}

/// Of recorded requests: those that are served, the others are history. A single one is both.
TaskRequests served_half(TaskRequests recorded) {
  return recorded.first((recorded.size() + 1) / 2);
}
TaskRequests past_half(TaskRequests recorded) {
  return recorded.size() == 1 ? recorded : recorded.subspan((recorded.size() + 1) / 2);
}

void take_pool(TaskRequests pool, bool past, std::uint64_t number, ServedRequest& q) {
  q.pool_begin = pool.front().begin;
  q.pool_rows = (pool.front().end - pool.front().begin) / 2;
  q.first_row = spread_row(number, q.pool_rows);
  if (past) q.pool_begin += q.pool_rows;
}

/// The n-th that a server's users bring of one task.
void take_recorded(TaskRequests recorded, bool past, std::size_t server, std::uint64_t n, ServedRequest& q) {
  const TaskRequests half = past ? past_half(recorded) : served_half(recorded);
  const TraceRequest& of = half[(spread_row(server, half.size()) + n) % half.size()];
  q.prompt_tokens = static_cast<std::uint32_t>(of.decode_begin - of.begin);
  q.output_tokens = static_cast<std::uint32_t>(of.end - of.decode_begin) + 1;
  q.pool_begin = of.begin;
  q.pool_rows = of.end - of.begin;
}

std::vector<ServedRequest> requests_of(const Scenario& s, std::size_t server, bool past,
                                       const std::vector<TaskRequests>& by_task) {
  const ServerLoad& load = s.cluster->loads[server];
  std::vector<std::uint64_t> brought(by_task.size(), 0);
  Random arrivals(s.seed, kArrivals, server), tasks(s.seed, kTasks, server);
  std::vector<ServedRequest> requests;
  double now = 0;
  for (const LoadPhase& phase : load.phases)
    for (std::uint32_t i = 0; i < phase.requests; ++i) {
      const std::size_t number = draw_index(phase.shares, tasks.uniform());
      const TaskConfig& task = s.cluster->tasks[number];
      ServedRequest q;
      if (task.trace_file.empty()) {
        q.prompt_tokens = draw_length(task.prompt, tasks);
        q.output_tokens = draw_length(task.output, tasks);
        take_pool(by_task[number], past, server * kMostRequests + requests.size(), q);
      } else {
        take_recorded(by_task[number], past, server, brought[number]++, q);
      }
      if (load.arrivals_per_s > 0) now -= portable_log(1 - arrivals.uniform()) / load.arrivals_per_s;
      q.arrival_s = now;
      if (!load.log.empty()) {
        const RequestRecord& logged = load.log[requests.size()];
        q.arrival_s = logged.arrival_s;
        q.prompt_tokens = logged.prompt_tokens;
        q.output_tokens = logged.output_tokens;
        q.priority = logged.priority;
      }
      requests.push_back(q);
    }
  return requests;
}

/// Requests a second; where all are there from the start, requests.
double request_rate(const ServerLoad& load) {
  if (load.arrivals_per_s > 0) return load.arrivals_per_s;
  double requests = 0;
  for (const LoadPhase& phase : load.phases) requests += phase.requests;
  const double last = load.log.empty() ? 0 : load.log.back().arrival_s;
  return last > 0 ? requests / last : requests;
}

/// Adds each use of an expert in rows [begin, end), times `weight`, to [layers * experts] uses.
void add_uses(const RoutingTrace& rows, std::uint64_t begin, std::uint64_t end, double weight,
              std::vector<double>& uses) {
  for (std::uint64_t row = begin; row < end; ++row)
    for (std::uint32_t layer = 0; layer < rows.layers(); ++layer)
      for (const std::uint16_t expert : rows.experts_of(row, layer))
        uses[std::size_t{layer} * rows.experts() + expert] += weight;
}

}  // namespace

RoutingTrace task_rows(const Scenario& s) {
  const std::size_t tasks = s.cluster->tasks.size();
  const std::uint64_t rows = pool_rows(tasks);
  std::optional<CountsTrace> counts;
  if (!s.cluster->counts_file.empty()) counts = read_counts_trace(s.cluster->counts_file);
  std::vector<RoutingTrace> of_task;
  std::uint64_t all = 0;
  for (std::size_t task = 0; task < tasks; ++task) {
    if (!s.cluster->tasks[task].trace_file.empty())
      of_task.push_back(recorded_task(s, s.cluster->tasks[task].trace_file));
    else
      of_task.push_back(counts ? draw_counted_task(s, *counts, task, rows) : draw_task(s, task, rows));
    all += of_task.back().tokens();
  }
  RoutingTraceBuilder builder(description_of(s, of_task));
  builder.reserve(all);
  for (std::size_t task = 0; task < tasks; ++task)
    append_task(of_task[task], !s.cluster->tasks[task].trace_file.empty(), static_cast<std::uint16_t>(task),
                builder);
  return builder.finish();
}

std::vector<std::vector<ServedRequest>> cluster_requests(const Scenario& s, const RoutingTrace& rows,
                                                         bool past) {
  const std::vector<TaskRequests> by_task = requests_by_task(s, rows);
  std::vector<std::vector<ServedRequest>> all;
  for (std::size_t server = 0; server < s.cluster->loads.size(); ++server)
    all.push_back(requests_of(s, server, past, by_task));
  return all;
}

ActivationCounts history_counts(const Scenario& s, const RoutingTrace& rows) {
  const ClusterConfig& cluster = *s.cluster;
  const std::size_t objects = std::size_t{rows.layers()} * rows.experts();
  std::vector<std::vector<double>> by_task(cluster.tasks.size(), std::vector<double>(objects, 0));
  const std::vector<TaskRequests> requests = requests_by_task(s, rows);
  for (std::size_t task = 0; task < cluster.tasks.size(); ++task) {
    const TaskConfig& t = cluster.tasks[task];
    if (!t.trace_file.empty()) {
      const TaskRequests past = past_half(requests[task]);
      add_uses(rows, past.front().begin, past.back().end, 1.0 / static_cast<double>(past.size()),
               by_task[task]);
      continue;
    }
    const TraceRequest& pool = requests[task].front();
    const std::uint64_t half = (pool.end - pool.begin) / 2;
    const double tokens = (t.prompt.low + t.prompt.high + t.output.low + t.output.high) / 2.0 - 1;
    add_uses(rows, pool.begin + half, pool.end, tokens / static_cast<double>(half), by_task[task]);
  }
  ActivationCounts counts(cluster.loads.size(), rows.layers(), rows.experts());
  for (std::uint32_t server = 0; server < cluster.loads.size(); ++server) {
    const std::vector<double>& shares = cluster.loads[server].history;
    const double rate = request_rate(cluster.loads[server]);
    for (std::size_t task = 0; task < shares.size(); ++task) {
      if (shares[task] == 0) continue;
      for (std::uint32_t layer = 0; layer < rows.layers(); ++layer)
        for (std::uint32_t expert = 0; expert < rows.experts(); ++expert)
          counts.add(server, layer, expert,
                     rate * shares[task] * by_task[task][std::size_t{layer} * rows.experts() + expert]);
    }
  }
  return counts;
}

}  // namespace moelab
