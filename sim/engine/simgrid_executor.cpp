// The executor that lends running operations to SimGrid 3.32, which lets them share capacities and the
// network. The only file that includes SimGrid.
//
// What is lent: an operation's fixed seconds as an Exec on a host of speed 1 with a core for everybody (a
// pure delay), its amount as a Comm over the links of the capacity and of all that are beyond it, no faster
// than it is when alone; a flow as a Comm between two hosts of the network. Only running operations exist in
// SimGrid, so the cost is about a microsecond each, however large the graphs are.
//
// Measured facts about 3.32 that shape this file: activities made outside actors are completed by run();
// their completion callback is global, fires before anything else of that instant, and needs the activity's
// smart pointer alive until it has returned; completions of one instant come in the solver's order, so they
// are gathered and a timer at the same date hands them on; latency 0 and CM02 make links plain max-min; one
// engine a process, for ever: run in a child (child_process.hpp).
//
// Measured facts that shape its network: the zone that is made first is the root, and hosts find
// their models through it, so a platform file is loaded before anything else is made and the rest becomes a
// child of its root; a host without a route to another is a crash, and most errors in a file end the process,
// so all is tried first in a child process; flows share in inverse proportion to their latencies, so links
// get latency 0 and a flow waits for its route's latency before it is lent; a flow is never faster than its
// links were when it started, so they are as good as unlimited at that moment.
#include <sys/mman.h>
#include <unistd.h>
#include <xbt/log.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/child_process.hpp"
#include "sim/engine/dispatcher.hpp"
#include "sim/network_input.hpp"

namespace moelab::engine {
namespace {

namespace sg4 = simgrid::s4u;
using simgrid::kernel::timer::Timer;

/// SimGrid's sizes are whole numbers. Throws InputError for what is more than they hold.
std::uint64_t simgrid_size(double units) {
  constexpr double kMost = 0x1p63;
  if (!(units < kMost)) refuse_size();
  return static_cast<std::uint64_t>(std::llround(units));
}

constexpr int kManyCores = 1'000'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// The network as SimGrid's hosts, links and routes.
class SimGridNetwork {
 public:
  /// Nodes of a mesh: it has a link for each ordered pair (65,280 of 256 nodes).
  static constexpr std::size_t kMostOfMesh = 256;

  /// Loads a platform file. Throws InputError for a law that is wrong, a mesh that is too large, and a file
  /// that SimGrid cannot use.
  explicit SimGridNetwork(const NetworkLaw& law);

  /// Makes hosts, links and routes of a star or mesh in `star`, a star zone that is not sealed.
  void build(sg4::NetZone& star);
  std::size_t nodes() const { return nodes_of(law_); }
  void set_node(NodeId node, NetworkLaw::Node bandwidth);

  /// Bytes a second and seconds, of a flow that is alone.
  double bandwidth(NodeId from, NodeId to) const;
  double latency(NodeId from, NodeId to) const {
    return latencies_.empty() ? 0 : latencies_[from * hosts_.size() + to];
  }
  /// Whether so many bytes take any time, beyond the latency.
  bool takes_time(NodeId from, NodeId to, double bytes) const;
  /// Gives a message that has not started its size and ends: it starts.
  void send(sg4::Comm& message, NodeId from, NodeId to, double bytes) const;

 private:
  void load();
  void build_star(sg4::NetZone& star);
  void build_mesh(sg4::NetZone& mesh);
  std::uint64_t size_of(double bytes) const;
  void set_bandwidths(NodeId from, NodeId to, double factor) const;

  NetworkLaw law_;    // bandwidths as they are now
  double units_ = 1;  // SimGrid's sizes are whole numbers: so many for a byte
  std::vector<sg4::Host*> hosts_;
  // Star: out of each node, then into each. Mesh: of each pair. nullptr: no limit, or no pair.
  std::vector<sg4::Link*> links_;
  std::vector<double> latencies_;  // platform: of each pair
};

class SimGridExecutor {
 public:
  static constexpr const char* kName = "simgrid";
  static constexpr bool kResolvesChains = true;
  static constexpr bool kOwnClock = true;

  SimGridExecutor();
  SimGridExecutor(const SimGridExecutor&) = delete;
  SimGridExecutor& operator=(const SimGridExecutor&) = delete;

