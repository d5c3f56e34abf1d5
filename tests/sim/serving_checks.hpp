// Laws that every run of the serving loop keeps, checked on a record of what it did.
#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <utility>
#include <vector>

#include "tests/sim/small_systems.hpp"

namespace moelab::test {

/// Within one graph, by what its operations mean (ZipMoE, Fig. 6): nothing begins before what it needs.
/// `sent_plain`: exponents are decompressed before they go over a link.
inline void check_order_within(const DoneGraph& graph, bool sent_plain = false) {
  std::map<std::array<std::uint32_t, 3>, double> chunk_read, chunk_ready, decoding;  // expert, tensor, chunk
  std::map<std::array<std::uint32_t, 2>, double> read, recovered;                    // expert, tensor
  std::map<std::array<std::uint32_t, 2>, double> stored, sent;  // the end there, the start here
  for (const DoneOp& op : graph.ops) {
    const OpLabel& l = op.label;
    // The last one counts: over a link what is on the SSD comes after it was read.
    if (l.kind == OpKind::read_e) {
      double& end = chunk_read[{l.expert, l.tensor, l.chunk}];
      end = std::max(end, op.end);
    }
    if (l.kind == OpKind::decompress) chunk_ready[{l.expert, l.tensor, l.chunk}] = op.end;
    if (l.kind == OpKind::decompress) decoding[{l.expert, l.tensor, l.chunk}] = op.start;
    if (l.kind == OpKind::read_sm || l.kind == OpKind::read_tensor) {
      double& end = read[{l.expert, l.tensor}];
      end = std::max(end, op.end);
      if (l.tier == Tier::ssd) stored[{l.expert, l.tensor}] = op.end;
      if (l.tier == Tier::host) sent[{l.expert, l.tensor}] = op.start;
    }
    if (l.kind == OpKind::recover) recovered[{l.expert, l.tensor}] = op.end;
  }
  bool held = true;
  for (const auto& [tensor, start] : sent)
    if (const auto from = stored.find(tensor); from != stored.end()) held &= start >= from->second;
  double host_end = graph.submitted;
  for (const DoneOp& op : graph.ops)
    if (op.label.kind == OpKind::host && graph.layer >= 0) host_end = op.end;
  for (const DoneOp& op : graph.ops) {
    const OpLabel& l = op.label;
    held &= op.start >= graph.submitted && op.end >= op.start;
    const std::array<std::uint32_t, 3> chunk = {l.expert, l.tensor, l.chunk};
    if (const auto r = chunk_read.find(chunk); !sent_plain && l.kind == OpKind::decompress)
      held &= r == chunk_read.end() || op.start >= r->second;
    if (sent_plain && l.kind == OpKind::read_e && l.tier == Tier::ssd)
      held &= !decoding.contains(chunk) || op.end <= decoding.at(chunk);  // else it was given up
    if (sent_plain && l.kind == OpKind::read_e && l.tier == Tier::host) {
      const auto plain = chunk_ready.find(chunk);
      held &= plain != chunk_ready.end() && op.start >= plain->second;
    }
    if (l.kind == OpKind::recover) {
      for (const auto* ends : {&chunk_ready, &chunk_read})
        for (const auto& [key, end] : *ends)
          if (key[0] == l.expert && key[1] == l.tensor) held &= op.start >= end;
      if (const auto r = read.find({l.expert, l.tensor}); r != read.end()) held &= op.start >= r->second;
    }
    if (l.kind == OpKind::execute || l.kind == OpKind::cpu_execute) {
      for (const auto& [key, end] : read)
        if (key[0] == l.expert) held &= op.start >= end;
      for (const auto& [key, end] : recovered)
        if (key[0] == l.expert) held &= op.start >= end;
    }
    if (l.kind == OpKind::dense) held &= op.start >= host_end || graph.layer < 0;
  }
  CHECK(held);
}

inline double end_of(const DoneGraph& graph) {
  double end = graph.submitted;
  for (const DoneOp& op : graph.ops) end = std::max(end, op.end);
  return end;
}

/// Most operations of a resource at one moment; those that take no time are left out.
inline std::size_t most_at_once(const std::vector<DoneGraph>& graphs, engine::ResourceId resource) {
  std::vector<std::pair<double, int>> events;  // an end sorts before a start of the same moment
  for (const DoneGraph& graph : graphs)
    for (const DoneOp& op : graph.ops)
      if (op.resource == resource && op.end > op.start) {
        events.emplace_back(op.start, 1);
        events.emplace_back(op.end, -1);
      }
  std::sort(events.begin(), events.end());
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [time, change] : events) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

inline double sum(const auto& values) {
  double total = 0;
  for (const auto value : values) total += static_cast<double>(value);
  return total;
}

inline void check_conservation(const SmallRun& run, const Recorder& record, const RunResult& r) {
  const Metrics& m = r.metrics;
  const ExpertCosts costs = run.costs();
  CHECK(sum(m.stall_s) == Approx(m.wall_s).epsilon(1e-9));
  for (const double s : m.stall_s) CHECK(s >= 0);

  std::array<double, kTiers> bytes{};
  std::vector<double> busy(r.busy.size(), 0);
  std::size_t operations = 0;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops) {
      ++operations;
      busy[op.resource] += op.end - op.start;
      if (op.label.kind == OpKind::read_sm || op.label.kind == OpKind::read_tensor)
        bytes[static_cast<std::size_t>(op.label.tier)] += costs.sm_bytes.value();
      if (op.label.kind == OpKind::read_e)
        bytes[static_cast<std::size_t>(op.label.tier)] +=
            (op.label.tier == Tier::ssd ? costs.e_stored : costs.e_bytes).value() / run.system().shards;
    }
  for (std::size_t t = 0; t < bytes.size(); ++t) CHECK(m.bytes[t] == Approx(bytes[t]).epsilon(1e-9));
  CHECK(r.operations == operations);
  const std::size_t threads = run.system().threads;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    CHECK(r.busy[i].busy_s == Approx(busy[i]).epsilon(1e-9));
    const std::size_t slots = r.busy[i].name == "decompress" ? threads : 1;
    CHECK(most_at_once(record.graphs, static_cast<engine::ResourceId>(i)) <= slots);
  }
}

inline void check_prefetch_counts(const RunResult& r, const Recorder& record) {
  const PrefetchCounts& p = r.metrics.prefetch;
  CHECK(p.fetched == p.used + p.late + p.unused);
  CHECK(p.wasted_bytes <= sum(r.metrics.bytes) * (1 + 1e-9));
  CHECK((p.unused > 0 || p.wasted_bytes == 0));
  const auto fetches = std::count_if(record.graphs.begin(), record.graphs.end(),
                                     [](const DoneGraph& g) { return g.is_fetch(); });
  CHECK(static_cast<std::uint64_t>(fetches) == p.fetched);
}

/// Nothing between graphs, apart from predictions, which run beside their layer.
inline void check_no_gaps(const Recorder& record, const RunResult& r, bool sent_plain = false) {
  double now = 0, submitted = 0;
  bool in_sequence = true;
  for (const DoneGraph& graph : record.graphs) {
    check_order_within(graph, sent_plain);
    if (graph.is_fetch()) continue;
    const bool beside = graph.holds(OpKind::predict);
    in_sequence &= graph.submitted == (beside ? submitted : now);
    submitted = graph.submitted;
    now = std::max(now, end_of(graph));
  }
  CHECK(in_sequence);
  CHECK(now == r.metrics.wall_s);
}

}  // namespace moelab::test
