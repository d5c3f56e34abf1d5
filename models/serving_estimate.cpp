#include "models/serving_estimate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "models/tensor_parallel.hpp"

namespace moelab {
namespace {

/// Assumed: set by hand, and kept by a trial fit to the measured batches and prompts of experiments/world.
constexpr double kTokensAlike = 0.8;

double distinct_experts(const FeedForward& ff, double tokens) {
  const double apart = std::pow(tokens, kTokensAlike);
  return ff.experts * (1 - std::pow(1 - static_cast<double>(ff.top_k) / ff.experts, apart));
}

constexpr std::array kStepParts{
    &StepEstimate::gpu_memory, &StepEstimate::gpu_products, &StepEstimate::attention, &StepEstimate::launches,
    &StepEstimate::cpu,        &StepEstimate::handing_over, &StepEstimate::copies,    &StepEstimate::reduces};

/// Which part of a step the GPU's work with weights counts to.
double StepEstimate::*bound_by(double reading_s, double arithmetic_s) {
  return arithmetic_s > reading_s ? &StepEstimate::gpu_products : &StepEstimate::gpu_memory;
}

/// What can bound a step: seconds, as a phrase, and in a word or two.
struct Bound {
  double seconds;
  const char *phrase, *word;
};

Bound largest(const StepEstimate& e) {
  const std::array<Bound, 8> parts{{{e.gpu_memory, "reading weights from the GPU's memory", "GPU memory"},
                                    {e.gpu_products, "the GPU's arithmetic with weights", "GPU arithmetic"},
                                    {e.attention, "attention", "attention"},
                                    {e.launches, "launches of kernels and their activations", "launches"},
                                    {e.cpu, "what the CPU computes from the host's memory", "CPU"},
                                    {e.handing_over, "handing over between GPU and CPU", "hand-over"},
                                    {e.copies, "copies of weights to the GPU", "link"},
                                    {e.reduces, "sums over GPUs", "all-reduce"}}};
  return *std::max_element(parts.begin(), parts.end(),
                           [](const Bound& a, const Bound& b) { return a.seconds < b.seconds; });
}

}  // namespace

StepEstimate& StepEstimate::operator+=(const StepEstimate& more) {
  for (double StepEstimate::*part : kStepParts) this->*part += more.*part;
  return *this;
}

StepEstimate& StepEstimate::operator*=(double factor) {
  for (double StepEstimate::*part : kStepParts) this->*part *= factor;
  return *this;
}

std::string StepEstimate::bound() const {
  return largest(*this).phrase;
}

std::string StepEstimate::bound_word() const {
  return largest(*this).word;
}

ServingEstimate::ServingEstimate(const Architecture& model, const MachineParts& machine,
                                 const Runtime& runtime, const Split& split)
    : model_(model), machine_(machine), runtime_(runtime.on(machine.gpu, model.stored)), split_(split) {
  if (!machine.gpu) split_.cpu_only = true;
  if (machine.gpu) {
    gpu_bandwidth_ = machine.gpu->bandwidth.value() * ranks();
    gpu_peak_ = machine.gpu->peak.value() * ranks();
    if (ranks() > 1) all_reduce_ = machine.all_reduce(ranks(), runtime_);
    if (!machine.gpu->unified()) link_ = link_rate(machine.gpu->link).value() * runtime_.link * machine.gpus;
  }
  const double sockets = runtime_.share_of_sockets(machine.sockets);
  cpu_bandwidth_ = machine.host_bandwidth().value() * runtime_.cpu_bandwidth * sockets *
                   runtime_.share_at(machine.memory.bandwidth().value());
  // Of a CPU that is not known only its memory is.
  cpu_peak_ = machine.cpu ? machine.cpu_peak(model.stored, runtime_).value() * runtime_.cpu_peak
                          : std::numeric_limits<double>::infinity();
  int moe_number = 0, number = 0;
  for (const Layer& layer : model.layers) {
    const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
    Kind kind{&layer, moe ? cpu_share_of(moe_number++) : 0, number < split_.cpu_layers,
              split_.in_host(number), 1};
    ++number;
    const auto alike = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
      return k.on_cpu == kind.on_cpu && k.of_cpu == kind.of_cpu && k.of_link == kind.of_link &&
             *k.layer == layer;
    });
    if (alike == kinds_.end())
      kinds_.push_back(kind);
    else
      ++alike->count;
  }
}

int ServingEstimate::ranks() const {
  return runtime_.tensor_parallel > 0 ? std::max(1, machine_.gpus) : 1;
}

