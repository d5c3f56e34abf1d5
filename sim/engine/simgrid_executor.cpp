// The executor that lends running operations to SimGrid 3.32, which lets them share capacities. The only file
// that includes SimGrid.
//
// What is lent: an operation's fixed seconds as an Exec on a host of speed 1 with a core for everybody (a
// pure delay), its shared seconds as a Comm over the capacity's link, whose bandwidth is a second of shared
// time a second. Only running operations exist in SimGrid, so the cost is about a microsecond each, however
// large the graphs are.
//
// Measured facts about 3.32 that shape this file: activities made outside actors are completed by run();
// their completion callback is global, fires before anything else of that instant, and needs the activity's
// smart pointer alive until it has returned; completions of one instant come in the solver's order, so they
// are gathered and a timer at the same date hands them on; latency 0 and CM02 make links plain max-min; one
// engine a process, for ever: run in a child (child_process.hpp).
#include <xbt/log.h>
#include <cmath>
#include <functional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <utility>

#include "sim/engine/dispatcher.hpp"

namespace moelab::engine {
namespace {

namespace sg4 = simgrid::s4u;
using simgrid::kernel::timer::Timer;

constexpr int kManyCores = 1'000'000;
constexpr double kUnits =
    1e12;  // sizes are whole numbers: a second of shared time is this many units, a unit a picosecond
constexpr double kNever = std::numeric_limits<double>::infinity();

class SimGridExecutor {
 public:
  static constexpr const char* kName = "simgrid";
  static constexpr bool kSharesCapacities = true;
  static constexpr bool kOwnClock = true;

  SimGridExecutor();
  SimGridExecutor(const SimGridExecutor&) = delete;
  SimGridExecutor& operator=(const SimGridExecutor&) = delete;

  void add_capacity(const std::vector<double>& slowdown);
  void start(Graph& graph, OpIndex op, double now, double seconds);

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
  struct Lent {
    InFlight what;
    sg4::ActivityPtr activity;
    double then_shared;  // seconds on the capacity's link that follow; 0: none
  };
  struct Link {
    sg4::Host* from;
    sg4::Host* to;
  };

  void lend(sg4::ActivityPtr activity, const InFlight& what, double then_shared) {
    lent_[activity.get()] = {what, activity, then_shared};
  }
  void lend_fixed(const InFlight& what, double seconds, double then_shared);
  void lend_shared(const InFlight& what, double seconds);
  void completed(const sg4::Activity& activity);
  void hand_on_later();
  void hand_on();
  void set_limit(double limit);

  sg4::Engine engine_;
  sg4::NetZone* zone_;
  sg4::Host* delays_;
  std::vector<Link> links_;                              // by CapacityId
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

void SimGridExecutor::add_capacity(const std::vector<double>& slowdown) {
  const std::string number = std::to_string(links_.size());
  sg4::Host* from = zone_->create_host("from" + number, 1.0);
  sg4::Host* to = zone_->create_host("to" + number, 1.0);
  sg4::Link* link = zone_->create_link("capacity" + number, kUnits)->set_latency(0);
  // n users get n / slowdown[n - 1] of a user's full speed together.
  link->set_sharing_policy(sg4::Link::SharingPolicy::NONLINEAR, [slowdown](double, int users) {
    const auto n = static_cast<std::size_t>(std::max(users, 1));
    if (n <= slowdown.size()) return kUnits * static_cast<double>(n) / slowdown[n - 1];
    return kUnits * static_cast<double>(slowdown.size()) / slowdown.back();
  });
  zone_->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(link)},
                   false);
  links_.push_back({from, to});
}

void SimGridExecutor::lend_shared(const InFlight& what, double seconds) {
  const Link& link = links_[what.graph->capacity(what.op)];
  sg4::CommPtr comm = sg4::Comm::sendto_init();
  lend(comm, what, 0);
  comm->set_payload_size(static_cast<std::uint64_t>(std::llround(seconds * kUnits)));
  comm->set_source(link.from);
  comm->set_destination(link.to);  // starts it
}

void SimGridExecutor::lend_fixed(const InFlight& what, double seconds, double then_shared) {
  sg4::ExecPtr exec = sg4::Exec::init();
  lend(exec, what, then_shared);
  exec->set_flops_amount(seconds);
  exec->set_host(delays_);
  exec->start();
}

void SimGridExecutor::start(Graph& graph, OpIndex op, double now, double seconds) {
  const InFlight what{now, &graph, op};
  const double shared = graph.capacity(op) == kNoCapacity ? 0 : graph.shared_seconds(op);
  const double fixed = seconds - shared;
  if (shared > 0 && fixed <= 0) {
    lend_shared(what, shared);
    return;
  }
  lend_fixed(what, fixed, shared);
}

void SimGridExecutor::completed(const sg4::Activity& activity) {
  const auto found = lent_.find(&activity);
  if (found == lent_.end()) return;
  Lent lent = std::move(found->second);
  lent_.erase(found);
  graveyard_.push_back(lent.activity);
  if (lent.then_shared > 0) {
    lend_shared(lent.what, lent.then_shared);
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
    lend_fixed({limit, nullptr, 0}, 0, 0);
  });
}

}  // namespace

std::unique_ptr<Engine> make_simgrid_engine() {
  return std::make_unique<Dispatcher<SimGridExecutor>>();
}

}  // namespace moelab::engine