  void add_capacity(const CapacityLaw& law) { laws_.push_back(law); }
  void set_network(const NetworkLaw& law) { network_.emplace(law); }
  void prepare(std::size_t most, std::span<const std::uint32_t> slots);
  void start(Graph& graph, OpIndex op, double now);
  void set_factor(CapacityId id, double factor, double now);
  void set_node(NodeId node, NetworkLaw::Node bandwidth, double) { network_->set_node(node, bandwidth); }
  double flow_seconds(NodeId from, NodeId to, double bytes) const {
    return network_->latency(from, to) + bytes / network_->bandwidth(from, to);
  }
  std::size_t nodes() const { return network_ ? network_->nodes() : 0; }

  template <class Round>
  void drive(double limit, Round round) {
    round_ = round;
    sg4::Activity::on_completion_cb([this](const sg4::Activity& activity) { completed(activity); });
    sg4::Engine::on_time_advance_cb([this](double) { graveyard_.clear(); });
    set_limit(limit);
    engine_.run();
    graveyard_.clear();
  }

 private:
  /// A way to the capacities for one operation at a time, no faster than `own`.
  struct Way {
    sg4::Host* from;
    sg4::Link* own;
    double alone = 0;  // bandwidth of `own` where nothing interferes with who has the way
    CapacityId capacity = kNoCapacity;
  };
  struct Capacity {
    std::vector<sg4::LinkInRoute> links;  // its own, then those beyond: the way to `to`
    double units;                         // SimGrid's sizes are whole numbers: so many for 1 of the amount
    sg4::Host* to;
    sg4::Link* own;
    double alone;                    // bandwidth of `own` where nothing interferes
    double factor = 1;               // by which what is busy slows its users
    std::vector<std::size_t> users;  // ways
  };
  static constexpr std::size_t kNoWay = std::numeric_limits<std::size_t>::max();
  struct Lent {
    InFlight what;
    sg4::ActivityPtr activity;
    Then then;  // its amount or flow follows
    std::size_t way = kNoWay;
  };

  void add_link(const CapacityLaw& law);
  void add_way();
  void lend_fixed(const InFlight& what, double seconds, Then then);
  void lend_shared(const InFlight& what);
  void lend_flow(const InFlight& what);
  void send(sg4::Comm& message, std::size_t way);
  void set_bandwidths(CapacityId id, bool interfered);
  void give_back(std::size_t way);
  sg4::CommPtr lend_comm(const InFlight& what, std::size_t way);
  void completed(const sg4::Activity& activity);
  void hand_on_later();
  void hand_on();
  void set_limit(double limit);