/// Each GPU has all rows, also where they share the layer.
double ServingEstimate::kernel_s(bool single, double rows) const {
  return runtime_.kernel_s(single, rows, model_.hidden, gpu_bandwidth_ / ranks());
}

double ServingEstimate::cpu_share_of(int moe_number) const {
  if (split_.cpu_only || moe_number < split_.cpu_expert_layers) return 1;
  return 1 - split_.gpu_expert_share;
}

ServingEstimate::Computed ServingEstimate::gpu_experts(const FeedForward& ff, double distinct, double pairs,
                                                       bool single) const {
  const double bytes = distinct * expert_bytes(model_).value();
  const double flops = 2 * pairs * expert_weights(model_, ff);
  double arithmetic = flops / (gpu_peak_ * runtime_.expert_peak);
  if (!single && pairs > 0) arithmetic *= 1 + runtime_.expert_tokens * distinct / pairs;
  const double reading =
      bytes / (gpu_bandwidth_ * (single ? runtime_.expert_bandwidth : runtime_.batched_bandwidth));
  return {single ? std::max(reading, arithmetic) : runtime_.overlapped(reading, arithmetic),
          bound_by(reading, arithmetic)};
}

double ServingEstimate::cpu_experts_s(const FeedForward& ff, double distinct, double pairs) const {
  const double bytes = distinct * expert_bytes(model_).value();
  const double flops = 2 * pairs * expert_weights(model_, ff);
  return std::max(bytes / cpu_bandwidth_, flops / cpu_peak_);
}

ServingEstimate::Place ServingEstimate::place_of(const Kind& kind, const Pass& pass) const {
  if (split_.cpu_only) return Place::cpu;
  const bool copied = pass.prompt && runtime_.stream_from > 0 && pass.tokens >= runtime_.stream_from;
  if (kind.of_cpu && !(copied && link_ > 0)) return Place::cpu;
  return kind.of_link && link_ > 0 ? Place::link : Place::gpu;
}

void ServingEstimate::add_work(const Work& work, double tokens, Place place, StepEstimate& out) const {
  const Flops projected = work.flops - work.mixing - work.recurrence;
  const double launches = runtime_.launches(work.kernels, work.biases, tokens == 1);
  if (place == Place::cpu) {
    const Flops mixed = work.mixing + work.recurrence;
    out.cpu += std::max(work.weight_bytes.value() / cpu_bandwidth_, projected.value() / cpu_peak_);
    out.attention += std::max(work.kv_bytes.value() / cpu_bandwidth_, mixed.value() / cpu_peak_);
    out.launches += launches * runtime_.cpu_launch;
    return;
  }
  const double reading = work.weight_bytes.value() / (gpu_bandwidth_ * runtime_.dense_bandwidth);
  const double arithmetic = projected.value() / (gpu_peak_ * runtime_.dense_peak);
  const double computed =
      RuntimeCosts::overlapped(reading, arithmetic, tokens == 1 ? 1 : runtime_.dense_overlap);
  out.*bound_by(reading, arithmetic) += computed;
  if (place == Place::link) out.copies += std::max(0.0, work.weight_bytes.value() / link_ - computed);
  out.attention += std::max(work.kv_bytes.value() / (gpu_bandwidth_ * runtime_.attention_bandwidth),
                            work.mixing.value() / (gpu_peak_ * runtime_.attention_peak)) +
                   work.recurrence.value() / (gpu_peak_ * runtime_.recurrence_peak);
  out.launches += launches * kernel_s(tokens == 1, tokens);
}

/// A layer's experts, all computed on the GPU, so many of them copied there.
void ServingEstimate::add_gpu_experts(const FeedForward& ff, double copied, const Pass& pass,
                                      StepEstimate& out) const {
  const double distinct = pass.tokens == 1 ? ff.top_k : distinct_experts(ff, pass.tokens);
  const Computed computed = gpu_experts(ff, distinct, pass.tokens * ff.top_k, pass.tokens == 1);
  const double copy = link_ > 0 ? copied * expert_bytes(model_).value() / link_ : 0;
  out.*computed.bound += computed.seconds;
  out.copies += std::max(0.0, copy - computed.seconds);
}

