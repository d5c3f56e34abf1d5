#include "sim/results/result_transfer.hpp"

#include "models/json.hpp"

namespace moelab {

// Found by nlohmann::json by their names and arguments.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PrefetchCounts, fetched, used, late, unused, cancelled, wasted_bytes,
                                   used_top_score)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RoutingCounts, active, top_score, low_score, substituted, mass_moved,
                                   score_sum, top_score_misses, low_score_misses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExecutionCounts, loaded, on_cpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpeculationCounts, steps, drafted, accepted, judged)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServingSample, step, begin_s, time_s, running, waiting, swapped, blocks,
                                   all_blocks, residency, tokens, swap_in_bytes, swap_out_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServingCounts, steps, rows, recomputed, swapped_out, dropped,
                                   swap_in_bytes, swap_out_bytes, decoded_bytes, loaded_bytes, ssd_bytes,
                                   page_cache_bytes, promoted_bytes, moved_experts, most_blocks, most_kv_use,
                                   mean_pairs, most_pairs, exchanged_bytes)
static void to_json(nlohmann::json& j, const ServingSeries& series) {
  j = series.samples();
}
static void from_json(const nlohmann::json& j, ServingSeries& series) {
  series.set(j.get<std::vector<ServingSample>>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RequestTimes, number, server, arrival_s, started_s, first_token_s, end_s,
                                   prompt_tokens, output_tokens, preempted, cached_tokens, longest_gap_s,
                                   of_class, decoded_by, sent_from_s, sent_until_s, measured)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MeasuredTime, whole, begin_s, end_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerCounts, hits, stall_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Metrics, ttft_s, end_to_end_s, token_gaps_s, gap_classes, measured,
                                   requests, tokens, wall_s, hits, decode_hits, bytes, stall_s,
                                   decode_stall_s, prefetch, routing, execution, speculation, serving, series,
                                   layers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DatasetAccuracy, dataset, unchanged, expected)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExpectedAccuracy, source, datasets)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Plan, ratios, capacity, expected_makespan_s, selection_probability,
                                   splits_examined)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResourceUse, name, busy_s, slots)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DataFile, path, digest)

static void to_json(nlohmann::json& j, const Bytes& b) {
  j = b.value();
}
static void from_json(const nlohmann::json& j, Bytes& b) {
  b = Bytes(j.get<double>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryPlan, budget, non_expert, kv_cache, staging, prefetch, expert_cache,
                                   host_experts, experts_on_ssd, page_cache, activations, kv_block, kv_blocks,
                                   state_blocks, swap_blocks, pinned, draft, shortfall)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LocalShareSeries::Bucket, local, remote)
static void to_json(nlohmann::json& j, const LocalShareSeries& series) {
  j = {{"width_s", series.width_s()}, {"buckets", series.buckets()}};
}
static void from_json(const nlohmann::json& j, LocalShareSeries& series) {
  series.set(j.at("width_s").get<double>(), j.at("buckets").get<std::vector<LocalShareSeries::Bucket>>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServerResult, name, gpus, expert_bytes, experts, requests, failed, delayed,
                                   end_to_end_s, end_to_end_p90_s, ttft_s, local_activations,
                                   remote_activations, remote_calls, loaded_experts, cached_experts,
                                   network_bytes, busy_s, local_share)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MigrationRecord, at_s, adopted, recovery, remote_before, remote_after,
                                   horizon_s, saved_s, cost_s, experts, done_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FaultRecord, at_s, server, event, uncovered, recovered_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClusterResult, servers, migrations, faults, redirected, lacking)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InstanceResult, name, kind, requests, steps, rows, most_kv_use, computed_s,
                                   stall_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TransferCounts, transfers, bytes, wait_s, send_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InstancesResult, servers, gpus, transfers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Counted, lookups, bytes, prefetch, routing, execution, prefixes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunResult, scenario, system, executor, question, model, device, runtime,
                                   routing, seed, metrics, counted, memory, plan, planned, paged, instances,
                                   cluster, busy, service, quality, provenance, warnings, operations, wakes,
                                   classes, document, data_files)

std::string pack_result(const RunResult& result) {
  return nlohmann::json(result).dump();
}

RunResult unpack_result(const std::string& text) {
  return nlohmann::json::parse(text).get<RunResult>();
}

}  // namespace moelab
