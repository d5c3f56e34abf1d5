// Measured facts about SimGrid 3.32 that shape the network: the zone that is made first is the root, and
// hosts find their models through it, so a platform file is loaded before anything else is made and the rest
// becomes a child of its root; a host without a route to another is a crash, and most errors in a file end
// the process, so all is tried first in a child process; flows share in inverse proportion to their
// latencies, so links get latency 0 and a flow waits for its route's latency before it is lent; a flow is
// never faster than its links were when it started, so they are as good as unlimited at that moment.
#include "sim/simgrid/simgrid_network.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "sim/child_process.hpp"
#include "sim/network_input.hpp"

namespace moelab::engine {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// What a process writes to its standard error, readable by the process that forked it. An empty file of its
/// own, in memory.
class ErrorText {
 public:
  ErrorText() : file_(memfd_create("moelab", 0)) {}
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  ~ErrorText() { close(file_); }

  void redirect() const { dup2(file_, STDERR_FILENO); }
  /// Forgets what was written for `text`.
  void start_with(const std::string& text) const {
    if (ftruncate(file_, 0) != 0 || lseek(file_, 0, SEEK_SET) != 0) return;
    dprintf(file_, "%s\n", text.c_str());
  }
  /// The first line that says what was wrong, without SimGrid's place in its source; "" if there is none.
  std::string complaint() const {
    std::array<char, 1 << 14> text{};
    const ssize_t size = pread(file_, text.data(), text.size(), 0);
    std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
    for (std::string line; std::getline(lines, line);)
      for (const char* mark : {"/ERROR] ", "/CRITICAL] ", "no route"})
        if (const std::size_t at = line.find(mark); at != std::string::npos)
          return line.substr(line[at] == '/' ? line.find("] ", at) + 2 : at);
    return "";
  }

 private:
  int file_;
};

/// nullptr where the platform has none of that name.
std::vector<sg4::Host*> hosts_of(const NetworkLaw& law) {
  std::vector<sg4::Host*> hosts;
  for (const std::string& name : law.hosts)
    hosts.push_back(sg4::Engine::get_instance()->host_by_name_or_null(name));
  return hosts;
}

/// Asks for every route between hosts that there are; returns what is wrong.
std::string try_routes(const std::vector<sg4::Host*>& hosts, const ErrorText& errors) {
  for (const sg4::Host* from : hosts)
    for (const sg4::Host* to : hosts) {
      if (from == nullptr || to == nullptr || from == to) continue;
      const std::string missing = "no route from host '" + from->get_name() + "' to host '" + to->get_name() +
                                  "': connect them, or name other hosts";
      errors.start_with(missing);  // some zones end the process for want of one, others give an empty one
      std::vector<sg4::Link*> links;
      double latency = 0;
      from->route_to(to, links, &latency);
      if (links.empty()) return missing;
    }
  return "";
}

/// What is wrong with the file, tried in a child process, which SimGrid may end; "" if nothing is.
std::string try_platform(const NetworkLaw& law) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(law.platform_file, none)) return "there is no such file";
  const ErrorText errors;
  const std::string cannot = "SimGrid cannot use this platform: ";
  try {
    const std::string wrong = run_in_child([&] {
      errors.redirect();
      sg4::Engine::get_instance()->load_platform(law.platform_file);
      return try_routes(hosts_of(law), errors);
    });
    return wrong.empty() ? "" : cannot + wrong;
  } catch (const std::runtime_error& error) {
    const std::string complaint = errors.complaint();
    return cannot + (complaint.empty() ? error.what() : complaint);
  }
}

void check_all_there(const NetworkLaw& law, const std::vector<sg4::Host*>& hosts) {
  std::vector<std::string> known;
  for (const sg4::Host* host : sg4::Engine::get_instance()->get_all_hosts())
    known.push_back(host->get_name());
  std::sort(known.begin(), known.end());
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i] == nullptr) refuse_network(law.platform_file, unknown_host(law.hosts[i], known));
}

}  // namespace

std::uint64_t simgrid_size(double units) {
  constexpr double kMost = 0x1p63;
  if (!(units < kMost)) refuse_size();
  return static_cast<std::uint64_t>(std::llround(units));
}

SimGridNetwork::SimGridNetwork(const NetworkLaw& law) : law_(law) {
  check_network(law);
  if (law.topology == NetworkLaw::Topology::platform) {
    load();
    return;
  }
  if (law.topology == NetworkLaw::Topology::mesh && law.nodes.size() > kMostOfMesh)
    refuse_network("", "a mesh of " + std::to_string(law.nodes.size()) + " nodes is more than the " +
                           std::to_string(kMostOfMesh) + " that SimGrid takes; use a star, or executor fast");
  double least = 1e6;  // amounts count in millionths of a byte, and finer where bandwidths are small
  for (const NetworkLaw::Node& node : law.nodes) least = std::min({least, node.out, node.in});
  units_ = 1e12 / least;
}

void SimGridNetwork::load() {
  if (const std::string wrong = try_platform(law_); !wrong.empty()) refuse_network(law_.platform_file, wrong);
  const sg4::Engine& engine = *sg4::Engine::get_instance();
  engine.load_platform(law_.platform_file);
  hosts_ = hosts_of(law_);
  check_all_there(law_, hosts_);
  latencies_.assign(hosts_.size() * hosts_.size(), 0);
  const auto routes = [this](double factor) {
    for (std::size_t from = 0; from < hosts_.size(); ++from)
      for (std::size_t to = 0; to < hosts_.size(); ++to) {
        std::vector<sg4::Link*> links;
        double latency = 0;
        if (from != to) hosts_[from]->route_to(hosts_[to], links, &latency);
        latencies_[from * hosts_.size() + to] += factor * latency;
      }
  };
  routes(1);
  for (sg4::Link* link : engine.get_all_links()) link->set_latency(0);
  routes(-1);  // latencies that are no link's stay SimGrid's
}

