#include <cmath>

#include "models/json.hpp"
#include "sim/results/cluster_json.hpp"
#include "sim/results/instances_table.hpp"
#include "sim/results/latency_causes.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/steady_state.hpp"
#include "sim/results/token_cost_table.hpp"
#include "sim/version.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// Mean and percentiles; of no request: nothing to measure.
Json summary_json(const std::vector<double>& sample) {
  const Summary s = summarize(sample);
  Json j = {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p95", s.p95}, {"p99", s.p99}};
  if (sample.empty())
    for (auto& value : j) value = nullptr;
  return j;
}

/// Percentiles that stand beside a mean which is called by the latency alone: "ttft_s", "ttft_p50_s".
void add_percentiles(const char* latency, const std::vector<double>& sample, Json& j) {
  const Json summary = summary_json(sample);
  for (const auto& [name, value] : summary.items())
    if (name != "mean") j[std::string(latency) + "_" + name + "_s"] = value;
}

Json metrics_json(const Metrics& m) {
  const RequestLatencies all = request_latencies(m);
  const RequestTotals totals = request_totals(m);
  const RunRates rates = run_rates(m);
  Json j = {{"ttft_s", summary_json(m.ttft_s)["mean"]},
            {"tpot_s", summary_json(all.of(Latency::tpot))},
            {"itl_s", summary_json(m.token_gaps_s)},
            {"end_to_end_s", summary_json(m.end_to_end_s)["mean"]},
            {"throughput_tokens_per_s", rates.a_second(rates.output_tokens)},
            {"tokens", m.tokens},
            {"requests", m.end_to_end_s.size()},
            {"wall_s", m.wall_s}};
  add_percentiles("ttft", m.ttft_s, j);
  add_percentiles("end_to_end", m.end_to_end_s, j);
  j.update({{"normalised_latency_s", summary_json(all.of(Latency::normalised))},
            {"queueing_s", summary_json(all.of(Latency::queueing))},
            {"throughput_requests_per_s", rates.a_second(rates.answered)},
            {"throughput_input_tokens_per_s", rates.a_second(rates.input_tokens)},
            {"input_tokens", totals.input_tokens},
            {"preemptions", totals.preemptions}});
  return j;
}

/// Of a cluster, whose servers may leave: else every request is answered.
void add_request_counts(const ClusterResult& cluster, Json& metrics) {
  const RequestCounts counts = request_counts(cluster);
  metrics.update({{"asked_requests", counts.asked},
                  {"failed_requests", counts.failed},
                  {"delayed_requests", counts.delayed}});
}

constexpr std::array<const char*, kLatencies> kLatencyKeys = {
    "ttft_s", "tpot_s", "itl_s", "end_to_end_s", "normalised_latency_s", "queueing_s"};

/// Of each class of requests: how many were answered and what they met.
Json classes_json(const RunResult& r) {
  Json all = Json::array();
  for (std::size_t i = 0; i < r.classes.size(); ++i) {
    const auto of_class = static_cast<std::uint16_t>(i);
    const RequestLatencies latencies = class_latencies(r.metrics, of_class);
    Json j = {{"name", r.classes[i]}, {"requests", latencies.of(Latency::end_to_end).size()}};
    std::uint64_t input = 0, output = 0;
    for (const RequestTimes& q : r.metrics.requests) {
      if (q.of_class != of_class || !q.measured || !q.answered()) continue;
      input += q.prompt_tokens;
      output += q.output_tokens;
    }
    j.update({{"input_tokens", input}, {"output_tokens", output}});
    if (const auto rate = prefix_hit_rate(r.metrics, of_class); r.counted.prefixes && rate)
      j["prefix_hit_rate"] = *rate;
    for (const Latency latency : kAllLatencies)
      j[kLatencyKeys[static_cast<std::size_t>(latency)]] = summary_json(latencies.of(latency));
    all.push_back(j);
  }
  return all;
}

/// Which part of the run its statistics are of, and whether that was a steady state.
Json measured_json(const Metrics& m) {
  const std::uint64_t measured = count_measured(m);
  const SteadyState state = steady_state(m.requests, m.measured.begin_s, m.measured.end_s);
  return {{"begin_s", m.measured.begin_s},
          {"end_s", m.measured.end_s},
          {"requests", measured},
          {"left_out_requests", m.requests.size() - measured},
          {"steady_state",
           {{"verdict", to_string(state.verdict)},
            {"in_system_first_half", state.first_half},
            {"in_system_second_half", state.second_half},
            {"allowed_difference", state.allowed}}}};
}

Json hits_json(const std::array<std::uint64_t, kStates>& hits) {
  Json j;
  for (const State s : kAllStates) j[std::string(kStateNames[index(s)])] = hits[index(s)];
  return j;
}

/// No states where none were looked up: experts that are paged, or called at their servers.
Json layers_json(const LayerCounts& layers, bool by_state) {
  Json j;
  for (const State s : kAllStates)
    if (by_state) j["decode_hits"][std::string(kStateNames[index(s)])] = layers.hits[index(s)];
  j["decode_stall_s"] = layers.stall_s;
  return j;
}

Json cached_memory_json(const MemoryPlan& m) {
  Json j = {{"budget", m.budget.value()},
            {"non_expert", m.non_expert.value()},
            {"kv_cache", m.kv_cache.value()},
            {"activations", m.activations.value()},
            {"staging", m.staging.value()},
            {"prefetch", m.prefetch.value()},
            {"expert_cache", m.expert_cache.value()},
            {"host_experts", m.host_experts.value()},
            {"page_cache", m.page_cache.value()}};
  if (m.draft > Bytes(0)) j["draft"] = m.draft.value();
  if (m.experts_on_ssd) j["experts_on_ssd"] = true;
  if (m.shortfall > Bytes(0)) j["shortfall"] = m.shortfall.value();
  if (m.kv_blocks > 0)
    j.update({{"kv_block", m.kv_block.value()},
              {"kv_blocks", m.kv_blocks},
              {"state_blocks_a_request", m.state_blocks},
              {"swap_blocks", m.swap_blocks}});
  return j;
}

Json paged_memory_json(const MemoryPlan& m) {
  Json j = {{"budget", m.budget.value()},
            {"non_expert", m.non_expert.value()},
            {"stored_experts", m.expert_cache.value()},
            {"expert_window", m.staging.value()},
            {"activations", m.activations.value()},
            {"kv_cache", m.kv_cache.value()},
            {"kv_block", m.kv_block.value()},
            {"kv_blocks", m.kv_blocks},
            {"state_blocks_a_request", m.state_blocks},
            {"swap_blocks", m.swap_blocks},
            {"host_experts", m.host_experts.value()},
            {"shortfall", m.shortfall.value()}};
  if (m.draft > Bytes(0)) j["draft"] = m.draft.value();
  if (m.pinned > Bytes(0)) j["pinned_experts"] = m.pinned.value();
  if (m.page_cache > Bytes(0)) j["page_cache"] = m.page_cache.value();
  return j;
}

Json serving_json(const ServingCounts& c) {
  Json j = {{"steps", c.steps},
            {"rows", c.rows},
            {"recomputed_rows", c.recomputed},
            {"swapped_out_requests", c.swapped_out},
            {"dropped_requests", c.dropped},
            {"swap_in_bytes", c.swap_in_bytes},
            {"swap_out_bytes", c.swap_out_bytes},
            {"decoded_bytes", c.decoded_bytes},
            {"loaded_bytes", c.loaded_bytes},
            {"ssd_bytes", c.ssd_bytes},
            {"promoted_bytes", c.promoted_bytes},
            {"moved_experts", c.moved_experts},
            {"most_kv_blocks", c.most_blocks},
            {"most_kv_use", c.most_kv_use}};
  if (c.most_pairs > 0) j["expert_balancedness"] = c.balancedness();
  if (c.page_cache_bytes > 0) j["page_cache_bytes"] = c.page_cache_bytes;
  if (c.exchanged_bytes > 0) j["exchanged_bytes"] = c.exchanged_bytes;
  return j;
}

Json series_json(const ServingSeries& series) {
  Json list = Json::array();
  for (const ServingSample& s : series.samples())
    list.push_back({{"step", s.step},
                    {"begin_s", s.begin_s},
                    {"time_s", s.time_s},
                    {"running", s.running},
                    {"waiting", s.waiting},
                    {"swapped", s.swapped},
                    {"kv_blocks", s.blocks},
                    {"all_kv_blocks", s.all_blocks},
                    {"residency", s.residency},
                    {"tokens_per_s", s.tokens_per_s()},
                    {"swap_in_bytes", s.swap_in_bytes},
                    {"swap_out_bytes", s.swap_out_bytes}});
  return list;
}

Json plan_json(const Plan& plan) {
  Json ratios, capacity;
  for (std::size_t s = 0; s < 4; ++s) {
    ratios[std::string(kStateNames[s])] = plan.ratios[s];
    capacity[std::string(kStateNames[s])] = plan.capacity[s];
  }
  return {{"ratios", ratios}, {"capacity", capacity}, {"expected_makespan_s", plan.expected_makespan_s}};
}

Json routing_json(const RoutingCounts& c) {
  return {{"active", c.active},
          {"top_score", c.top_score},
          {"low_score", c.low_score},
          {"substituted", c.substituted},
          {"mass_moved", c.mass_moved},
          {"score_sum", c.score_sum},
          {"top_score_misses", c.top_score_misses},
          {"low_score_misses", c.low_score_misses}};
}

/// What speculative decoding came to.
Json speculation_json(const SpeculationCounts& c) {
  Json acceptance;  // nothing, where nothing was drafted
  if (c.judged > 0) acceptance = static_cast<double>(c.accepted) / static_cast<double>(c.judged);
  return {{"decode_steps", c.steps},
          {"drafted_tokens", c.drafted},
          {"accepted_tokens", c.accepted},
          {"acceptance", acceptance},
          {"tokens_a_step", c.tokens_a_step()}};
}

Json prefetch_json(const PrefetchCounts& c) {
  return {{"fetched", c.fetched},
          {"used", c.used},
          {"late", c.late},
          {"unused", c.unused},
          {"cancelled", c.cancelled},
          {"wasted_bytes", c.wasted_bytes},
          {"used_top_score", c.used_top_score}};
}

Json bytes_json(const std::array<double, kTiers>& bytes) {
  Json j;
  for (const Tier t : {Tier::ssd, Tier::page_cache, Tier::host})
    j[std::string(to_string(t))] =
        static_cast<std::uint64_t>(std::llround(bytes[static_cast<std::size_t>(t)]));
  return j;
}

Json quality_json(const ExpectedAccuracy& quality) {
  Json j = {{"source", quality.source + ", by alpha"}};
  for (const DatasetAccuracy& d : quality.datasets)
    j["datasets"][d.dataset] = {{"unchanged", d.unchanged}, {"expected", d.expected}};
  return j;
}

/// What was run: a scenario that names no other configuration, and the files of data that it read.
Json inputs_json(const RunResult& r) {
  Json data = Json::array();
  for (const DataFile& file : r.data_files) data.push_back({{"file", file.path}, {"xxh3", file.digest}});
  return {{"scenario", Json::parse(r.document)}, {"data", data}};
}

/// What serving from a KV cache in blocks came to.
void add_serving(const RunResult& r, Json& j) {
  j["serving"] = serving_json(r.metrics.serving);
  j["series"] = series_json(r.metrics.series);
}

Json result_json(const RunResult& r) {
  Json j;
  j["scenario"] = r.scenario;
  j["system"] = r.system;
  j["executor"] = r.executor;
  j["seed"] = r.seed;
  j["version"] = program_version();
  j["result_format"] = kResultFormat;
  j["question"] = r.question;
  j["model"] = r.model;
  j["device"] = r.device;
  if (!r.runtime.empty()) j["runtime"] = r.runtime;
  j["routing_source"] = r.routing;
  j["metrics"] = metrics_json(r.metrics);
  if (const auto rate = prefix_hit_rate(r.metrics); r.counted.prefixes && rate)
    j["metrics"]["prefix_hit_rate"] = *rate;
  if (!r.cluster.servers.empty()) add_request_counts(r.cluster, j["metrics"]);
  if (!r.metrics.measured.whole) j["measured"] = measured_json(r.metrics);
  if (!r.classes.empty()) j["classes"] = classes_json(r);
  if (Json cost = token_cost_json(r.service, token_cost_of(r)); !cost.is_null())
    j["service"] = std::move(cost);
  if (r.counted.lookups) {
    j["hits"] = hits_json(r.metrics.hits);
    j["decode_hits"] = hits_json(r.metrics.decode_hits);
  }
  if (r.counted.bytes) j["bytes"] = bytes_json(r.metrics.bytes);
  for (const ResourceUse& use : r.busy) j["busy_s"][use.name] = use.busy_s;
  j["stall_s"] = stall_json(r.metrics.stall_s);
  j["decode_stall_s"] = stall_json(r.metrics.decode_stall_s);
  for (const auto& [cause, seconds] : latency_causes(r)) j["latency_s"][cause] = seconds;
  if (r.counted.routing) j["routing"] = routing_json(r.metrics.routing);
  if (!r.quality.datasets.empty()) j["expected_accuracy_percent"] = quality_json(r.quality);
  if (r.counted.execution)
    j["execution"] = {{"loaded", r.metrics.execution.loaded}, {"on_cpu", r.metrics.execution.on_cpu}};
  if (r.metrics.speculation.steps > 0) j["speculation"] = speculation_json(r.metrics.speculation);
  if (r.counted.prefetch) j["prefetch"] = prefetch_json(r.metrics.prefetch);
  if (!r.cluster.servers.empty())
    j["cluster"] = cluster_json(r.cluster);
  else
    j.update(memory_plan_json(r.memory, r.paged));
  if (r.paged || r.memory.kv_blocks > 0) add_serving(r, j);
  if (!r.instances.servers.empty()) j["instances"] = instances_json(r.instances);
  j["layers"] = layers_json(r.metrics.layers, r.counted.lookups);
  if (r.planned) j["plan"] = plan_json(r.plan);
  j["operations"] = r.operations;
  j["provenance"] = r.provenance;
  j["warnings"] = r.warnings;
  j["inputs"] = inputs_json(r);
  return j;
}

}  // namespace

nlohmann::ordered_json stall_json(const std::array<double, kCauses>& seconds) {
  Json j;
  for (std::size_t c = 0; c < kCauses; ++c)
    if (c < kCausesOfAll || seconds[c] > 0) j[std::string(kCauseNames[c])] = seconds[c];
  return j;
}

nlohmann::ordered_json memory_plan_json(const MemoryPlan& memory, bool paged) {
  return paged ? Json{{"memory_bytes_a_gpu", paged_memory_json(memory)}}
               : Json{{"memory_bytes", cached_memory_json(memory)}};
}

std::string results_json(const std::vector<RunResult>& results) {
  if (results.size() == 1) return result_json(results.front()).dump(2) + "\n";
  Json all = Json::array();
  for (const RunResult& r : results) all.push_back(result_json(r));
  return all.dump(2) + "\n";
}

}  // namespace moelab
