// What faults do to servers that each serve alone.
//
//   a server leaves:   what it computes is lost at once, and so is all that it keeps of experts
//   it comes back:     as it was at the start of the run: with what its cache holds from the start, and
//                      nothing else. Its own store has every expert, so none is ever nowhere
//   redirection:       learns of either a detection time later; until then it sends requests there
//
// A server's network interface carries none of its experts: how fast it is changes nothing here.
#pragma once

#include <vector>

#include "sim/cluster/fault_player.hpp"
#include "sim/cluster/redirector.hpp"
#include "sim/serving/cached_stage.hpp"

namespace moelab {

class AloneFaults final : public FaultyServers {
 public:
  /// Everything by reference outlives it; `stages` by server. `detection`: seconds.
  AloneFaults(engine::Engine& engine, ServersPresent& present, Redirector& redirector,
              std::vector<CachedStage*> stages, double detection_s)
      : engine_(engine),
        present_(present),
        redirector_(redirector),
        stages_(std::move(stages)),
        detection_s_(detection_s) {}

  void leave(std::size_t server) override;
  void come_back(std::size_t server) override;
  void set_bandwidth(std::size_t, BytesPerSecond) override {}
  engine::Process notice(std::size_t server, FaultRecord& record) override;

 private:
  engine::Engine& engine_;
  ServersPresent& present_;
  Redirector& redirector_;
  std::vector<CachedStage*> stages_;
  double detection_s_;
};

}  // namespace moelab
