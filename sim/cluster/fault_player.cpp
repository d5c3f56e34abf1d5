#include "sim/cluster/fault_player.hpp"

#include <algorithm>
#include <array>

#include "models/input_error.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kFaults = 0x3c6ef372fe94f82b;  // a stream of random numbers
constexpr std::uint64_t kMostEvents = 20'000;          // experts are placed anew after each: a run is to end
constexpr std::array<const char*, 3> kEvents = {"leaves", "returns", "bandwidth"};

}  // namespace

FaultPlayer::FaultPlayer(ClusterWorld& world, std::vector<std::unique_ptr<PlacedServer>>& servers,
                         GlobalScheduler& scheduler)
    : world_(world), servers_(servers), scheduler_(scheduler) {
  if (!world.scenario.cluster->fault_rates) return;
  for (std::size_t server = 0; server < servers.size(); ++server) {
    random_.emplace_back(world.scenario.seed, kFaults, server);
    drawn_.push_back({.kind = FaultEvent::Kind::returns, .server = server});
    draw_next(server, 0);
  }
}

// After a return comes a leaving, and the reverse.
void FaultPlayer::draw_next(std::size_t server, double after) {
  const FaultRates& rates = *world_.scenario.cluster->fault_rates;
  FaultEvent& event = drawn_[server];
  const bool leaves = event.kind == FaultEvent::Kind::returns;
  const double mean = (leaves ? rates.leaves_every : rates.returns_after).value();
  event.kind = leaves ? FaultEvent::Kind::leaves : FaultEvent::Kind::returns;
  event.at_s = after - portable_log(1 - random_[server].uniform()) * mean;
}

/// The next event, and takes it out.
std::optional<FaultEvent> FaultPlayer::next() {
  const std::vector<FaultEvent>& stated = world_.scenario.cluster->faults;
  const auto earlier = [](const FaultEvent& a, const FaultEvent& b) { return a.at_s < b.at_s; };
  const auto drawn = std::min_element(drawn_.begin(), drawn_.end(), earlier);
  if (stated_ < stated.size() && (drawn == drawn_.end() || stated[stated_].at_s <= drawn->at_s))
    return stated[stated_++];
  if (drawn == drawn_.end()) return std::nullopt;
  const FaultEvent event = *drawn;
  draw_next(event.server, event.at_s);
  return event;
}

void FaultPlayer::expect_returns() {
  const std::vector<FaultEvent>& stated = world_.scenario.cluster->faults;
  std::fill(world_.may_return.begin(), world_.may_return.end(), drawn_.empty() ? 0 : 1);
  for (std::size_t i = stated_; i < stated.size(); ++i)
    if (stated[i].kind == FaultEvent::Kind::returns) world_.may_return[stated[i].server] = 1;
}

engine::Process FaultPlayer::run() {
  expect_returns();
  std::uint64_t played = 0;
  while (const std::optional<FaultEvent> event = next()) {
    co_await world_.engine.until(event->at_s);
    if (world_.serving == 0) co_return;
    if (++played > kMostEvents)
      throw InputError(world_.scenario.name, std::to_string(kMostEvents) +
                                                 " faults have happened, and servers serve still: expected "
                                                 "longer times in 'faults' (leaves_every, returns_after)");
    expect_returns();
    play(*event);
    judge_hope();
  }
}

// Experts that are nowhere can come back while those that are up can hold them all, or one that is away is
// still to return.
void FaultPlayer::judge_hope() {
  world_.hopeful = placed_;
  for (std::size_t server = 0; server < world_.up.size(); ++server)
    if (!world_.up[server] && world_.may_return[server]) world_.hopeful = true;
}

void FaultPlayer::play(const FaultEvent& event) {
  const std::size_t server = event.server;
  if (event.kind == FaultEvent::Kind::bandwidth) {
    const double rate = event.bandwidth.value();
    world_.engine.set_node(static_cast<engine::NodeId>(server), {rate, rate});
  } else {
    const bool up = event.kind == FaultEvent::Kind::returns;
    if ((world_.up[server] != 0) == up) return;  // it is so already
    world_.up[server] = up ? 1 : 0;
    if (up) {
      world_.live.clear(static_cast<std::uint32_t>(server));  // whatever others know by now
    } else {
      servers_[server]->stage.leave();
      const ServerNode& node = world_.resources.servers[server];
      const auto gpus = static_cast<std::uint32_t>(world_.plan.shape.servers[server].gpu_bytes.size());
      for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + gpus; ++gpu)
        for (LabelledGraph* const call : world_.live.calls(gpu)) world_.engine.cancel(call->graph);
    }
  }
  FaultRecord record;
  record.at_s = world_.engine.now();
  record.server = world_.scenario.cluster->profile.servers[server].name;
  record.event = kEvents[static_cast<std::size_t>(event.kind)];
  records_.push_back(record);
  if (event.kind == FaultEvent::Kind::bandwidth) return;
  processes_.push_back(std::make_unique<engine::Process>(notice(records_.size() - 1)));
  world_.engine.spawn(*processes_.back());
}

// A detection time later everybody knows, and acts; then waits until every expert is somewhere again.
engine::Process FaultPlayer::notice(std::size_t number) {
  const double step = world_.placed().detection.value();
  co_await world_.engine.until(records_[number].at_s + step);
  for (std::uint32_t server = 0; server < world_.up.size(); ++server)
    if (!world_.up[server]) world_.live.clear(server);
  records_[number].uncovered = world_.live.uncovered();
  placed_ = scheduler_.recover();
  judge_hope();
  while (world_.live.uncovered() > 0) {
    if (world_.serving == 0 || !world_.hopeful) co_return;
    co_await world_.engine.until(world_.engine.now() + step);
  }
  records_[number].recovered_s = world_.engine.now();
}

}  // namespace moelab
