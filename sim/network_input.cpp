#include "sim/network_input.hpp"

#include <set>
#include <sstream>

#include "models/input_error.hpp"

namespace moelab::engine {
namespace {

void check_way(NodeId node, const char* way, double bandwidth, Problems& problems) {
  if (bandwidth > 0) return;
  std::ostringstream what;
  what << "node " << node << " of the network has " << bandwidth << " bytes/s " << way
       << "; a bandwidth is above 0: a node that is cut off is one that no node sends to";
  problems.add({"", 0, 0, what.str()});
}

void check_ways(NodeId node, NetworkLaw::Node bandwidth, Problems& problems) {
  check_way(node, "out", bandwidth.out, problems);
  check_way(node, "in", bandwidth.in, problems);
}

void check_hosts(const NetworkLaw& law, Problems& problems) {
  std::set<std::string> seen;
  for (const std::string& host : law.hosts)
    if (!seen.insert(host).second)
      problems.add(
          {law.platform_file, 0, 0, "host '" + host + "' is given twice; each node is a host of its own"});
}

}  // namespace

void check_network(const NetworkLaw& law) {
  Problems problems;
  if (nodes_of(law) == 0)
    problems.add({law.platform_file, 0, 0, "the network has no nodes; it needs one at least"});
  if (law.topology == NetworkLaw::Topology::platform)
    check_hosts(law, problems);
  else
    for (NodeId i = 0; i < law.nodes.size(); ++i) check_ways(i, law.nodes[i], problems);
  problems.throw_if_any();
}

void check_node(NodeId node, NetworkLaw::Node bandwidth) {
  Problems problems;
  check_ways(node, bandwidth, problems);
  problems.throw_if_any();
}

void refuse_network(const std::string& file, const std::string& what) {
  throw InputError(file, what);
}

void refuse_size() {
  throw InputError(
      "",
      "an operation is of more bytes, or longer, than SimGrid can count (106 days); expected the "
      "executor fast");
}

std::string unknown_host(const std::string& name, std::span<const std::string> known) {
  return "there is no host '" + name + "'" + suggestion(name, known);
}

}  // namespace moelab::engine
