// Random networks and flows over them, played by an engine.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/sim/network_reference.hpp"

namespace moelab::test {

enum class Shape { mesh, star_out, star_in, star };  // star_out: ways out are limited only

struct NetworkCase {
  engine::NetworkLaw law;
  std::vector<NaiveFlow> flows;
  std::optional<engine::NetworkLaw> then;  // bandwidths from change_s on
  double change_s = std::numeric_limits<double>::infinity();
};

class NetworkCases {
 public:
  explicit NetworkCases(std::uint64_t seed) : random_(seed) {}
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  engine::NetworkLaw law(Shape shape, std::size_t nodes) {
    engine::NetworkLaw law;
    law.topology =
        shape == Shape::mesh ? engine::NetworkLaw::Topology::mesh : engine::NetworkLaw::Topology::star;
    for (std::size_t i = 0; i < nodes; ++i)
      law.nodes.push_back({shape == Shape::star_in ? kNoLimit : bandwidth(),
                           shape == Shape::star_out ? kNoLimit : bandwidth()});
    return law;
  }
  NaiveFlow flow(std::size_t nodes) {
    NaiveFlow flow;
    flow.from = static_cast<engine::NodeId>(below(nodes));
    flow.to = static_cast<engine::NodeId>((flow.from + 1 + below(nodes - 1)) % nodes);
    flow.start_s = below(3) == 0 ? 0 : uniform();
    flow.bytes = std::floor(1e5 + 1e8 * uniform());
    return flow;
  }
  NetworkCase draw(Shape shape, bool changes) {
    NetworkCase drawn;
    const std::size_t nodes = 2 + below(6);
    drawn.law = law(shape, nodes);
    for (std::size_t f = 1 + below(14); f > 0; --f) drawn.flows.push_back(flow(nodes));
    if (!changes) return drawn;
    drawn.then = law(shape, nodes);
    drawn.change_s = 0.1 + uniform();
    return drawn;
  }

 private:
  double bandwidth() { return 12.5e6 * (1 + 9 * uniform()); }  // 100 to 1,000 Mbit/s

  std::mt19937_64 random_;
};

/// Ends of the case's flows under the engine; each waits for its start as its own seconds.
inline std::vector<double> engine_ends(engine::Engine& engine, const NetworkCase& given) {
  const engine::ResourceId wide = engine.add_resource("flows", engine::kUnlimitedSlots);
  engine.set_network(given.law);
  engine::Graph graph;
  for (const NaiveFlow& f : given.flows)
    graph.flow(graph.add(graph.lane(wide), f.start_s), f.from, f.to, f.bytes);
  const auto play = [&]() -> engine::Process {
    engine.submit(graph, engine::kDemand);
    if (given.then) {
      co_await engine.until(given.change_s);
      for (engine::NodeId i = 0; i < given.then->nodes.size(); ++i) engine.set_node(i, given.then->nodes[i]);
    }
    co_await engine.finished(graph);
  };
  engine::Process process = play();
  engine.spawn(process);
  engine.run();
  std::vector<double> ends;
  for (engine::OpIndex i = 0; i < graph.size(); ++i) ends.push_back(graph.end(i));
  return ends;
}

inline std::vector<double> fast_ends(const NetworkCase& given) {
  return engine_ends(*engine::make_fast_engine(), given);
}

inline std::vector<double> simgrid_ends(const NetworkCase& given) {
  std::istringstream in(engine::run_in_simgrid_child([&] {
    std::ostringstream out;
    out.precision(17);
    for (const double end : engine_ends(*engine::make_simgrid_engine(), given)) out << end << " ";
    return out.str();
  }));
  return std::vector<double>(std::istream_iterator<double>(in), {});
}

/// The greatest |a - b| / b.
inline double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / b[i]);
  return worst;
}

}  // namespace moelab::test
