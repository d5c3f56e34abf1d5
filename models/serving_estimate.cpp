#include "models/serving_estimate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace moelab {
namespace {

double distinct_experts(const FeedForward& ff, double tokens) {
  return ff.experts * (1 - std::pow(1 - static_cast<double>(ff.top_k) / ff.experts, tokens));
}

/// What the mean query of a prompt's tokens from `before` on attends to in this layer.
double attended(const Attention& attention, double before, double tokens) {
  const double mean = before + (tokens + 1) / 2;
  return attention.window > 0 ? std::min<double>(mean, attention.window) : mean;
}

/// Experts of several tokens: memory and arithmetic at once, one by one, or between.
double overlapped(double memory, double arithmetic, double overlap) {
  return std::max(memory, arithmetic) + (1 - overlap) * std::min(memory, arithmetic);
}

}  // namespace

std::string StepEstimate::bound() const {
  const std::array<std::pair<double, const char*>, 7> parts{
      {{gpu_memory, "reading weights from the GPU's memory"},
       {attention, "attention"},
       {launches, "launches of kernels"},
       {cpu, "experts that the CPU computes from the host's memory"},
       {handing_over, "handing over between GPU and CPU"},
       {copies, "copies of experts to the GPU"},
       {reduces, "sums over GPUs"}}};
  return std::max_element(parts.begin(), parts.end())->second;
}

ServingEstimate::ServingEstimate(const Architecture& model, const MachineParts& machine,
                                 const Runtime& runtime, const Split& split)
    : model_(model), machine_(machine), runtime_(runtime), split_(split) {
  if (!machine.gpu) split_.cpu_only = true;
  if (machine.gpu) {
    gpu_bandwidth_ = machine.gpu->bandwidth.value() * ranks();
    gpu_peak_ = machine.gpu->peak.value() * ranks();
    if (!machine.gpu->unified()) link_ = link_rate(machine.gpu->link).value() * runtime.link * machine.gpus;
  }
  const double sockets = machine.sockets > 1 ? runtime.second_socket : 1;
  cpu_bandwidth_ = machine.host_bandwidth().value() * runtime.cpu_bandwidth * sockets;
  // Of a CPU that is not known only its memory is.
  cpu_peak_ = machine.cpu ? machine.cpu_peak().value() * runtime.cpu_peak * sockets
                          : std::numeric_limits<double>::infinity();
}

int ServingEstimate::ranks() const {
  return runtime_.tensor_parallel > 0 ? std::max(1, machine_.gpus) : 1;
}

double ServingEstimate::cpu_share_of(int moe_number) const {
  if (split_.cpu_only || moe_number < split_.cpu_expert_layers) return 1;
  return 1 - split_.gpu_expert_share;
}

double ServingEstimate::gpu_experts_s(const FeedForward& ff, double distinct, double pairs,
                                      bool single) const {
  const double bytes = distinct * expert_bytes(model_).value();
  const double flops = 2 * pairs * expert_weights(model_, ff);
  const double arithmetic = flops / (gpu_peak_ * runtime_.expert_peak);
  if (single) return std::max(bytes / (gpu_bandwidth_ * runtime_.expert_bandwidth), arithmetic);
  return overlapped(bytes / (gpu_bandwidth_ * runtime_.batched_bandwidth), arithmetic, runtime_.overlap);
}

double ServingEstimate::cpu_experts_s(const FeedForward& ff, double distinct, double pairs) const {
  const double bytes = distinct * expert_bytes(model_).value();
  const double flops = 2 * pairs * expert_weights(model_, ff);
  return std::max(bytes / cpu_bandwidth_, flops / cpu_peak_);
}

void ServingEstimate::add_work(const Work& work, StepEstimate& out) const {
  const Flops projected = work.flops - work.mixing;
  const double launches = work.kernels + runtime_.bias_kernels * work.biases;
  if (split_.cpu_only) {
    out.cpu += std::max(work.weight_bytes.value() / cpu_bandwidth_, projected.value() / cpu_peak_);
    out.attention += std::max(work.kv_bytes.value() / cpu_bandwidth_, work.mixing.value() / cpu_peak_);
    out.launches += launches * runtime_.cpu_launch;
    return;
  }
  out.gpu_memory += std::max(work.weight_bytes.value() / (gpu_bandwidth_ * runtime_.dense_bandwidth),
                             projected.value() / (gpu_peak_ * runtime_.dense_peak));
  out.attention += std::max(work.kv_bytes.value() / (gpu_bandwidth_ * runtime_.attention_bandwidth),
                            work.mixing.value() / (gpu_peak_ * runtime_.attention_peak));
  out.launches += launches * runtime_.launch;
}

