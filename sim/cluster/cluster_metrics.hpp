// What a run on several servers leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moelab {

/// Activations (one expert for one token) by time: how many were computed by the server whose user asked.
/// Buckets of equal width that doubles when there are more than kMost.
class LocalShareSeries {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr double kFirstWidth_s = 1;
  struct Bucket {
    double local = 0, remote = 0;
  };
  void add(double time_s, double local, double remote);
  double width_s() const { return width_s_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  void set(double width_s, std::vector<Bucket> buckets) {
    width_s_ = width_s;
    buckets_ = std::move(buckets);
  }

 private:
  double width_s_ = kFirstWidth_s;
  std::vector<Bucket> buckets_;
};

/// One server of a run.
struct ServerResult {
  std::string name;
  std::uint32_t gpus = 0;
  double expert_bytes = 0;     // room for experts, all its GPUs together
  std::uint64_t experts = 0;   // on its GPUs at the end; of a server alone, in its cache
  std::uint64_t requests = 0;  // answered
  std::uint64_t failed = 0;    // under way when it left the cluster
  std::uint64_t delayed = 0;   // came while it was away
  double end_to_end_s = 0;     // mean; 0 without requests
  double end_to_end_p90_s = 0;
  double ttft_s = 0;  // mean
  double local_activations = 0, remote_activations = 0;
  std::uint64_t remote_calls = 0;
  std::int64_t loaded_experts = -1;  // for one step each, and computed at home; -1: its system loads none
  std::int64_t cached_experts =
      -1;                    // that its cache keeps whole at the end; -1: its placed servers have none
  double network_bytes = 0;  // of its calls, both ways
  double busy_s = 0;         // its GPUs with kernels, summed
  LocalShareSeries local_share;
};

/// A decision of the global scheduler.
struct MigrationRecord {
  double at_s = 0;
  bool adopted = false;
  bool recovery = false;      // a server left or came back: experts must be placed anew
  double remote_before = 0;   // C of the placement there was, in activations of the statistics' time
  double remote_after = 0;    // of the new one
  double horizon_s = 0;       // for which it is judged what the new one saves
  double saved_s = 0;         // calls' time over the horizon, of all servers together
  double cost_s = 0;          // T_mig: loading those that move once, one after the other
  std::uint64_t experts = 0;  // that move
  double done_s = -1;         // when the last one was where it is to be; -1: not before the end
};

/// Something that went wrong, or right again.
struct FaultRecord {
  double at_s = 0;
  std::string server;
  std::string event;
  std::uint64_t uncovered = 0;  // experts that no server held once it was known
  double recovered_s = -1;      // when each had a holder again; -1: not before the end
};

struct ClusterResult {
  std::vector<ServerResult> servers;  // empty: the run was not on a cluster, or there was none (lacking)
  std::vector<MigrationRecord> migrations;
  std::vector<FaultRecord> faults;
  std::uint64_t redirected = 0;  // requests that another server answered
  std::string lacking;           // a sentence, of a system that was not run: which server lacks what memory

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  ClusterResult();
  ClusterResult(const ClusterResult&);
  ClusterResult(ClusterResult&&) noexcept;
  ClusterResult& operator=(const ClusterResult&);
  ClusterResult& operator=(ClusterResult&&) noexcept;
  ~ClusterResult();
};

/// Requests of all servers' users. Those that did not fail were answered.
struct RequestCounts {
  std::uint64_t asked = 0, failed = 0;
  std::uint64_t delayed = 0;  // came while their server was away
  std::uint64_t answered() const { return asked - failed; }
  void add(const RequestCounts& more);
};
RequestCounts request_counts(const ClusterResult& cluster);

}  // namespace moelab
