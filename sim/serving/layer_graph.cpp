#include "sim/serving/layer_graph.hpp"

namespace moelab {

using engine::kNoOp;
using engine::OpIndex;

OpIndex LayerGraphBuilder::add(LabelledGraph& out, engine::Lane lane, double seconds, OpLabel label) const {
  out.labels.push_back(label);
  return out.graph.add(lane, seconds + dispatch_s_);
}

OpIndex add_host_read(const ServerResources& resources, const HostReads& reads, double dispatch_s,
                      OpLabel label, LabelledGraph& out) {
  const bool e = label.kind == OpKind::read_e;
  const double seconds = e ? reads.e_s : reads.sm_s;
  const OpIndex op = out.graph.add(out.graph.lane(resources.reader), seconds + dispatch_s);
  label.bytes = e ? reads.e_bytes : reads.sm_bytes;
  out.graph.share(op, resources.ssd, seconds - reads.latency_s, label.bytes);
  label.tier = Tier::ssd;
  out.labels.push_back(label);
  return op;
}

OpIndex LayerGraphBuilder::add_transfer(LabelledGraph& out, double seconds, double latency_s, OpLabel label,
                                        OpIndex behind) const {
  if (resources_.gpu_memory) label.tier = Tier::host;
  const OpIndex op = add_read(out, io_, seconds, latency_s, label);
  if (behind != kNoOp) out.graph.depend(op, behind);
  return op;
}

OpIndex LayerGraphBuilder::add_read(LabelledGraph& out, engine::Lane lane, double seconds, double latency_s,
                                    OpLabel label) const {
  const double bytes = label.bytes = label.kind == OpKind::read_e ? bytes_.e_read : bytes_.sm_read;
  const OpIndex op = add(out, lane, seconds, label);
  if (label.tier == Tier::page_cache)  // out of one buffer into another
    resources_.share(out.graph, op, true, seconds, 2 * bytes);
  if (label.tier == Tier::host && resources_.copies_on_cpu)
    resources_.share(out.graph, op, true, seconds, 2 * bytes);
  else if (label.tier == Tier::host)
    resources_.share_memory(out.graph, op, seconds - latency_s, bytes);
  if (label.tier == Tier::ssd) out.graph.share(op, resources_.ssd, seconds - latency_s, bytes);
  return op;
}

void LayerGraphBuilder::index_tasks(const LayerInstance& instance) {
  expert_of_.clear();
  tensor_of_.clear();
  for (std::uint32_t e = 0; e < instance.experts.size(); ++e)
    for (std::uint32_t t = 0; t < instance.experts[e].tensors; ++t) {
      expert_of_.push_back(e);
      tensor_of_.push_back(t);
    }
  read_.assign(expert_of_.size(), kNoOp);
  chunk_.assign(expert_of_.size() * instance.shards, kNoOp);
  ready_.assign(expert_of_.size(), kNoOp);
  execution_.assign(instance.experts.size(), kNoOp);
}

void LayerGraphBuilder::add_read_of_sm(const LayerInstance& instance, std::uint32_t task,
                                       const ExpertReads& reads, LabelledGraph& out) {
  const OpLabel label{instance.shards == 0 ? OpKind::read_tensor : OpKind::read_sm, reads.sm_tier,
                      static_cast<std::uint16_t>(tensor_of_[task]), 0, instance.experts[expert_of_[task]].id};
  const OpIndex first = resources_.gpu_memory && reads.sm_tier == Tier::ssd
                            ? add_host_read(resources_, host_reads_, dispatch_s_, label, out)
                            : kNoOp;
  read_[task] = add_transfer(out, reads.sm_s, reads.latency_s, label, first);
}

void LayerGraphBuilder::add_read_of_e(const LayerInstance& instance, std::uint32_t task, std::uint32_t chunk,
                                      const ExpertReads& reads, LabelledGraph& out) {
  const OpLabel label{OpKind::read_e, reads.e_tier, static_cast<std::uint16_t>(tensor_of_[task]),
                      static_cast<std::uint16_t>(chunk), instance.experts[expert_of_[task]].id};
  OpIndex before = kNoOp;
  if (resources_.gpu_memory && reads.e_tier == Tier::ssd)
    before = add_host_read(resources_, host_reads_, dispatch_s_, label, out);
  if (resources_.path == PlanePath::decode_send_join) {
    const OpIndex decompress = add(out, threads_, instance.decompress_s,
                                   {OpKind::decompress, Tier::none, label.tensor, label.chunk, label.expert});
    resources_.share(out.graph, decompress, true, instance.decompress_s, bytes_.decompress);
    if (before != kNoOp) out.graph.depend(decompress, before);
    before = decompress;
  }
  chunk_[task * instance.shards + chunk] = add_transfer(out, reads.e_s, reads.latency_s, label, before);
}

void LayerGraphBuilder::add_reads(const LayerInstance& instance, const LayerOrder& order,
                                  std::span<const ExpertReads> reads, LabelledGraph& out) {
  for (const ChunkRead& read : order.reads) {
    const ExpertReads& of = reads[expert_of_[read.task]];
    if (read.chunk == kSmChunk)
      add_read_of_sm(instance, read.task, of, out);
    else if (!worker_reads_)
      add_read_of_e(instance, read.task, read.chunk, of, out);
  }
}

void LayerGraphBuilder::add_decompression(const LayerInstance& instance, std::uint32_t task,
                                          const ExpertReads& reads, LabelledGraph& out) {
  const LayerExpert& expert = instance.experts[expert_of_[task]];
  for (std::uint32_t c = 0; c < instance.shards; ++c) {
    OpIndex& chunk = chunk_[task * instance.shards + c];
    OpLabel label{OpKind::decompress, Tier::none, static_cast<std::uint16_t>(tensor_of_[task]),
                  static_cast<std::uint16_t>(c), expert.id};
    if (worker_reads_ && !has_e(expert.state)) {
      const OpLabel read_label{OpKind::read_e, reads.e_tier, label.tensor, label.chunk, expert.id};
      const OpIndex read = add_read(out, threads_, reads.e_s, reads.latency_s, read_label);
      chunk = out.graph.add_continuation(read, instance.decompress_s);
      out.labels.push_back(label);
    } else {
      const OpIndex read = chunk;
      chunk = add(out, threads_, instance.decompress_s, label);
      if (read != kNoOp) out.graph.depend(chunk, read);
    }
    resources_.share(out.graph, chunk, true, instance.decompress_s, bytes_.decompress);
  }
}

// What threads decompress goes over the link when it is plain, its own planes ahead of those of later tasks.
void LayerGraphBuilder::add_decoded_and_sent(const LayerInstance& instance, std::uint32_t task,
                                             const ExpertReads& reads, LabelledGraph& out) {
  const State state = instance.experts[expert_of_[task]].state;
  if (!has_sm(state)) add_read_of_sm(instance, task, reads, out);
  if (has_e(state)) return;  // it is there, plain
  for (std::uint32_t c = 0; c < instance.shards; ++c) add_read_of_e(instance, task, c, reads, out);
}

void LayerGraphBuilder::add_task(const LayerInstance& instance, std::uint32_t task,
                                 std::span<const ExpertReads> reads, LabelledGraph& out) {
  const LayerExpert& expert = instance.experts[expert_of_[task]];
  if (expert.state == State::F) return;
  if (instance.shards == 0) {  // stored whole: ready once read
    ready_[task] = read_[task];
    return;
  }
  if (resources_.path == PlanePath::read_decode_join)
    add_decompression(instance, task, reads[expert_of_[task]], out);
  else if (resources_.path == PlanePath::decode_send_join)
    add_decoded_and_sent(instance, task, reads[expert_of_[task]], out);
  const OpLabel label{OpKind::recover, Tier::none, static_cast<std::uint16_t>(tensor_of_[task]), 0,
                      expert.id};
  const OpIndex recover = add(out, recovery_, instance.recover_s, label);
  resources_.share(out.graph, recover, resources_.recovers_on_cpu, instance.recover_s, bytes_.recover);
  for (std::uint32_t c = 0; c < instance.shards; ++c)
    if (const OpIndex chunk = chunk_[task * instance.shards + c]; chunk != kNoOp)
      out.graph.depend(recover, chunk);
  if (read_[task] != kNoOp) out.graph.depend(recover, read_[task]);
  ready_[task] = recover;
}

// Waits of what experts begin with, where there are more of them than there is room for.
void LayerGraphBuilder::take_turns(const LayerInstance& instance, const LayerOrder& order,
                                   std::span<const std::uint32_t> tokens, OpIndex first, LabelledGraph& out) {
  loading_.clear();
  for (const std::uint32_t e : order.experts)
    if (tokens[e] > 0 && instance.experts[e].state != State::F) loading_.push_back(e);
  if (loading_.size() <= staged_) return;
  turns_.clear();
  for (std::size_t i = staged_; i < loading_.size(); ++i) {
    const LayerExpert& expert = instance.experts[loading_[i]];
    if (turns_.size() <= expert.id) turns_.resize(expert.id + 1);
    turns_[expert.id] = {execution_[loading_[i - staged_]], has_e(expert.state)};
  }
  for (OpIndex op = first; op < out.graph.size(); ++op) {
    const OpLabel& label = out.labels[op];
    if (label.expert >= turns_.size() || turns_[label.expert].after == kNoOp) continue;
    const bool reads =
        label.kind == OpKind::read_sm || label.kind == OpKind::read_e || label.kind == OpKind::read_tensor;
    if (reads || (label.kind == OpKind::decompress && turns_[label.expert].decodes_first))
      out.graph.depend(op, turns_[label.expert].after);
  }
}

void LayerGraphBuilder::build(const LayerInstance& instance, const LayerOrder& order,
                              std::span<const ExpertReads> reads, std::span<const std::uint32_t> tokens,
                              LabelledGraph& out) {
  io_ = out.graph.lane(resources_.io);
  threads_ = out.graph.lane(resources_.decompress);
  recovery_ = out.graph.lane(resources_.recover);
  compute_ = out.graph.lane(resources_.experts);
  const auto first = static_cast<OpIndex>(out.graph.size());
  index_tasks(instance);
  if (resources_.path != PlanePath::decode_send_join) add_reads(instance, order, reads, out);
  for (const std::uint32_t task : order.tasks) add_task(instance, task, reads, out);
  for (const std::uint32_t e : order.experts) {
    if (tokens[e] == 0) continue;
    const OpLabel label{OpKind::execute, Tier::none, 0, 0, instance.experts[e].id, tokens[e]};
    const double seconds = instance.experts[e].execute_s;
    execution_[e] = add(out, compute_, seconds, label);
    resources_.share(out.graph, execution_[e], resources_.computes_on_cpu, seconds, bytes_.execute);
  }
  for (std::uint32_t task = 0; task < expert_of_.size(); ++task)
    if (const OpIndex x = execution_[expert_of_[task]]; x != kNoOp && ready_[task] != kNoOp)
      out.graph.depend(x, ready_[task]);
  take_turns(instance, order, tokens, first, out);
}

}  // namespace moelab
