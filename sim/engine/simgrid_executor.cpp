// The executor that lends running operations to SimGrid 3.32, which lets them share capacities. The only file
// that includes SimGrid.
//
// What is lent: an operation's fixed seconds as an Exec on a host of speed 1 with a core for everybody (a
// pure delay), its amount as a Comm over the links of the capacity and of all that are beyond it, no faster
// than it is when alone. Only running operations exist in SimGrid, so the cost is about a microsecond each,
// however large the graphs are.
//
// Measured facts about 3.32 that shape this file: activities made outside actors are completed by run();
// their completion callback is global, fires before anything else of that instant, and needs the activity's
// smart pointer alive until it has returned; completions of one instant come in the solver's order, so they
// are gathered and a timer at the same date hands them on; latency 0 and CM02 make links plain max-min; one
// engine a process, for ever: run in a child (child_process.hpp).
#include <xbt/log.h>
#include <cmath>
#include <deque>
#include <functional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/engine/dispatcher.hpp"

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

  void add_capacity(const CapacityLaw& law);
  void prepare(std::size_t most, std::span<const std::uint32_t>) { add_ways(most); }
  void start(Graph& graph, OpIndex op, double now);
  void set_factor(CapacityId, double, double) {}  // it sees the cause: shared capacity

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
  /// A way through a capacity for one operation at a time.
  struct Way {
    sg4::Host* from;
    sg4::Host* to;
    sg4::Link* own;
  };
  struct Capacity {
    std::vector<sg4::LinkInRoute> links;  // its own, then those beyond
    double units;                         // SimGrid's sizes are whole numbers: so many for 1 of the amount
    std::vector<Way> ways;
    std::vector<std::size_t> free_ways;
  };
  struct Lent {
    InFlight what;
    sg4::ActivityPtr activity;
    bool then_shared;  // its amount follows
    Capacity* capacity = nullptr;
    std::size_t way = 0;
  };

  void add_ways(std::size_t count);
  void lend_fixed(const InFlight& what, double seconds, bool then_shared);
  void lend_shared(const InFlight& what);
  void completed(const sg4::Activity& activity);
  void hand_on_later();
  void hand_on();
  void set_limit(double limit);

  sg4::Engine engine_;
  sg4::NetZone* zone_;
  sg4::Host* delays_;
  std::deque<Capacity> capacities_;                      // by CapacityId
  std::unordered_map<const sg4::Activity*, Lent> lent_;  // looked up only, never iterated
  std::vector<sg4::ActivityPtr> graveyard_;              // ended, kept until time moves on
  std::vector<InFlight> ended_;
  bool hand_on_set_ = false;
  double limit_ = kNever;
  std::function<double(double, std::span<InFlight>)> round_;
};

int make_quiet() {
  xbt_log_control_set("xbt_cfg.thres:warning");
  return 0;
}

SimGridExecutor::SimGridExecutor() : engine_((make_quiet(), "moelab")) {
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma", 1e18);
  zone_ = sg4::create_full_zone("moelab");
  delays_ = zone_->create_host("delays", 1.0);
  delays_->set_core_count(kManyCores);
  delays_->seal();
}

// Amounts in seconds (bandwidth 1) count in picoseconds, amounts in bytes in millionths of one.
double units_of(double bandwidth) {
  return 1e12 / std::min(bandwidth, 1e6);
}

