#include "sim/serving/expert_costs.hpp"

#include <algorithm>
#include <cmath>

#include "models/architecture.hpp"
#include "models/device.hpp"
#include "models/timing.hpp"
#include "sim/scenario/system_config.hpp"

namespace moelab {

namespace {

/// Whole tensors in the host's memory, a matrix a transfer: so do the frameworks, whose tensors are matrices,
/// and what is urgent waits for one matrix at most.
void cost_whole(double bytes_per_weight, ExpertCosts& c) {
  c.sm_bytes = Bytes(c.elements * bytes_per_weight);
  c.timing.threads = 1;
  c.timing.shards = 0;
  c.stored = c.tensors * c.sm_bytes;
}

/// Bytes of all chunks of a plane, each of whole bytes.
Bytes in_chunks(double bytes, double shards) {
  return Bytes(shards * std::ceil(bytes / shards));
}

/// Planes in the host's memory, exponents in chunks. One kernel decodes a tensor's chunks and joins its
/// planes (as that of DFloat11 does, arXiv 2504.11651), or threads of the host decode and a kernel joins.
void cost_planes(const TimingModel& timing, const SystemConfig& system, int ranks, ExpertCosts& c) {
  const double shards = system.shards;
  double compressed = 0;
  if (system.decoder == Decoder::gpu) {
    const GpuProfile& gpu = *timing.device().gpu;
    const GpuCodecProfile& codec = gpu.codecs.at(system.codec);
    c.path = PlanePath::send_decode;
    c.ratio = compressed = codec.exponent_ratio();
    c.timing.recover_s = (timing.decode(codec, Bytes(2 * c.elements)) + timing.launch()).value();
  } else {
    const CodecProfile& codec = timing.device().codecs.at(system.codec);
    c.path = PlanePath::decode_send_join;
    compressed = codec.ratio.value;
    c.timing.decompress_s = ranks * timing.decompress(codec, Bytes(c.elements / shards)).value();
    c.timing.recover_s = timing.recover(c.elements).value();
    c.traffic.decompress = ranks * (in_chunks(c.elements * compressed, shards).value() + c.elements) / shards;
  }
  c.sm_bytes = Bytes(c.elements);
  c.e_bytes = in_chunks(c.elements * c.ratio, shards);
  c.timing.threads = system.threads;
  c.timing.shards = system.shards;
  c.timing.e_read_s = timing.load(c.e_bytes / shards).value();
  c.traffic.e_read = c.e_bytes.value() / shards;
  c.traffic.recover = 4 * c.elements;
  c.e_stored = in_chunks(c.elements * compressed, shards);
  c.stored = c.tensors * (c.sm_bytes + c.e_stored);
}

/// Of experts that lie in the host's memory and come over the link of a discrete GPU.
ExpertCosts linked_costs(const Architecture& model, const TimingModel& timing, const SystemConfig& system,
                         int ranks) {
  ExpertCosts c;
  c.tensors = static_cast<std::uint32_t>(model.moe().matrices);
  c.elements = expert_tensor_weights(model, model.moe());
  if (system.compressed)
    cost_planes(timing, system, ranks, c);
  else
    cost_whole(model.stored.of(WeightPart::experts), c);
  const double full = c.elements * model.stored.of(WeightPart::experts) * c.tensors;
  c.bytes = {full, full, full, full, 0};
  if (system.compressed)
    c.bytes = {full, (c.sm_bytes + c.e_bytes).value() * c.tensors, c.sm_bytes.value() * c.tensors,
               c.e_bytes.value() * c.tensors, 0};
  c.timing.sm_read_s = timing.load(c.sm_bytes).value();
  c.cold = {c.timing.sm_read_s, c.timing.e_read_s, timing.load(Bytes(0)).value(), Tier::host, Tier::host};
  c.cached = c.cold;
  c.traffic.sm_read = c.sm_bytes.value();
  c.traffic.execute = full;
  const double shards = std::max(1u, c.timing.shards);
  const Bytes chunk = c.e_stored / shards;
  c.host_reads = {timing.ssd_read(c.sm_bytes).value(), timing.ssd_read(chunk).value(),
                  timing.ssd_read(Bytes(0)).value(), c.sm_bytes.value(), chunk.value()};
  c.ssd_bytes_per_second = c.host_reads.sm_bytes / (c.host_reads.sm_s - c.host_reads.latency_s);
  if (system.compressed)
    c.ssd_bytes_per_second =
        std::max(c.ssd_bytes_per_second, chunk.value() / (c.host_reads.e_s - c.host_reads.latency_s));
  return c;
}

}  // namespace

double ExpertCosts::supply_s(State state, bool from_ssd) const {
  if (state == State::F) return 0;
  const double shards = timing.shards;
  const bool sm = !has_sm(state), e = !has_e(state);
  double longest = (sm ? cold.sm_s : 0) + (e ? shards * cold.e_s : 0);
  if (from_ssd) longest = std::max(longest, (sm ? host_reads.sm_s : 0) + (e ? shards * host_reads.e_s : 0));
  const bool decodes = path == PlanePath::read_decode_join || e;  // else what is kept is plain
  if (decodes) longest = std::max(longest, shards * timing.decompress_s / std::max(1U, timing.threads));
  if (shards > 0) longest = std::max(longest, timing.recover_s);
  return tensors * longest;
}

ExpertCosts expert_costs(const Architecture& model, const TimingModel& timing, const SystemConfig& system,
                         int ranks) {
  if (timing.is_discrete()) return linked_costs(model, timing, system, ranks);
  ExpertCosts c;
  const FeedForward& ff = model.moe();
  c.tensors = static_cast<std::uint32_t>(ff.matrices);
  c.elements = expert_tensor_weights(model, ff);
  c.timing.threads = system.threads;
  c.timing.shards = system.shards;
  if (system.compressed) {
    const CodecProfile& codec = timing.device().codecs.at(system.codec);
    c.ratio = codec.ratio.value;
    c.sm_bytes = Bytes(c.elements);
    const double shards = system.shards;
    c.e_bytes = Bytes(shards * std::ceil(c.elements * c.ratio / shards));  // chunks are whole bytes
    c.timing.e_read_s = timing.ssd_read(c.e_bytes / shards).value();
    c.timing.decompress_s = timing.decompress(codec, Bytes(c.elements / shards)).value();
    c.timing.recover_s = timing.recover(c.elements).value();
    c.cached.e_s = timing.page_cache_read(c.e_bytes / shards).value();
  } else {
    c.sm_bytes = Bytes(c.elements * model.stored.of(WeightPart::experts));
  }
  c.timing.sm_read_s = timing.ssd_read(c.sm_bytes).value();
  c.cold = {c.timing.sm_read_s, c.timing.e_read_s, timing.ssd_read(Bytes(0)).value(), Tier::ssd, Tier::ssd};
  c.cached.sm_s = timing.page_cache_read(c.sm_bytes).value();
  c.cached.sm_tier = c.cached.e_tier = Tier::page_cache;

  c.traffic.sm_read = c.sm_bytes.value();
  c.traffic.execute = expert_bytes(model).value();
  c.ssd_bytes_per_second = c.sm_bytes.value() / (c.cold.sm_s - c.cold.latency_s);
  if (system.compressed) {
    c.traffic.e_read = c.e_bytes.value() / c.timing.shards;
    c.traffic.decompress = c.traffic.e_read + c.elements / c.timing.shards;
    c.traffic.recover = 4 * c.elements;
    c.ssd_bytes_per_second =
        std::max(c.ssd_bytes_per_second, c.traffic.e_read / (c.cold.e_s - c.cold.latency_s));
  }

  const double tensors = c.tensors;
  const double full = c.elements * model.stored.of(WeightPart::experts) * tensors;
  c.bytes = {full, (c.sm_bytes + c.e_bytes).value() * tensors, c.sm_bytes.value() * tensors,
             c.e_bytes.value() * tensors, 0};
  if (!system.compressed) c.bytes = {full, full, full, full, 0};  // states C, S and E do not occur
  c.stored = Bytes(c.bytes[index(system.compressed ? State::C : State::F)]);
  c.e_stored = c.e_bytes;
  return c;
}

}  // namespace moelab
