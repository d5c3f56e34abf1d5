#include "cli/metric_table.hpp"

#include <string_view>

namespace moelab::cli {
namespace {

/// A line each: path, unit (-: none), definition.
constexpr std::string_view kRunMetrics = R"(
scenario - the scenario's name
system - the system's name
executor - fast or simgrid: what lets operations take their time; hardware of a run on this machine
seed - where random draws began
version - of moelab; behind the + a hash over the sources that decide results
result_format - of this file: 2, since percentiles of tpot_s are over requests and those of single gaps are itl_s
question - what the scenario is to answer
model - the model, for people
device - the machine, for people
runtime - what software costs, where a runtime says it
routing_source - where the routing is from, and how well a law is known
metrics.ttft_s s time to first token: from a request's arrival to its first token; mean over requests
metrics.tpot_s.STAT s time per output token: a request's mean time between its tokens, from the first to the last; over requests that have a second token
metrics.itl_s.STAT s inter-token latency: a single gap between two tokens of a request; over all gaps. Tokens that one step of speculative decoding produces come at once, behind one gap (as vLLM's benchmark counts chunks of its stream)
metrics.end_to_end_s s from a request's arrival to its last token; mean over answered requests
metrics.throughput_tokens_per_s tokens/s generated tokens over the time of the run, or of its measured part
metrics.tokens - tokens that were generated
metrics.requests - requests that were answered and are measured
metrics.asked_requests - on a cluster: requests of its users, answered or not
metrics.failed_requests - of these, that were never answered: lost with a server that left, or still waiting at the end; latencies are of the others
metrics.delayed_requests - of these, that came while their server was away
metrics.wall_s s simulated time at which the run ended; it began at 0
metrics.ttft_p50_s s median of the time to first token
metrics.ttft_p90_s s 90th percentile of it
metrics.ttft_p95_s s 95th percentile of it
metrics.ttft_p99_s s 99th percentile of it
metrics.end_to_end_p50_s s median of the time from arrival to last token
metrics.end_to_end_p90_s s 90th percentile of it
metrics.end_to_end_p95_s s 95th percentile of it
metrics.end_to_end_p99_s s 99th percentile of it
metrics.normalised_latency_s.STAT s a request's end-to-end time over its output tokens
metrics.queueing_s.STAT s from a request's arrival to the first pass that ran some of it
metrics.throughput_requests_per_s requests/s answered requests over the same time as throughput_tokens_per_s
metrics.throughput_input_tokens_per_s tokens/s prompt tokens of answered requests over the same time
metrics.input_tokens - prompt tokens of answered requests
metrics.prefix_hit_rate share of the prompt tokens of measured requests, the share that was in the KV cache when they were first admitted (vLLM: prefix cache hit rate); where the workload says what prompts have in common
metrics.preemptions - how often a request that had begun gave way to others
measured.begin_s s where the measured part of the run begins, behind the warm-up
measured.end_s s where it ends
measured.requests - requests that statistics are of
measured.left_out_requests - requests of the warm-up and the cool-down
measured.steady_state.verdict - steady, drifting (their number in the system rose or fell) or unsettled (the time is too short to tell)
measured.steady_state.in_system_first_half requests requests in the system, mean over the first half of the measured time
measured.steady_state.in_system_second_half requests the same over the second half
measured.steady_state.allowed_difference requests a difference of the two that is no drift
service.power_w W what all that computes draws: as the scenario says, or estimated from rated powers (TDP); absent where it is not known
service.power_from - scenario, or rated power: the GPUs' times gpu_power_share, and all of a CPU's that computes experts
service.gpu_power_share share of its rated power that a GPU is taken to draw while it serves, the mean of what was measured
service.least_gpu_power_share share the least that was measured
service.most_gpu_power_share share the most
service.energy_j_per_output_token J power over output tokens a second (throughput_tokens_per_s)
service.energy_j_per_token J power over tokens a second, prompts' (found in the KV cache or not) and output
service.energy_kwh_per_million_output_tokens kWh the same by a million output tokens
service.energy_kwh_per_million_tokens kWh the same by a million tokens, in and out
service.price_per_h currency/h what the machine is rented for, as the scenario says, times `instances`
service.currency - of the price, by ISO 4217
service.cost_per_million_output_tokens currency price over output tokens, by a million
service.cost_per_million_tokens currency the same of tokens in and out
answer.text - of all systems of the run: which is fastest, what the difference is worth, what bounds it, what is least certain
answer.judged_by - tpot_s, or end_to_end_s where requests share steps
answer.fastest - the system; null where none could be run
answer.systems[].system - those that could be run, the fastest first
answer.systems[].seconds s the mean of what they are judged by
answer.bounds[].system - those that are no rivals: they know the future, or try everything
answer.bounds[].seconds s as of the others
answer.unranked[].system - those in which more requests fail than in the others, on a cluster
answer.unranked[].seconds s as of the others, of the requests that it answers; null where it answers none
answer.requests[].system - on a cluster, each system that was run
answer.requests[].asked - requests of its users, under all seeds
answer.requests[].failed - of these, that were never answered
answer.requests[].delayed - of these, that came while their server was away
answer.seeds - under which all was run
answer.noise - more_than_noise, may_be_noise, the_same or unknown: the difference of the first two systems
answer.difference - null where it is not known
answer.difference.mean_s s the second system's time less the first's, pair by pair
answer.difference.half_width_s s half of its 95 % interval (Student's t)
answer.difference.pairs - how many
answer.difference.over - seeds, or requests
answer.bound_by - what the fastest system waits for most: disk, link, CPU, GPU, ...
answer.causes[].cause - as in stall_s, on a cluster as in latency_s, the greatest first
answer.causes[].share - of the fastest system's time that it is judged by
answer.causes_of - whose time, where the fastest system has several instances: the busiest one's
answer.least_certain - null where no figure is behind a tenth of the time
answer.least_certain.figure - of the device, cluster or runtime
answer.least_certain.kind - of its source: measured, datasheet, paper, derived, fitted, assumed
answer.least_certain.share - of the time that rests on it
answer.routing - how well the routing is known, where the time rests on it
answer.first_requests[].system - of those that serve requests in turn, where one was begun once the first was answered
answer.first_requests[].ttft_s s of the first request, with the caches as the run begins
answer.first_requests[].later_ttft_s s of those begun once it was answered, mean
answer.first_requests[].later_requests - how many these are
classes[].name - a class of requests
classes[].requests - its answered requests
classes[].input_tokens - their prompt tokens
classes[].output_tokens - their output tokens
classes[].prefix_hit_rate share as in metrics, of the requests of the class
classes[].ttft_s.STAT s as in metrics, of the requests of the class
classes[].tpot_s.STAT s as in metrics, of the requests of the class
classes[].itl_s.STAT s as in metrics, of the requests of the class
classes[].end_to_end_s.STAT s as in metrics, of the requests of the class
classes[].normalised_latency_s.STAT s as in metrics, of the requests of the class
classes[].queueing_s.STAT s as in metrics, of the requests of the class
)";

constexpr std::string_view kWorkMetrics = R"(
hits.STATE experts experts used, by the state in which they were found: F whole, C both planes compressed, S sign-mantissa planes, E exponent planes, M missing; prefetched ones that came in time are F
decode_hits.STATE experts the same in decode passes, those that answer; passes of prompts alone are left out
bytes.ssd bytes read from the SSD
bytes.page_cache bytes read from the operating system's page cache
bytes.host bytes copied from the host's memory to a GPU's
busy_s.NAME s time in which a resource worked: io (reads), decompress, recover, compute, link, network and others, on several GPUs or servers each by its own name
stall_s.ssd_read s time on the critical path that waited for cold reads; all causes add up to the time in which there were requests, but for what requests waited that then failed; of several instances those of the busiest, instances.busiest[0]
stall_s.page_cache_read s that waited for reads from the page cache
stall_s.decompress s that waited for decompression
stall_s.recover s that waited for joining planes to BF16
stall_s.expert_compute s in which experts computed on a GPU
stall_s.dense_compute s in which attention, gates, shared and dense parts computed
stall_s.host s in which software on the host had its turn: launches, synchronisation
stall_s.prefetch s that waited for an expert that was on its way already
stall_s.expert_load s that waited for loads of experts over the link: top-score ones, and those that were not classed
stall_s.low_score_load s that waited for loads of experts that are low-score for all their tokens
stall_s.cpu_experts s that waited for experts that the CPU computed
stall_s.activations s that waited for hidden states on their way to the CPU's experts and back
stall_s.prediction s in which gates of later layers were predicted
stall_s.all_reduce s that waited for sums of hidden states over GPUs
stall_s.kv_swap s that waited for blocks of the KV cache on their way to the host and back
stall_s.network s that waited for hidden states on their way between servers
stall_s.remote_experts s that waited for experts that another GPU computed
stall_s.recovery s that waited until an expert that no server held was there again, or a lost call was repeated
stall_s.exchange s that waited for rows on their way between GPUs that divide the experts; left out where it took no time
stall_s.drafting s in which a model or a head drafted tokens for the next step; left out where it took no time
decode_stall_s.CAUSE s the part of stall_s in decode passes; of prompts and decoding apart, of the busiest instance that decodes
latency_s.server_away s on a cluster: what the latencies of all answered requests, added up, are made of; of these the time before a request was begun in which its server was away; left out where it took no time, as are all below
latency_s.queue s the other time before a request was begun: its server served others
latency_s.CAUSE s the time from a request's first pass to its last token, by the causes of stall_s, each in its part of it
routing.active activations uses of experts by tokens while decoding (one expert for one token), with a routing policy
routing.top_score activations of these, by experts of a high score
routing.low_score activations of these, by experts of a low score
routing.substituted activations low-score uses that another expert served
routing.mass_moved score sum of |score of the replaced - score of the substitute|
routing.score_sum score sum of the scores of the model's own choices
routing.top_score_misses experts distinct top-score experts of a step that were not on the GPU in time, after substitution
routing.low_score_misses experts the same of low-score experts
expected_accuracy_percent.source - who measured how accuracy depends on substitution
expected_accuracy_percent.datasets.NAME.unchanged % right answers with the model's own choices
expected_accuracy_percent.datasets.NAME.expected % right answers expected with the substitution of this run
execution.loaded experts distinct missing experts of decode steps that were loaded on demand
execution.on_cpu experts of these, that the CPU computed
speculation.decode_steps - steps of requests that decode, each counted for itself, with speculative decoding
speculation.drafted_tokens tokens drafted in them, which ran one row each
speculation.accepted_tokens tokens of these, that were the target's own
speculation.acceptance share of drafted tokens whose forerunners in the step were accepted, those that were accepted too
speculation.tokens_a_step tokens that a request got in a decode step, mean
prefetch.fetched experts experts of which a fetch ahead began: used + late + unused
prefetch.used experts fetched in time
prefetch.late experts used, but still on the way when wanted
prefetch.unused experts dropped before any use
prefetch.cancelled experts taken out before their fetch began; not among `fetched`
prefetch.wasted_bytes bytes read for the unused ones
prefetch.used_top_score experts of `used` and `late`, a top-score expert of some token
)";

constexpr std::string_view kMemoryMetrics = R"(
memory_bytes.budget bytes what the system may use
memory_bytes.draft bytes weights of the model or head that drafts tokens
memory_bytes.non_expert bytes embeddings, attention, gates, dense and shared weights: always resident
memory_bytes.kv_cache bytes keys, values and states of the requests
memory_bytes.activations bytes hidden states and products of the step of most rows
memory_bytes.staging bytes experts in use that are not kept
memory_bytes.prefetch bytes experts fetched ahead
memory_bytes.expert_cache bytes what is left, for experts
memory_bytes.host_experts bytes experts in the host's memory, outside the budget
memory_bytes.page_cache bytes what memory outside the budget can hold of files
memory_bytes.experts_on_ssd - true where the host's memory is too small for all experts
memory_bytes.shortfall bytes what is missing: nothing was run
memory_bytes.kv_block bytes one block of the KV cache
memory_bytes.kv_blocks - blocks of the KV cache
memory_bytes.state_blocks_a_request - blocks that each request takes whatever its length: for states (Mamba-2, linear attention) and for what windows of sliding attention leave
memory_bytes.swap_blocks - blocks that the host has room for
memory_bytes_a_gpu.budget bytes of systems that page experts, and of one GPU: what may be used
memory_bytes_a_gpu.non_expert bytes weights that are no experts
memory_bytes_a_gpu.draft bytes weights of the model or head that drafts tokens
memory_bytes_a_gpu.stored_experts bytes experts that lie in the GPU's memory, whole or compressed
memory_bytes_a_gpu.expert_window bytes the window of two layers that experts pass through
memory_bytes_a_gpu.activations bytes hidden states and products of the step of most rows
memory_bytes_a_gpu.kv_cache bytes what is left, for the KV cache
memory_bytes_a_gpu.kv_block bytes one block of the KV cache
memory_bytes_a_gpu.kv_blocks - blocks of the KV cache
memory_bytes_a_gpu.state_blocks_a_request - blocks that each request takes whatever its length: for states and windows
memory_bytes_a_gpu.swap_blocks - blocks that the host has room for
memory_bytes_a_gpu.host_experts bytes experts in the host's memory
memory_bytes_a_gpu.shortfall bytes what is missing; not 0: nothing was run
memory_bytes_a_gpu.pinned_experts bytes experts that stay in the GPU's memory beside the window
memory_bytes_a_gpu.page_cache bytes what the host's memory can hold of files
)";

constexpr std::string_view kServingMetrics = R"(
cluster.servers[].name - the server
cluster.servers[].gpus - its GPUs
cluster.servers[].expert_bytes bytes room for experts on all its GPUs together
cluster.servers[].experts - experts on its GPUs at the end
cluster.servers[].requests - requests that it answered
cluster.servers[].failed_requests - requests under way when it left
cluster.servers[].delayed_requests - requests that came while it was away
cluster.servers[].end_to_end_s s from arrival to last token, mean
cluster.servers[].end_to_end_p90_s s 90th percentile of it
cluster.servers[].ttft_s s from arrival to first token, mean
cluster.servers[].local_activations activations uses of experts by its users' tokens that it computed itself
cluster.servers[].remote_activations activations those that other servers computed
cluster.servers[].remote_calls - calls to other servers
cluster.servers[].network_bytes bytes of its calls, both ways
cluster.servers[].gpu_busy_s s time of its GPUs with kernels, summed
cluster.servers[].series.bucket_s s width of a bucket of the two series
cluster.servers[].series.local_activations[] activations over time: as local_activations
cluster.servers[].series.remote_activations[] activations over time: as remote_activations
cluster.servers[].loaded_experts - experts that it loaded for one step and computed itself
cluster.servers[].cached_experts - experts that its cache holds at the end
cluster.migrations[].at_s s when a new placement was considered
cluster.migrations[].adopted - whether experts were moved
cluster.migrations[].recovery - whether a server had left or come back, so that they had to be
cluster.migrations[].remote_activations_before activations calls that the old placement would take, in the statistics' time
cluster.migrations[].remote_activations_after activations calls that the new one would take
cluster.migrations[].horizon_s s the time for which a new placement is judged; this and what is saved and costs are left out where a fault left no choice
cluster.migrations[].saved_s s time of calls that the new one would save over the horizon, of all servers together
cluster.migrations[].cost_s s time that loading the experts that move takes once, one after the other
cluster.migrations[].experts - experts that move
cluster.migrations[].done_s s when the last one was in its place; null: not before the end
cluster.faults[].at_s s when a server left or returned, or its network changed
cluster.faults[].server - which one
cluster.faults[].event - what happened
cluster.faults[].uncovered_experts - experts that no server held once it was known
cluster.faults[].recovered_s s when each had a holder again; null: not before the end
cluster.redirected_requests - requests that another server answered
serving.steps - steps of continuous batching; bytes below are of one GPU
serving.rows - tokens that ran in them
serving.recomputed_rows - of these, that had been in the KV cache before
serving.swapped_out_requests - preemptions to the host's memory
serving.dropped_requests - preemptions with the loss of the KV cache
serving.swap_in_bytes bytes of the KV cache, back from the host
serving.swap_out_bytes bytes of the KV cache, to the host
serving.decoded_bytes bytes plain size of experts made ready from compressed GPU memory
serving.loaded_bytes bytes of experts brought into the window over the link
serving.ssd_bytes bytes of what was loaded and promoted, read from the SSD before
serving.promoted_bytes bytes of experts brought into GPU memory to stay
serving.moved_experts - experts that the residency policy moved
serving.most_kv_blocks - most blocks of the KV cache in use at once
serving.most_kv_use share largest share of the blocks that there were in a step
serving.expert_balancedness share where GPUs divide experts: mean work over that of the GPU with most (1: even)
serving.page_cache_bytes bytes of what came into the window, that the page cache had
serving.exchanged_bytes bytes of other GPUs' rows that each GPU takes in
instances.gpus - GPUs of all instances of a system
instances.busiest[] - of each kind, the instance that had steps to run for most of the time; the busiest of all, whose critical path is stall_s, first
instances.servers[].name - an instance
instances.servers[].kind - colocated, or prefill or decode
instances.servers[].requests - requests that it served, or the part of them that it did
instances.servers[].steps - its steps
instances.servers[].rows - tokens that ran in them
instances.servers[].computed_s s time in which its GPUs ran kernels, mean over them
instances.servers[].most_kv_use share largest share of its KV blocks in use in a step, with those that wait to be sent or filled
instances.servers[].stall_s.CAUSE s its critical path, by the causes of stall_s
instances.transfers.requests - requests whose KV cache was sent from the instance that ran the prompt to the one that goes on
instances.transfers.bytes bytes of these, of one GPU
instances.transfers.wait_s s from the first token until there were blocks for it, mean
instances.transfers.send_s s from then until all of it was there, mean
series[].step - the last step of a stretch of the run
series[].begin_s s where the stretch begins
series[].time_s s where it ends
series[].running requests that ran in that step
series[].waiting requests that had come and had not begun
series[].swapped requests whose KV cache was in the host's memory
series[].kv_blocks blocks of the KV cache in use
series[].all_kv_blocks blocks of the KV cache that there were
series[].residency share of the experts that takes GPU memory
series[].tokens_per_s tokens/s generated in the stretch
series[].swap_in_bytes bytes of the KV cache, back from the host in the stretch
series[].swap_out_bytes bytes of the KV cache, to the host in the stretch
layers.decode_hits.STATE[] experts decode_hits, by layer
layers.decode_stall_s[] s by layer: from the begin of its dense part until its experts are done, in decode passes
plan.ratios.STATE share of the expert cache's memory that a pool got
plan.capacity.STATE experts of a layer that the pool holds
plan.expected_makespan_s s time to make a layer's missing experts ready that the planner expects
operations - operations that were simulated: reads, copies, decompressions, products
provenance[] - where each number is from that the run rests on, and what was set for this run
warnings[] - what to know before the figures are used
inputs.scenario - the whole scenario with all that it names: it can be run again
inputs.data[].file - a file of data that was read
inputs.data[].xxh3 - its checksum
)";

void add_metric_rows(std::string_view text, std::vector<MetricRow>& rows) {
  for (text.remove_prefix(1); !text.empty(); text.remove_prefix(text.find('\n') + 1)) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t unit = line.find(' ') + 1, definition = line.find(' ', unit) + 1;
    std::string_view unit_text = line.substr(unit, definition - 1 - unit);
    if (unit_text == "-") unit_text = "";
    rows.push_back({line.substr(0, unit - 1), unit_text, line.substr(definition)});
  }
}

}  // namespace

const std::vector<MetricRow>& metric_table() {
  static const std::vector<MetricRow> all = [] {
    std::vector<MetricRow> rows;
    for (const std::string_view text : {kRunMetrics, kWorkMetrics, kMemoryMetrics, kServingMetrics})
      add_metric_rows(text, rows);
    return rows;
  }();
  return all;
}

}  // namespace moelab::cli
