// Which of a system's instances serves a request, and how its KV cache gets from one to the next.
//
//   colocated:      of the instances the one with the fewest requests that are not answered
//   disaggregated:  of those that run prompts the one with the fewest prompt tokens that have not run ("the
//                   prefill instance with the shortest queue"); with its first token there, of those that
//                   decode the one with the fewest requests that are not answered ("the least loaded decoding
//                   instance": both of DistServe, OSDI 2024, section 4.3). Of equals the first.
//
// The decoding instance pulls: a request waits there, first come, first served, until its batching policy has
// blocks for it; then its KV cache is sent, in whole blocks, of each GPU to its counterpart; and the
// prefilling instance keeps the blocks until all of it is there (DistServe, "using the GPU memory of prefill
// instances as a queuing buffer"; vLLM's NixlConnector; SGLang takes blocks before it sends, too). So a
// decoding side that has no room fills the prefilling side up.
//
// A transfer takes the link's latency, and then its bytes cross the way out of one instance and the way into
// the other, each as fast as the link and shared by what crosses it at the time (sim/engine/network.hpp, a
// star). It begins when all of the prompt has run: layers are not sent while later ones run.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "policies/batching/batching.hpp"
#include "sim/engine/engine.hpp"
#include "sim/scenario/instances_config.hpp"
#include "sim/serving/request_source.hpp"

namespace moelab {

/// Of a request that one instance handed over to another. Seconds of engine time.
struct HandOver {
  std::uint32_t from = 0, to = 0;  // instances
  double bytes = 0;                // of a GPU
  double begin_s = -1;             // it has blocks where it goes; negative: never
  double end_s = -1;               // all of it is there
};

class InstanceRouter {
 public:
  /// Adds what it needs to `engine`. `requests` and `engine` outlive it. `kv`: of an instance; `kv_block`:
  /// bytes of a block, of one GPU.
  InstanceRouter(engine::Engine& engine, RequestSource& requests, const InstancesConfig& config,
                 const KvShape& kv, Bytes kv_block);
  ~InstanceRouter();

  /// What an instance serves; lives as long as the router.
  RequestSource& source(std::uint32_t instance);
  /// Whom to tell of its requests' transfers; outlives the run.
  void set_policy(std::uint32_t instance, BatchingPolicy& policy);
  /// Before the engine runs: requests come from now on.
  void begin();

  /// Of the request of that number, which has come; nullptr: it was answered where it came to.
  const HandOver* handed_over(std::uint32_t number) const;
  /// Requests that came and were not answered.
  std::uint64_t unanswered() const { return unanswered_; }

 private:
  class Source;
  struct Sent {
    RequestSource::Arrival arrival;
    HandOver over;
  };

  std::uint32_t least_loaded(std::uint32_t first, std::uint32_t end) const;
  bool runs_prompts_only(std::uint32_t instance) const { return instance < config_.prefill; }
  bool all_answered() const { return unanswered_ == 0 && !requests_.next_time(); }
  void assign_until(double now);
  void finished(std::uint32_t number, std::uint32_t instance, double now);
  void hand_over(Sent& sent, double now);
  void start(engine::Process process);
  void expect_next();
  engine::Process wake(double at);
  engine::Process transfer(std::uint32_t number);

  engine::Engine& engine_;
  RequestSource& requests_;
  const InstancesConfig config_;
  const KvShape kv_;
  const Bytes kv_block_;
  std::vector<engine::ResourceId> networks_;  // by instance that runs prompts
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::uint64_t> loads_;  // by instance: prompt tokens where it runs prompts only, else requests
  std::vector<Sent> sent_;            // by number
  std::uint64_t unanswered_ = 0;
  double expected_ = std::numeric_limits<double>::infinity();  // when the next is looked for
  std::deque<engine::Process> processes_;                      // those at the front have ended before others
};

}  // namespace moelab