void SimGridExecutor::add_capacity(const CapacityLaw& law) {
  const Capacity* const beyond = law.beyond == kNoCapacity ? nullptr : &capacities_[law.beyond];
  Capacity capacity{{}, beyond != nullptr ? beyond->units : units_of(law.bandwidth), {}, {}};
  const double full = law.bandwidth * capacity.units;
  sg4::Link* link = zone_->create_link("capacity" + std::to_string(capacities_.size()), full)->set_latency(0);
  // n users get n / slowdown[n - 1] of a user's full speed together.
  link->set_sharing_policy(sg4::Link::SharingPolicy::NONLINEAR,
                           [full, slowdown = law.slowdown](double, int users) {
                             const auto n = static_cast<std::size_t>(std::max(users, 1));
                             if (n <= slowdown.size()) return full * static_cast<double>(n) / slowdown[n - 1];
                             return full * static_cast<double>(slowdown.size()) / slowdown.back();
                           });
  capacity.links.emplace_back(link);
  if (beyond != nullptr)
    capacity.links.insert(capacity.links.end(), beyond->links.begin(), beyond->links.end());
  capacities_.push_back(std::move(capacity));
}

void SimGridExecutor::add_ways(std::size_t count) {
  for (std::size_t c = 0; c < capacities_.size(); ++c) {
    Capacity& capacity = capacities_[c];
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = std::to_string(c) + "-" + std::to_string(i);
      const Way way{zone_->create_host("from" + name, 1.0), zone_->create_host("to" + name, 1.0),
                    zone_->create_link("own" + name, 1.0)->set_latency(0)};
      std::vector<sg4::LinkInRoute> links{sg4::LinkInRoute(way.own)};
      links.insert(links.end(), capacity.links.begin(), capacity.links.end());
      zone_->add_route(way.from->get_netpoint(), way.to->get_netpoint(), nullptr, nullptr, links, false);
      capacity.ways.push_back(way);
      capacity.free_ways.push_back(count - 1 - i);
    }
  }
}

void SimGridExecutor::lend_shared(const InFlight& what) {
  Capacity& capacity = capacities_[what.graph->capacity(what.op)];
  if (capacity.free_ways.empty())
    throw std::logic_error("simgrid: more than " + std::to_string(capacity.ways.size()) +
                           " operations at once share a capacity");
  const std::size_t number = capacity.free_ways.back();
  capacity.free_ways.pop_back();
  const Way& way = capacity.ways[number];
  const double units = what.graph->shared_amount(what.op) * capacity.units;
  way.own->set_bandwidth(units / what.graph->shared_seconds(what.op));
  sg4::CommPtr comm = sg4::Comm::sendto_init();
  lent_[comm.get()] = {what, comm, false, &capacity, number};
  comm->set_payload_size(static_cast<std::uint64_t>(std::llround(units)));
  comm->set_source(way.from);
  comm->set_destination(way.to);  // starts it
}

void SimGridExecutor::lend_fixed(const InFlight& what, double seconds, bool then_shared) {
  sg4::ExecPtr exec = sg4::Exec::init();
  lent_[exec.get()] = {what, exec, then_shared};
  exec->set_flops_amount(seconds);
  exec->set_host(delays_);
  exec->start();
}

void SimGridExecutor::start(Graph& graph, OpIndex op, double now) {
  const InFlight what{now, &graph, op};
  const bool shares = graph.capacity(op) != kNoCapacity && graph.shared_amount(op) > 0;
  const double shared = shares ? graph.shared_seconds(op) : 0;
  const double fixed = graph.seconds(op) - shared;
  if (shared > 0 && fixed <= 0) {
    lend_shared(what);
    return;
  }
  lend_fixed(what, fixed, shared > 0);
}

void SimGridExecutor::completed(const sg4::Activity& activity) {
  const auto found = lent_.find(&activity);
  if (found == lent_.end()) return;
  Lent lent = std::move(found->second);
  lent_.erase(found);
  graveyard_.push_back(lent.activity);
  if (lent.capacity != nullptr) lent.capacity->free_ways.push_back(lent.way);
  if (lent.then_shared) {
    lend_shared(lent.what);
    return;
  }
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
    lend_fixed({limit, nullptr, 0}, 0, false);
  });
}

}  // namespace

std::unique_ptr<Engine> make_simgrid_engine() {
  return std::make_unique<Dispatcher<SimGridExecutor>>();
}

}  // namespace moelab::engine