void ServingEstimate::add_experts(const Layer& layer, int moe_number, const Pass& pass,
                                  StepEstimate& out) const {
  const FeedForward& ff = layer.feed_forward;
  const double on_cpu = cpu_share_of(moe_number);
  const double distinct = pass.tokens == 1 ? ff.top_k : distinct_experts(ff, pass.tokens);
  const double pairs = pass.tokens * ff.top_k;
  const Work one = expert_work(model_, ff, 1);
  out.launches += distinct * runtime_.expert_host;
  // Of one product for all of a layer's experts, or of one for each that is computed there.
  const auto kernels = [&](double experts) {
    return (one.kernels + runtime_.bias_kernels * one.biases) * (runtime_.launch_each != 0 ? experts : 1);
  };
  if (split_.cpu_only) {
    out.cpu += cpu_experts_s(ff, distinct, pairs);
    out.launches += kernels(distinct) * runtime_.cpu_launch;
    return;
  }
  const bool single = pass.tokens == 1;
  const bool copied =
      pass.prompt && on_cpu > 0 && runtime_.stream_from > 0 && pass.tokens >= runtime_.stream_from;
  out.launches += kernels(copied ? distinct : (1 - on_cpu) * distinct) * runtime_.launch;
  if (copied) {
    const double computed = gpu_experts_s(ff, distinct, pairs, single);
    const double copy = link_ > 0 ? on_cpu * distinct * expert_bytes(model_).value() / link_ : 0;
    out.gpu_memory += computed;
    out.copies += std::max(0.0, copy - computed);
    return;
  }
  const double on_gpu =
      on_cpu < 1 ? gpu_experts_s(ff, (1 - on_cpu) * distinct, (1 - on_cpu) * pairs, single) : 0;
  out.gpu_memory += on_gpu;
  if (on_cpu == 0) return;
  out.cpu += std::max(0.0, cpu_experts_s(ff, on_cpu * distinct, on_cpu * pairs) - on_gpu);
  out.handing_over += runtime_.cpu_layer;
}

void ServingEstimate::add_layer(const Layer& layer, int moe_number, const Pass& pass,
                                StepEstimate& out) const {
  const double context = pass.prompt                  ? attended(layer.attention, pass.context, pass.tokens)
                         : layer.attention.window > 0 ? std::min<double>(pass.context, layer.attention.window)
                                                      : pass.context;
  add_work(attention_work(model_, layer, pass.tokens, context, pass.queries_per_read), out);
  add_work(dense_work(model_, layer, pass.tokens), out);
  if (moe_number >= 0) add_experts(layer, moe_number, pass, out);
  if (ranks() > 1 && !split_.cpu_only) out.reduces += 2 * runtime_.all_reduce;
}

void ServingEstimate::add_pass(const Pass& pass, StepEstimate& out) const {
  int moe_number = 0;
  for (const Layer& layer : model_.layers) {
    const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
    add_layer(layer, moe ? moe_number++ : -1, pass, out);
  }
}

StepEstimate ServingEstimate::decode(double sequences, double context) const {
  StepEstimate out;
  const Pass pass{sequences, context, 1, false};
  add_pass(pass, out);
  add_work(head_work(model_, sequences), out);
  out.launches += runtime_.step;
  return out;
}

StepEstimate ServingEstimate::prompt(double tokens, std::optional<double> micro_batch) const {
  StepEstimate out;
  const double most = micro_batch.value_or(runtime_.micro_batch);
  for (double before = 0; before < tokens; before += most) {
    const double now = std::min(most, tokens - before);
    add_pass({now, before, now, true}, out);
    out.launches += runtime_.step;
  }
  add_work(head_work(model_, 1), out);
  return out;
}

SplitMemory ServingEstimate::memory(double tokens) const {
  SplitMemory m;
  const double kv = kv_bytes_per_token(model_).value() * tokens + state_bytes_per_request(model_).value();
  if (split_.cpu_only) {
    m.host = total_bytes(model_).value() + kv;
    return m;
  }
  // The input embedding is looked up, not multiplied: runtimes keep it where it costs no GPU memory.
  const double embedding =
      model_.embedding_copies > 1 ? embedding_weights(model_) * model_.stored.of(WeightPart::embedding) : 0;
  m.gpu_weights = non_expert_bytes(model_).value() - embedding;
  m.host = embedding;
  int moe_number = 0;
  for (const Layer& layer : model_.layers) {
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind != FeedForward::Kind::moe) continue;
    const double bytes = ff.experts * expert_bytes(model_).value();
    const double on_cpu = cpu_share_of(moe_number++);
    m.gpu_weights += (1 - on_cpu) * bytes;
    m.host += on_cpu * bytes;
  }
  m.gpu_kv = kv;
  m.gpu_reserve = runtime_.gpu_reserve * std::max(1, machine_.gpus);
  return m;
}

std::string ServingEstimate::impossible(double tokens) const {
  const SplitMemory m = memory(tokens);
  const auto missing = [](const char* where, double needed, double there) {
    return std::string(where) + " needs " + to_string(Bytes(needed)) + " and has " + to_string(Bytes(there));
  };
  const bool unified = machine_.gpu && machine_.gpu->unified();
  if (!split_.cpu_only && !unified && m.gpu() > machine_.gpu_memory().value())
    return missing(machine_.gpus > 1 ? "the GPUs' memory" : "the GPU's memory", m.gpu(),
                   machine_.gpu_memory().value());
  const double host = m.host + (unified ? m.gpu() : 0);
  if (machine_.ram && host > machine_.ram->value())
    return missing("the host's memory", host, machine_.ram->value());
  const bool on_cpu = split_.cpu_only || split_.cpu_expert_layers > 0 || split_.gpu_expert_share < 1;
  if (on_cpu && cpu_bandwidth_ <= 0) return "the CPU computes experts, and nothing says which CPU it is";
  return {};
}

}  // namespace moelab