void SimGridNetwork::build(sg4::NetZone& star) {
  if (law_.topology == NetworkLaw::Topology::star) build_star(star);
  if (law_.topology == NetworkLaw::Topology::mesh)
    build_mesh(*sg4::create_full_zone("moelab-mesh")->set_parent(&star));
}

void SimGridNetwork::build_star(sg4::NetZone& star) {
  const std::size_t count = law_.nodes.size();
  links_.assign(2 * count, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "moelab-node" + std::to_string(i);
    hosts_.push_back(star.create_host(name, 1.0));
    // What has no limit is no link: flows that meet there only have nothing to do with each other.
    const auto way = [&](const char* side, double bandwidth) {
      std::vector<sg4::LinkInRoute> route;
      if (bandwidth == kNoLimit) return route;
      sg4::Link*& link = links_[side[0] == 'i' ? count + i : i];
      link = star.create_link(name + side, bandwidth * units_)->set_latency(0);
      route.emplace_back(link);
      return route;
    };
    star.add_route(hosts_[i]->get_netpoint(), nullptr, nullptr, nullptr, way("out", law_.nodes[i].out),
                   false);
    star.add_route(nullptr, hosts_[i]->get_netpoint(), nullptr, nullptr, way("in", law_.nodes[i].in), false);
  }
}

void SimGridNetwork::build_mesh(sg4::NetZone& mesh) {
  const std::size_t count = law_.nodes.size();
  links_.assign(count * count, nullptr);
  for (std::size_t i = 0; i < count; ++i)
    hosts_.push_back(mesh.create_host("moelab-node" + std::to_string(i), 1.0));
  for (NodeId from = 0; from < count; ++from)
    for (NodeId to = 0; to < count; ++to) {
      if (from == to || bandwidth(from, to) == kNoLimit) continue;
      sg4::Link*& link = links_[from * count + to];
      link = mesh.create_link("moelab-link" + std::to_string(from) + "-" + std::to_string(to),
                              bandwidth(from, to) * units_)
                 ->set_latency(0);
      mesh.add_route(hosts_[from]->get_netpoint(), hosts_[to]->get_netpoint(), nullptr, nullptr,
                     {sg4::LinkInRoute(link)}, false);
    }
  mesh.seal();
}

double SimGridNetwork::bandwidth(NodeId from, NodeId to) const {
  if (law_.topology != NetworkLaw::Topology::platform)
    return std::min(law_.nodes[from].out, law_.nodes[to].in);
  std::vector<sg4::Link*> links;
  double latency = 0, least = kNoLimit;
  hosts_[from]->route_to(hosts_[to], links, &latency);
  for (const sg4::Link* link : links) least = std::min(least, link->get_bandwidth());
  return least;
}

std::uint64_t SimGridNetwork::size_of(double bytes) const {
  return simgrid_size(bytes * units_);
}

bool SimGridNetwork::takes_time(NodeId from, NodeId to, double bytes) const {
  return bandwidth(from, to) < kNoLimit && size_of(bytes) > 0;
}

void SimGridNetwork::set_bandwidths(NodeId from, NodeId to, double factor) const {
  const std::size_t count = law_.nodes.size();
  const auto set = [&](sg4::Link* link, double bandwidth) {
    if (link != nullptr) link->set_bandwidth(bandwidth * units_ * factor);
  };
  if (law_.topology == NetworkLaw::Topology::star) {
    set(links_[from], law_.nodes[from].out);
    set(links_[count + to], law_.nodes[to].in);
  } else if (law_.topology == NetworkLaw::Topology::mesh) {
    set(links_[from * count + to], bandwidth(from, to));
  }
}

void SimGridNetwork::send(sg4::Comm& message, NodeId from, NodeId to, double bytes) const {
  constexpr double kWide = 1e9;
  message.set_payload_size(size_of(bytes));
  message.set_source(hosts_[from]);
  set_bandwidths(from, to, kWide);
  message.set_destination(hosts_[to]);  // starts it
  set_bandwidths(from, to, 1);
}

void SimGridNetwork::set_node(NodeId node, NetworkLaw::Node bandwidth_of_node) {
  check_node(node, bandwidth_of_node);
  if (law_.topology == NetworkLaw::Topology::platform)
    throw std::logic_error("engine: a platform's bandwidths are its file's");
  const NetworkLaw::Node before = law_.nodes[node];
  if ((before.out == kNoLimit) != (bandwidth_of_node.out == kNoLimit) ||
      (before.in == kNoLimit) != (bandwidth_of_node.in == kNoLimit))
    refuse_network("", "node " + std::to_string(node) +
                           " of the network gets or loses its limit on the way; with executor simgrid it has "
                           "one from the start (a large bandwidth) or never");
  law_.nodes[node] = bandwidth_of_node;
  const std::size_t count = law_.nodes.size();
  const auto renew = [this](std::size_t link, double bandwidth) {
    if (link < links_.size() && links_[link] != nullptr) links_[link]->set_bandwidth(bandwidth * units_);
  };
  if (law_.topology == NetworkLaw::Topology::star) {
    renew(node, bandwidth_of_node.out);
    renew(count + node, bandwidth_of_node.in);
    return;
  }
  for (NodeId other = 0; other < count; ++other) {
    renew(node * count + other, bandwidth(node, other));
    renew(other * count + node, bandwidth(other, node));
  }
}

}  // namespace moelab::engine