  sg4::Engine engine_;
  sg4::NetZone* zone_ = nullptr;
  sg4::Host* delays_ = nullptr;
  std::vector<CapacityLaw> laws_;     // by CapacityId
  std::vector<Capacity> capacities_;  // by CapacityId, once the run begins
  std::vector<Way> ways_;
  std::vector<std::size_t> free_ways_;
  std::optional<SimGridNetwork> network_;
  std::unordered_map<const sg4::Activity*, Lent> lent_;  // looked up only, never iterated
  std::vector<sg4::ActivityPtr> graveyard_;              // ended, kept until time moves on
  std::vector<InFlight> ended_;
  bool hand_on_set_ = false;
  double limit_ = kNever;
  std::function<double(double, std::span<InFlight>)> round_;
};

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
      if (bandwidth == kNever) return route;
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
      if (from == to || bandwidth(from, to) == kNever) continue;
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
  double latency = 0, least = kNever;
  hosts_[from]->route_to(hosts_[to], links, &latency);
  for (const sg4::Link* link : links) least = std::min(least, link->get_bandwidth());
  return least;
}

std::uint64_t SimGridNetwork::size_of(double bytes) const {
  return simgrid_size(bytes * units_);
}

bool SimGridNetwork::takes_time(NodeId from, NodeId to, double bytes) const {
  return bandwidth(from, to) < kNever && size_of(bytes) > 0;
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
  if ((before.out == kNever) != (bandwidth_of_node.out == kNever) ||
      (before.in == kNever) != (bandwidth_of_node.in == kNever))
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

int make_quiet() {
  xbt_log_control_set("xbt_cfg.thres:warning");
  xbt_log_control_set("ker_lmm.thres:error");  // else a run that is refused on its way says what it leaves
  return 0;
}

SimGridExecutor::SimGridExecutor() : engine_((make_quiet(), "moelab")) {
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma", 1e18);
}

// A star: an operation leaves by its own way and arrives by its capacity's links, a flow by those of its
// nodes.
void SimGridExecutor::prepare(std::size_t most, std::span<const std::uint32_t>) {
  sg4::NetZone* const root = engine_.get_netzone_root();  // a platform file's, if there is one
  zone_ = sg4::create_star_zone("moelab");
  if (root != nullptr) zone_->set_parent(root);
  delays_ = zone_->create_host("moelab-delays", 1.0);
  delays_->set_core_count(kManyCores);
  for (const CapacityLaw& law : laws_) add_link(law);
  if (!laws_.empty())
    for (std::size_t i = 0; i < most; ++i) add_way();
  if (network_) network_->build(*zone_);
  zone_->seal();
}

// Amounts in seconds (bandwidth 1) count in picoseconds, amounts in bytes in millionths of one.
double units_of(double bandwidth) {
  return 1e12 / std::min(bandwidth, 1e6);
}

void SimGridExecutor::add_link(const CapacityLaw& law) {
  const Capacity* const beyond = law.beyond == kNoCapacity ? nullptr : &capacities_[law.beyond];
  const std::string number = std::to_string(capacities_.size());
  const double units = beyond != nullptr ? beyond->units : units_of(law.bandwidth);
  const double alone = law.bandwidth * units;
  sg4::Link* link = zone_->create_link("moelab-capacity" + number, alone)->set_latency(0);
  Capacity capacity{{}, units, zone_->create_host("moelab-to" + number, 1.0), link, alone, 1, {}};
  // n users get n / slowdown[n - 1] of a user's full speed together.
  link->set_sharing_policy(sg4::Link::SharingPolicy::NONLINEAR,
                           [slowdown = law.slowdown](double full, int users) {
                             const auto n = static_cast<std::size_t>(std::max(users, 1));
                             if (n <= slowdown.size()) return full * static_cast<double>(n) / slowdown[n - 1];
                             return full * static_cast<double>(slowdown.size()) / slowdown.back();
                           });
  capacity.links.emplace_back(link);
  if (beyond != nullptr)
    capacity.links.insert(capacity.links.end(), beyond->links.begin(), beyond->links.end());
  zone_->add_route(nullptr, capacity.to->get_netpoint(), nullptr, nullptr, capacity.links, false);
  capacities_.push_back(std::move(capacity));
}

void SimGridExecutor::add_way() {
  const std::string number = std::to_string(ways_.size());
  const Way way{zone_->create_host("moelab-from" + number, 1.0),
                zone_->create_link("moelab-own" + number, 1.0)->set_latency(0)};
  zone_->add_route(way.from->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(way.own)}, false);
  free_ways_.push_back(ways_.size());
  ways_.push_back(way);
}

sg4::CommPtr SimGridExecutor::lend_comm(const InFlight& what, std::size_t way) {
  sg4::CommPtr comm = sg4::Comm::sendto_init();
  lent_[comm.get()] = {what, comm, Then::ends, way};
  return comm;
}

void SimGridExecutor::lend_shared(const InFlight& what) {
  const CapacityId id = what.graph->capacity(what.op);
  Capacity& capacity = capacities_[id];
  if (free_ways_.empty())
    throw std::logic_error("simgrid: more than " + std::to_string(ways_.size()) +
                           " operations at once share capacities");
  const std::size_t number = free_ways_.back();
  free_ways_.pop_back();
  Way& way = ways_[number];
  const double units = what.graph->shared_amount(what.op) * capacity.units;
  way.alone = units / what.graph->shared_seconds(what.op);
  way.capacity = id;
  capacity.users.push_back(number);
  const sg4::CommPtr comm = lend_comm(what, number);
  comm->set_payload_size(simgrid_size(units));
  send(*comm, number);
}

// It starts where nothing interferes: it would never be faster than its links were at that moment.
void SimGridExecutor::send(sg4::Comm& message, std::size_t number) {
  const Way& way = ways_[number];
  const Capacity& capacity = capacities_[way.capacity];
  message.set_source(way.from);
  way.own->set_bandwidth(way.alone);
  set_bandwidths(way.capacity, false);
  message.set_destination(capacity.to);  // starts it
  set_bandwidths(way.capacity, true);
  if (capacity.factor != 1) way.own->set_bandwidth(way.alone / capacity.factor);
}

// Of what interference slows among a capacity and those beyond it.
void SimGridExecutor::set_bandwidths(CapacityId id, bool interfered) {
  for (; id != kNoCapacity; id = laws_[id].beyond)
    if (const Capacity& c = capacities_[id]; c.factor != 1)
      c.own->set_bandwidth(interfered ? c.alone / c.factor : c.alone);
}

// An operation may be slower than the capacity, so its own way is slowed as well.
void SimGridExecutor::set_factor(CapacityId id, double factor, double) {
  Capacity& capacity = capacities_[id];
  if (factor == capacity.factor) return;
  capacity.factor = factor;
  capacity.own->set_bandwidth(capacity.alone / factor);
  for (const std::size_t user : capacity.users) ways_[user].own->set_bandwidth(ways_[user].alone / factor);
}

void SimGridExecutor::give_back(std::size_t way) {
  std::erase(capacities_[ways_[way].capacity].users, way);
  free_ways_.push_back(way);
}

void SimGridExecutor::lend_flow(const InFlight& what) {
  const Graph::Flow& flow = what.graph->flow(what.op);
  if (!network_->takes_time(flow.from, flow.to, flow.bytes)) return lend_fixed(what, 0, Then::ends);
  network_->send(*lend_comm(what, kNoWay), flow.from, flow.to, flow.bytes);
}

void SimGridExecutor::lend_fixed(const InFlight& what, double seconds, Then then) {
  sg4::ExecPtr exec = sg4::Exec::init();
  lent_[exec.get()] = {what, exec, then};
  exec->set_flops_amount(seconds);
  exec->set_host(delays_);
  exec->start();
}

void SimGridExecutor::start(Graph& graph, OpIndex op, double now) {
  const InFlight what{now, &graph, op};
  if (graph.capacity(op) == kNetwork) {
    const double before = graph.seconds(op) + network_->latency(graph.flow(op).from, graph.flow(op).to);
    if (before > 0) return lend_fixed(what, before, Then::flows);
    return lend_flow(what);
  }
  const bool shares = graph.capacity(op) != kNoCapacity && graph.shared_amount(op) > 0;
  const double shared = shares ? graph.shared_seconds(op) : 0;
  const double fixed = graph.seconds(op) - shared;
  if (shared > 0 && fixed <= 0) return lend_shared(what);
  lend_fixed(what, fixed, shared > 0 ? Then::shares : Then::ends);
}

void SimGridExecutor::completed(const sg4::Activity& activity) {
  const auto found = lent_.find(&activity);
  if (found == lent_.end()) return;
  Lent lent = std::move(found->second);
  lent_.erase(found);
  graveyard_.push_back(lent.activity);
  if (activity.get_state() == sg4::Activity::State::FAILED)
    throw std::runtime_error("simgrid: a link of the platform went down under a flow");
  if (lent.way != kNoWay) give_back(lent.way);
  if (lent.then == Then::shares) return lend_shared(lent.what);
  if (lent.then == Then::flows) return lend_flow(lent.what);
  lent.what.end = sg4::Engine::get_clock();
  if (lent.what.graph != nullptr) ended_.push_back(lent.what);
  hand_on_later();
}

// From a completion, a timer at this date runs once all completions of the instant are in.
void SimGridExecutor::hand_on_later() {
  if (std::exchange(hand_on_set_, true)) return;
  Timer::set(sg4::Engine::get_clock(), [this] { hand_on(); });
}

void SimGridExecutor::hand_on() {
  hand_on_set_ = false;
  std::vector<InFlight> ended;
  ended.swap(ended_);
  set_limit(round_(sg4::Engine::get_clock(), ended));
}

// SimGrid runs due timers before it delivers what ended at that date. So the limit's timer lends an operation
// of no length and no graph: its completion, if nothing else ends then, hands on behind all the others.
void SimGridExecutor::set_limit(double limit) {
  if (limit == limit_) return;
  limit_ = limit;
  if (limit == kNever) return;
  Timer::set(limit, [this, limit] {
    if (limit_ != limit) return;  // overtaken by an earlier one
    limit_ = kNever;
    lend_fixed({limit, nullptr, 0}, 0, Then::ends);
  });
}

}  // namespace

std::unique_ptr<Engine> make_simgrid_engine() {
  return std::make_unique<Dispatcher<SimGridExecutor>>();
}

}  // namespace moelab::engine
