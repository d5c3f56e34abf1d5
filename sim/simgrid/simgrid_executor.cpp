// The executor that lends running operations to SimGrid 3.32, which lets them share capacities and the
// network. This folder is a module (sim/simgrid_module.hpp), and alone includes SimGrid.
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
#include <xbt/log.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/engine/dispatcher.hpp"
#include "sim/simgrid/simgrid_network.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/version.hpp"

namespace moelab::engine {
namespace {

namespace sg4 = simgrid::s4u;
using simgrid::kernel::timer::Timer;

constexpr int kManyCores = 1'000'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

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

}  // namespace moelab::engine

moelab::engine::Engine* moelab_make_simgrid_engine() {
  using namespace moelab::engine;
  return std::make_unique<Dispatcher<SimGridExecutor>>().release();
}

const char* moelab_simgrid_version() {
  return moelab::program_version().c_str();
}