void ServingEstimate::add_experts(const Kind& kind, Place place, const Pass& pass, StepEstimate& out) const {
  const FeedForward& ff = kind.layer->feed_forward;
  const double on_cpu = kind.on_cpu;
  const bool single = pass.tokens == 1;
  const double distinct = single ? ff.top_k : distinct_experts(ff, pass.tokens);
  const double pairs = pass.tokens * ff.top_k;
  const Work one = expert_work(model_, ff, 1);
  out.launches += distinct * runtime_.expert_host;
  // Of one product for all of a layer's experts, or of one for each that is computed there.
  const auto kernels = [&](double experts) {
    const double of_product = runtime_.launches(one.kernels, one.biases, single);
    return of_product * (runtime_.launch_each != 0 ? experts : 1);
  };
  if (place == Place::cpu) {
    out.cpu += cpu_experts_s(ff, distinct, pairs);
    out.launches += kernels(distinct) * runtime_.cpu_launch;
    return;
  }
  const double rows = runtime_.launch_each != 0 ? pairs / distinct : pairs;
  const double kernel = kernel_s(single, rows);
  const bool copied =
      pass.prompt && on_cpu > 0 && runtime_.stream_from > 0 && pass.tokens >= runtime_.stream_from;
  if (copied || place == Place::link) {
    out.launches += kernels(distinct) * kernel;
    add_gpu_experts(ff, place == Place::link ? ff.experts : on_cpu * distinct, pass, out);
    return;
  }
  out.launches += kernels((1 - on_cpu) * distinct) * kernel;
  Computed on_gpu;
  if (on_cpu < 1) on_gpu = gpu_experts(ff, (1 - on_cpu) * distinct, (1 - on_cpu) * pairs, single);
  out.*on_gpu.bound += on_gpu.seconds;
  if (on_cpu == 0) return;
  out.cpu += std::max(0.0, cpu_experts_s(ff, on_cpu * distinct, on_cpu * pairs) - on_gpu.seconds);
  out.handing_over += runtime_.cpu_layer;
}

void ServingEstimate::add_layer(const Kind& kind, const Pass& pass, StepEstimate& out) const {
  const Layer& layer = *kind.layer;
  const Place place = place_of(kind, pass);
  const int window = layer.attention.window;
  const double context = pass.prompt  ? attended_tokens(pass.context + 1, pass.tokens, window) / pass.tokens
                         : window > 0 ? std::min<double>(pass.context, window)
                                      : pass.context;
  StepEstimate attention;
  add_work(attention_work(model_, layer, pass.tokens, context, pass.queries_per_read), pass.tokens, place,
           attention);
  if (pass.prompt && place != Place::cpu)
    attention.launches += std::max(0.0, runtime_.eager_layer - attention.total());
  out += attention;
  add_work(dense_work(model_, layer, pass.tokens), pass.tokens, place, out);
  if (layer.feed_forward.kind == FeedForward::Kind::moe) add_experts(kind, place, pass, out);
  if (ranks() > 1 && place != Place::cpu)
    out.reduces += all_reduces(layer) * all_reduce_(all_reduce_bytes(model_, pass.tokens).value());
}

void ServingEstimate::add_pass(const Pass& pass, StepEstimate& out) const {
  for (const Kind& kind : kinds_) {
    StepEstimate one;
    add_layer(kind, pass, one);
    out += one *= kind.count;
  }
  if (!split_.cpu_only && place_of(kinds_.front(), pass) == Place::cpu)
    out.handing_over += runtime_.cpu_layer;
}

StepEstimate ServingEstimate::decode(double sequences, double context) const {
  StepEstimate out;
  const Place head_place = split_.cpu_only ? Place::cpu : Place::gpu;
  const Pass pass{sequences, context, 1, false};
  add_pass(pass, out);
  add_work(head_work(model_, sequences), sequences, head_place, out);
  out.launches += runtime_.step + sequences * runtime_.request;
  return out;
}

StepEstimate ServingEstimate::prompt(double tokens, std::optional<double> micro_batch, double before) const {
  StepEstimate out;
  const double most = micro_batch.value_or(runtime_.micro_batch);
  for (double done = 0; done < tokens; done += most) {
    const double now = std::min(most, tokens - done);
    add_pass({now, before + done, kPromptTile, true}, out);
    out.launches += runtime_.step;
  }
  add_work(head_work(model_, 1), 1, split_.cpu_only ? Place::cpu : Place::gpu, out);
  out.launches += runtime_.request;
  return out;
}

bool ServingEstimate::experts_on_host() const {
  return split_.cpu_expert_layers > 0 || split_.gpu_expert_share < 1;
}

