#include "sim/cluster/cluster_metrics.hpp"

namespace moelab {

ClusterResult::ClusterResult() = default;
ClusterResult::ClusterResult(const ClusterResult&) = default;
ClusterResult::ClusterResult(ClusterResult&&) noexcept = default;
ClusterResult& ClusterResult::operator=(const ClusterResult&) = default;
ClusterResult& ClusterResult::operator=(ClusterResult&&) noexcept = default;
ClusterResult::~ClusterResult() = default;

void RequestCounts::add(const RequestCounts& more) {
  asked += more.asked;
  failed += more.failed;
  delayed += more.delayed;
}

RequestCounts request_counts(const ClusterResult& cluster) {
  RequestCounts counts;
  for (const ServerResult& server : cluster.servers)
    counts.add({server.requests + server.failed, server.failed, server.delayed});
  return counts;
}

void LocalShareSeries::add(double time_s, double local, double remote) {
  while (time_s >= width_s_ * static_cast<double>(kMost)) {
    width_s_ *= 2;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Bucket bucket = buckets_[i];
      if (i % 2 == 0) {
        buckets_[i / 2] = bucket;
      } else {
        buckets_[i / 2].local += bucket.local;
        buckets_[i / 2].remote += bucket.remote;
      }
    }
    buckets_.resize((buckets_.size() + 1) / 2);
  }
  const auto place = static_cast<std::size_t>(time_s / width_s_);
  if (place >= buckets_.size()) buckets_.resize(place + 1);
  buckets_[place].local += local;
  buckets_[place].remote += remote;
}

}  // namespace moelab
