#include "sim/results/cluster_json.hpp"

#include "models/json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// null for what never came.
Json moment(double seconds) {
  return seconds < 0 ? Json(nullptr) : Json(seconds);
}

Json series_json(const LocalShareSeries& series) {
  Json local = Json::array(), remote = Json::array();
  for (const LocalShareSeries::Bucket& bucket : series.buckets()) {
    local.push_back(bucket.local);
    remote.push_back(bucket.remote);
  }
  return {{"bucket_s", series.width_s()}, {"local_activations", local}, {"remote_activations", remote}};
}

Json server_json(const ServerResult& s) {
  const auto of_requests = [&](double value) { return s.requests > 0 ? Json(value) : Json(nullptr); };
  Json j = {{"name", s.name},
            {"gpus", s.gpus},
            {"expert_bytes", s.expert_bytes},
            {"experts", s.experts},
            {"requests", s.requests},
            {"failed_requests", s.failed},
            {"delayed_requests", s.delayed},
            {"end_to_end_s", of_requests(s.end_to_end_s)},
            {"end_to_end_p90_s", of_requests(s.end_to_end_p90_s)},
            {"ttft_s", of_requests(s.ttft_s)},
            {"local_activations", s.local_activations},
            {"remote_activations", s.remote_activations},
            {"remote_calls", s.remote_calls},
            {"network_bytes", s.network_bytes},
            {"gpu_busy_s", s.busy_s},
            {"series", series_json(s.local_share)}};
  if (s.loaded_experts >= 0) j["loaded_experts"] = s.loaded_experts;
  if (s.cached_experts >= 0) j["cached_experts"] = s.cached_experts;
  return j;
}

/// What was weighed is left out where a fault left no choice.
Json migration_json(const MigrationRecord& m) {
  Json j = {{"at_s", m.at_s}, {"adopted", m.adopted}, {"recovery", m.recovery}};
  if (!m.recovery)
    j.update({{"remote_activations_before", m.remote_before},
              {"remote_activations_after", m.remote_after},
              {"horizon_s", m.horizon_s},
              {"saved_s", m.saved_s},
              {"cost_s", m.cost_s}});
  j.update({{"experts", m.experts}, {"done_s", moment(m.done_s)}});
  return j;
}

}  // namespace

Json cluster_json(const ClusterResult& cluster) {
  Json servers = Json::array(), migrations = Json::array(), faults = Json::array();
  for (const ServerResult& server : cluster.servers) servers.push_back(server_json(server));
  for (const MigrationRecord& record : cluster.migrations) migrations.push_back(migration_json(record));
  for (const FaultRecord& f : cluster.faults)
    faults.push_back({{"at_s", f.at_s},
                      {"server", f.server},
                      {"event", f.event},
                      {"uncovered_experts", f.uncovered},
                      {"recovered_s", moment(f.recovered_s)}});
  return {{"servers", servers},
          {"migrations", migrations},
          {"faults", faults},
          {"redirected_requests", cluster.redirected}};
}

}  // namespace moelab
