#include "sim/cluster/placed_faults.hpp"

namespace moelab {

void PlacedFaults::leave(std::size_t server) {
  servers_[server]->stage.leave();
  const ServerNode& node = world_.resources.servers[server];
  const auto gpus = static_cast<std::uint32_t>(world_.plan.shape.servers[server].gpu_bytes.size());
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + gpus; ++gpu)
    for (LabelledGraph* const call : world_.live.calls(gpu)) world_.engine.cancel(call->graph);
  world_.changes.ring();
}

void PlacedFaults::come_back(std::size_t server) {
  world_.live.clear(static_cast<std::uint32_t>(server));  // whatever others know by now
  world_.changes.ring();
}

void PlacedFaults::set_bandwidth(std::size_t server, BytesPerSecond bandwidth) {
  const double rate = bandwidth.value();
  world_.engine.set_node(static_cast<engine::NodeId>(server), {rate, rate});
}

// Experts that are nowhere can come back while those that are up can hold them all, or one that is away is
// still to return.
void PlacedFaults::judge_hope() {
  world_.hopeful = placed_;
  for (std::size_t server = 0; server < world_.up.size(); ++server)
    if (!world_.up[server] && world_.may_return[server]) world_.hopeful = true;
  world_.changes.ring();
}

// A detection time later all servers know, and act; then waits until every expert is somewhere again.
engine::Process PlacedFaults::notice(std::size_t, FaultRecord& record) {
  co_await world_.engine.until(record.at_s + world_.system.detection_time().value());
  for (std::uint32_t server = 0; server < world_.up.size(); ++server)
    if (!world_.up[server]) world_.live.clear(server);
  record.uncovered = world_.live.uncovered();
  placed_ = scheduler_.recover();
  judge_hope();
  while (world_.live.uncovered() > 0 && !world_.placed().loads()) {  // else it is loaded
    if (world_.serving == 0 || !world_.hopeful) co_return;
    co_await world_.changes.next();
  }
  record.recovered_s = world_.engine.now();
}

}  // namespace moelab
