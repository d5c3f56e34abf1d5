// Flows over a network, so many under way at any time: chains of flows between random nodes, side by side.
// Every variant checks its answer. See README.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/simgrid_module.hpp"

namespace moelab {
namespace {

using engine::NetworkLaw;

struct Traffic {
  NetworkLaw law;
  std::vector<std::vector<engine::Graph::Flow>> chains;  // one after the other

  Traffic(NetworkLaw::Topology topology, std::size_t nodes, std::size_t live, std::size_t each) {
    std::mt19937_64 random(1);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    law.topology = topology;
    for (std::size_t i = 0; i < nodes; ++i)
      law.nodes.push_back({12.5e6 * (1 + 9 * uniform()), 12.5e6 * (1 + 9 * uniform())});
    chains.resize(live);
    for (auto& chain : chains)
      for (std::size_t i = 0; i < each; ++i) {
        const std::size_t from = random() % nodes, to = (from + 1 + random() % (nodes - 1)) % nodes;
        chain.push_back({static_cast<engine::NodeId>(from), static_cast<engine::NodeId>(to),
                         std::floor(1e5 + 1e6 * uniform())});
      }
  }
  std::size_t flows() const { return chains.size() * chains.front().size(); }
};

/// Seconds until all is there, under an engine.
double on_engine(const Traffic& traffic, engine::Engine& engine) {
  const engine::ResourceId wide = engine.add_resource("flows", engine::kUnlimitedSlots);
  engine.set_network(traffic.law);
  engine::Graph graph;
  for (const auto& chain : traffic.chains)
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const engine::OpIndex op = graph.add(graph.lane(wide), 0);
      graph.flow(op, chain[i].from, chain[i].to, chain[i].bytes);
      if (i > 0) graph.depend(op, op - 1);
    }
  const auto play = [&]() -> engine::Process {
    engine.submit(graph, engine::kDemand);
    co_await engine.finished(graph);
  };
  engine::Process process = play();
  engine.spawn(process);
  engine.run();
  return graph.finished_at();
}

/// The same by looking at all that is under way at every end: a star, the least of both shares.
double by_looking_at_all(const Traffic& traffic) {
  const std::size_t nodes = traffic.law.nodes.size(), live = traffic.chains.size();
  std::vector<std::size_t> at(live, 0);
  std::vector<double> left(live), rate(live), out(nodes), in(nodes);
  for (std::size_t c = 0; c < live; ++c) left[c] = traffic.chains[c][0].bytes;
  for (double now = 0;;) {
    std::fill(out.begin(), out.end(), 0);
    std::fill(in.begin(), in.end(), 0);
    for (std::size_t c = 0; c < live; ++c) {
      if (at[c] == traffic.chains[c].size()) continue;
      out[traffic.chains[c][at[c]].from] += 1;
      in[traffic.chains[c][at[c]].to] += 1;
    }
    double step = std::numeric_limits<double>::infinity();
    std::size_t next = live;
    for (std::size_t c = 0; c < live; ++c) {
      if (at[c] == traffic.chains[c].size()) continue;
      const engine::Graph::Flow& flow = traffic.chains[c][at[c]];
      rate[c] = std::min(traffic.law.nodes[flow.from].out / out[flow.from],
                         traffic.law.nodes[flow.to].in / in[flow.to]);
      if (left[c] / rate[c] < step) step = left[(next = c)] / rate[c];
    }
    if (next == live) return now;
    now += step;
    for (std::size_t c = 0; c < live; ++c) left[c] -= rate[c] * step;
    if (++at[next] < traffic.chains[next].size()) left[next] = traffic.chains[next][at[next]].bytes;
  }
}

/// No way out or in is faster than its bandwidth: the end is no sooner than this.
double busiest_way(const Traffic& traffic) {
  std::vector<double> out(traffic.law.nodes.size(), 0), in(traffic.law.nodes.size(), 0);
  double most = 0;
  for (const auto& chain : traffic.chains)
    for (const engine::Graph::Flow& flow : chain) {
      out[flow.from] += flow.bytes / traffic.law.nodes[flow.from].out;
      in[flow.to] += flow.bytes / traffic.law.nodes[flow.to].in;
      most = std::max({most, out[flow.from], in[flow.to]});
    }
  return most;
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// nodes / flows under way / flows a chain
void network_star(benchmark::State& state) {
  const Traffic traffic(NetworkLaw::Topology::star, static_cast<std::size_t>(state.range(0)),
                        static_cast<std::size_t>(state.range(1)), static_cast<std::size_t>(state.range(2)));
  double ended = 0, ours = 0;
  for (auto _ : state) ours = seconds_of([&] { ended = on_engine(traffic, *engine::make_fast_engine()); });
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(traffic.flows()));
  if (state.range(1) > 4000) return;  // the reference would take minutes
  double expected = 0;
  const double theirs = seconds_of([&] { expected = by_looking_at_all(traffic); });
  if (std::abs(ended - expected) > 1e-9 * expected) return state.SkipWithError("wrong end");
  state.counters["of_looking_at_all"] = ours / theirs;
}
BENCHMARK(network_star)->Args({256, 200, 50})->Args({256, 2000, 10})->Args({4096, 20000, 10});

/// The same on SimGrid, in a child process; range(3): a mesh, on which fast must end at the same time.
void network_on_simgrid(benchmark::State& state) {
  const bool mesh = state.range(3) != 0;
  const Traffic traffic(mesh ? NetworkLaw::Topology::mesh : NetworkLaw::Topology::star,
                        static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
                        static_cast<std::size_t>(state.range(2)));
  double expected = 0;
  const double fast = seconds_of([&] { expected = on_engine(traffic, *engine::make_fast_engine()); });
  for (auto _ : state) {
    double seconds = 0;
    const std::string ended = engine::run_in_simgrid_child([&] {
      double end = 0;
      const auto engine = engine::make_simgrid_engine();
      const double took = seconds_of([&] { end = on_engine(traffic, *engine); });
      return std::to_string(took) + " " + std::to_string(end);
    });
    const std::size_t space = ended.find(' ');
    seconds = std::stod(ended.substr(0, space));
    const double end = std::stod(ended.substr(space));
    if (mesh ? std::abs(end - expected) > 1e-6 * expected : end < (1 - 1e-6) * busiest_way(traffic))
      return state.SkipWithError("wrong end");
    state.SetIterationTime(seconds);
    state.counters["of_fast"] = seconds / fast;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(traffic.flows()));
}
BENCHMARK(network_on_simgrid)
    ->Args({256, 200, 10, 0})
    ->Args({256, 2000, 1, 0})
    ->Args({256, 2000, 10, 1})
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
}  // namespace moelab