void ServingEstimate::add_weights(SplitMemory& m) const {
  // The input embedding is looked up, not multiplied: runtimes keep it where it costs no GPU memory.
  const double embedding =
      model_.embedding_copies > 1 ? embedding_weights(model_) * model_.stored.of(WeightPart::embedding) : 0;
  m.gpu_weights = non_expert_bytes(model_).value() - embedding;
  m.host = embedding;
  // llama.cpp makes a second copy of a tied one, which is the head too.
  if (runtime_.has_buffers() && model_.embedding_copies == 1)
    m.host = embedding_weights(model_) * model_.stored.of(WeightPart::head);
  int moe_number = 0, number = 0;
  for (const Layer& layer : model_.layers) {
    const FeedForward& ff = layer.feed_forward;
    const bool host = split_.in_host(number++);
    if (host) {
      m.gpu_weights -= layer_non_routed_bytes(model_, layer).value();
      m.host += layer_non_routed_bytes(model_, layer).value();
    }
    if (ff.kind != FeedForward::Kind::moe) continue;
    const double bytes = ff.experts * expert_bytes(model_).value();
    const double on_cpu = host ? 1 : cpu_share_of(moe_number);
    ++moe_number;
    m.gpu_experts += (1 - on_cpu) * bytes;
    m.host += on_cpu * bytes;
  }
  m.gpu_weights += m.gpu_experts;
}

/// Of keys and values and states, what the layers have that the CPU computes.
double ServingEstimate::kv_share_of_cpu(double tokens, double sequences) const {
  double kept = 0, by_cpu = 0;
  for (const Kind& kind : kinds_) {
    const double bytes = kind.count * kept_bytes(model_, kind.layer->attention, tokens, sequences);
    kept += bytes;
    if (kind.of_cpu) by_cpu += bytes;
  }
  return kept > 0 ? by_cpu / kept : 0;
}

LlamaPlacement ServingEstimate::llama_placement(double micro_batch) const {
  LlamaPlacement placement{.gpus = std::max(1, machine_.gpus), .overridden = experts_on_host()};
  placement.streaming =
      placement.overridden && link_ > 0 && runtime_.stream_from > 0 && micro_batch >= runtime_.stream_from;
  return placement;
}

void ServingEstimate::add_llama_buffers(double tokens, const LoadOptions& options, SplitMemory& m) const {
  const double micro_batch = options.micro_batch.value_or(runtime_.micro_batch);
  const LlamaPlacement placement = llama_placement(micro_batch);
  const LlamaBuffers buffers = llama_buffers(model_, runtime_, tokens, options, placement);
  if (split_.cpu_only) {
    m.host += buffers.kv + buffers.states;
    m.host_compute = llama_compute_bytes(model_, runtime_, tokens, options);
    return;
  }
  const double of_cpu = (buffers.kv + buffers.states) * kv_share_of_cpu(tokens, options.sequences);
  m.gpu_kv = buffers.kv + buffers.states - of_cpu;
  m.host += of_cpu;
  m.gpu_compute = buffers.gpu_compute;
  m.gpu_context = runtime_.gpu_context * placement.gpus;
  m.host_compute = buffers.host_compute;
}

SplitMemory ServingEstimate::memory(double tokens, const LoadOptions& options) const {
  SplitMemory m;
  if (split_.cpu_only)
    m.host = total_bytes(model_).value();
  else
    add_weights(m);
  if (runtime_.has_buffers()) {
    add_llama_buffers(tokens, options, m);
    return m;
  }
  const double kv = kv_bytes_per_token(model_).value() * tokens +
                    state_bytes_per_request(model_).value() * options.sequences;
  if (split_.cpu_only) {
    m.host += kv;
    return m;
  }
  const double of_cpu = kv * kv_share_of_cpu(tokens, options.sequences);
  m.gpu_kv = kv - of_cpu;
  m.host += of_cpu;
  m.gpu_reserve = runtime_.gpu_reserve * std::max(1, machine_.gpus);
  return m;
}

std::string ServingEstimate::impossible(double tokens, const LoadOptions& options) const {
  const SplitMemory m = memory(tokens, options);
  const bool unified = machine_.gpu && machine_.gpu->unified();
  if (!split_.cpu_only && !unified && Bytes(m.gpu()) > machine_.gpu_memory())
    return std::string(machine_.gpus > 1 ? "the GPUs' memory" : "the GPU's memory") + " needs " +
           to_string(Bytes(m.gpu())) + " and has " + to_string(machine_.gpu_memory());
  const double host = m.host_total() + (unified ? m.gpu() : 0);
  if (std::string lacks = machine_.lacks_ram(Bytes(host)); !lacks.empty()) return lacks;
  if ((split_.cpu_only || split_.cpu_layers > 0 || experts_on_host()) &&
      (cpu_bandwidth_ <= 0 || !machine_.cpu))
    return "the CPU computes experts, and nothing says which CPU it is";
  return {};
}

}  // namespace moelab
