#include "sim/cluster/alone_faults.hpp"

namespace moelab {

void AloneFaults::leave(std::size_t server) {
  redirector_.assign_until(engine_.now());  // what came before found it there
  redirector_.set_up(server, false);
  stages_[server]->leave();
}

void AloneFaults::come_back(std::size_t server) {
  redirector_.assign_until(engine_.now());
  redirector_.set_up(server, true);
}

engine::Process AloneFaults::notice(std::size_t server, FaultRecord& record) {
  record.recovered_s = record.at_s;
  co_await engine_.until(record.at_s + detection_s_);
  redirector_.assign_until(engine_.now());
  redirector_.set_known_up(server, present_.up[server] != 0);
}

}  // namespace moelab
