// One server's calls: a layer's experts are split over the GPUs that hold them, the tokens are sent there,
// and what the experts make of them comes back.
//
//   an own first GPU:    compute
//   an own other GPU:    to the host -> to that GPU -> compute -> to the host -> back
//   another server's:    to the host -> network -> to that GPU -> compute -> to the host -> network -> back
//   loaded for the step: from the own SSD or host memory -> the own first GPU: compute, one by one
//                        (home_store.hpp: whole or compressed, past a cache of what was loaded before)
//
// Where a GPU, or a CPU without one, works in the host's memory, the ways to and from the host are none. A
// GPU computes the experts of a call in one grouped kernel, a CPU one after the other.
//
// An expert that is at home is computed at home. Of those elsewhere, each goes to the GPU that would be done
// first with it, given what this layer has sent there already (greedy list scheduling with what a server can
// know: its own calls, not the others'). At most kCandidates of the GPUs that hold it are looked at, those
// that follow the own server's in the order of the cluster: so callers spread over many copies.
//
// Where the system loads (PlacedConfig::execution), the own store is one more place to have such an expert
// from. Loads follow one another; so, it is reckoned, do all messages of a layer, which share the own network
// interface. What the cache has whole is computed at home.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim/cluster/cluster_world.hpp"
#include "sim/cluster/home_store.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/layer_uses.hpp"

namespace moelab {

/// Bytes of `tokens` hidden states, as they travel: BF16.
Bytes message_bytes(const Architecture& model, double tokens);

class ExpertCalls {
 public:
  static constexpr std::size_t kCandidates = 8;

  /// `store`: the server's own, where its system loads; else nullptr. Experts at home count as found in F.
  ExpertCalls(ClusterWorld& world, std::uint32_t server, HomeStore* store, Metrics& metrics);

  /// What a pass asks of a layer: `uses` are its experts. `shared` runs at home, beside the first calls.
  void begin(const Pass& pass, std::uint32_t moe_layer, std::span<const ExpertUse> uses,
             const KernelTime& shared);
  /// Sends what is left to compute and can be. An expert that no server holds stays left.
  void send();
  std::size_t size() const { return used_; }  // of the calls under way
  LabelledGraph& call(std::size_t number) { return calls_[number].graph; }
  /// All of them have ended. What was lost is left to compute again.
  void settle();
  /// Whether experts are left that no GPU has computed.
  bool left() const { return !left_.empty(); }
  /// Takes back what has not begun, of calls that the layer no longer waits for.
  void cancel();

  /// Experts of the layer that the store made ready here, in the order of uses.
  std::span<const ExpertUse> brought() const { return brought_; }

  // Of the calls that were settled last.
  /// The call that ended last; nullptr: there was none.
  const LabelledGraph* last() const { return last_; }
  // Of all of them since the start.
  double local_activations() const { return local_; }
  double remote_activations() const { return remote_; }
  std::uint64_t remote_calls() const { return remote_calls_; }
  double network_bytes() const { return network_bytes_; }
  std::uint64_t loaded_experts() const { return loaded_; }  // distinct ones of each step

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Call {
    std::uint32_t gpu = 0;
    std::vector<ExpertUse> experts;
    double activations = 0;
    std::uint32_t tokens = 0;  // distinct
    bool sent = false;         // to a server that answers
    bool loads = false;        // its experts, to the first GPU at home
    LabelledGraph graph;
  };
  /// Where an expert is computed; kNone: nowhere.
  struct Way {
    std::uint32_t gpu = kNone;
    bool loads = false;
  };
  Way choose(const ExpertUse& use);
  Way choose_for_missing(const ExpertUse& use);
  std::uint32_t choose_at_home(const ExpertUse& use) const;
  double estimate(std::uint32_t gpu, const ExpertUse& use) const;
  Call& call_to(Way way);
  double latencies_and_copies(std::uint32_t gpu, const ExpertUse& use) const;
  void count_tokens();
  void build(Call& call);
  void add_chain(Call& call, double tokens, std::span<const ExpertUse> experts);
  engine::OpIndex add(Call& call, engine::ResourceId resource, double seconds, OpKind kind,
                      engine::OpIndex after);
  engine::OpIndex add_message(Call& call, std::uint32_t from, std::uint32_t to, double bytes,
                              engine::OpIndex after);
  engine::OpIndex add_copy(Call& call, std::uint32_t gpu, bool to_gpu, Bytes bytes, OpKind kind,
                           engine::OpIndex after);
  const ServerNode& node_of(std::uint32_t gpu) const {
    return world_.resources.servers[world_.resources.server_of[gpu]];
  }
  /// What a GPU computes, or a CPU.
  struct Computing {
    double seconds = 0;     // hand-overs included
    double hand_overs = 0;  // seconds of these
    double bytes = 0;       // moved through memory
  };
  Computing computing(std::uint32_t gpu, std::span<const ExpertUse> experts) const;
  engine::OpIndex add_computing(Call& call, const Computing& work, OpKind kind, engine::OpIndex after);
  void count(const Call& call);

  ClusterWorld& world_;
  std::uint32_t server_, home_gpu_;
  HomeStore* store_;
  Metrics& metrics_;
  const Pass* pass_ = nullptr;
  std::uint32_t layer_ = 0;
  KernelTime shared_;
  std::vector<ExpertUse> left_, brought_;
  std::deque<Call> calls_;  // the first used_ are under way; graphs stay where they are
  std::size_t used_ = 0;
  std::vector<std::uint32_t> call_of_gpu_;     // kNone: none
  std::vector<std::uint32_t> call_of_expert_;  // of the calls being made
  std::uint32_t call_that_loads_ = kNone;
  std::vector<double> assigned_s_;  // by GPU: what this layer has sent there
  double loading_s_ = 0;            // what this layer loads
  double sending_s_ = 0;            // what it sends to other servers, or they send back
  const LabelledGraph* last_ = nullptr;
  double local_ = 0, remote_ = 0, network_bytes_ = 0;
  std::uint64_t remote_calls_ = 0, loaded_ = 0;
};

}  // namespace moelab
