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

FaultPlayer::FaultPlayer(engine::Engine& engine, const Scenario& scenario, ServersPresent& present,
                         FaultyServers& servers)
    : engine_(engine), scenario_(scenario), present_(present), servers_(servers) {
  if (!scenario.cluster->fault_rates) return;
  for (std::size_t server = 0; server < present.up.size(); ++server) {
    random_.emplace_back(scenario.seed, kFaults, server);
    drawn_.push_back({.kind = FaultEvent::Kind::returns, .server = server});
    draw_next(server, 0);
  }
}

// After a return comes a leaving, and the reverse.
void FaultPlayer::draw_next(std::size_t server, double after) {
  const FaultRates& rates = *scenario_.cluster->fault_rates;
  FaultEvent& event = drawn_[server];
  const bool leaves = event.kind == FaultEvent::Kind::returns;
  const double mean = (leaves ? rates.leaves_every : rates.returns_after).value();
  event.kind = leaves ? FaultEvent::Kind::leaves : FaultEvent::Kind::returns;
  event.at_s = after - portable_log(1 - random_[server].uniform()) * mean;
}

/// The next event, and takes it out.
std::optional<FaultEvent> FaultPlayer::next() {
  const std::vector<FaultEvent>& stated = scenario_.cluster->faults;
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
  const std::vector<FaultEvent>& stated = scenario_.cluster->faults;
  std::fill(present_.may_return.begin(), present_.may_return.end(), drawn_.empty() ? 0 : 1);
  for (std::size_t i = stated_; i < stated.size(); ++i)
    if (stated[i].kind == FaultEvent::Kind::returns) present_.may_return[stated[i].server] = 1;
}

engine::Process FaultPlayer::run() {
  expect_returns();
  std::uint64_t played = 0;
  while (const std::optional<FaultEvent> event = next()) {
    co_await engine_.until(event->at_s);
    if (present_.serving == 0) co_return;
    if (++played > kMostEvents)
      throw InputError(scenario_.name, std::to_string(kMostEvents) +
                                           " faults have happened, and servers serve still: expected "
                                           "longer times in 'faults' (leaves_every, returns_after)");
    expect_returns();
    play(*event);
    servers_.played();
  }
}

void FaultPlayer::play(const FaultEvent& event) {
  const std::size_t server = event.server;
  const bool up = event.kind == FaultEvent::Kind::returns;
  if (event.kind == FaultEvent::Kind::bandwidth) {
    servers_.set_bandwidth(server, event.bandwidth);
  } else {
    if ((present_.up[server] != 0) == up) return;  // it is so already
    present_.up[server] = up ? 1 : 0;
    up ? servers_.come_back(server) : servers_.leave(server);
  }
  FaultRecord& record = records_.emplace_back();
  record.at_s = engine_.now();
  record.server = scenario_.cluster->profile.servers[server].name;
  record.event = kEvents[static_cast<std::size_t>(event.kind)];
  if (event.kind == FaultEvent::Kind::bandwidth) return;
  processes_.push_back(std::make_unique<engine::Process>(servers_.notice(server, record)));
  engine_.spawn(*processes_.back());
}

}  // namespace moelab
