#include "sim/serving/dense_times.hpp"

#include <algorithm>

namespace moelab {
namespace {

/// Query tokens of a prompt that share one read of keys and values in a tiled attention kernel.
constexpr double kPromptTile = 128;

}  // namespace

DenseTimes::DenseTimes(const Architecture& model, const TimingModel& timing)
    : model_(model), timing_(timing), dense_(model.layers.size()), shared_(model.layers.size()) {
  for (const Layer& layer : model.layers)
    kind_.push_back(static_cast<std::size_t>(std::find(model.layers.begin(), model.layers.end(), layer) -
                                             model.layers.begin()));
}

void DenseTimes::begin(const Pass& pass) {
  pass_.tokens = pass.tokens;
  pass_.prompt_tokens = pass.prompt_tokens;
  pass_.produces = pass.produces;
  pass_.context = pass.context;
  pass_.prompt_context = pass.prompt_context;
  pass_.new_encoder_tokens = pass.new_encoder_tokens;
  std::fill(dense_.begin(), dense_.end(), kUnknown);
  std::fill(shared_.begin(), shared_.end(), kUnknown);
}

const KernelTime& DenseTimes::dense(std::size_t layer) {
  KernelTime& time = dense_[kind_[layer]];
  if (time.seconds < 0) time = compute_dense(model_.layers[layer]);
  return time;
}

const KernelTime& DenseTimes::shared(std::size_t layer) {
  KernelTime& time = shared_[kind_[layer]];
  if (time.seconds < 0) time = compute_shared(model_.layers[layer]);
  return time;
}

KernelTime DenseTimes::time(const Work& work) const {
  return {timing_.kernel(work).value() + timing_.dispatch().value(),
          (work.weight_bytes + work.kv_bytes).value(), work.flops.value()};
}

KernelTime DenseTimes::head() const {
  if (pass_.produces == 0) return {};
  return time(head_work(model_, pass_.produces));
}

KernelTime DenseTimes::compute_dense(const Layer& layer) const {
  const auto add = [](Work& work, const Work& more) {
    work.flops += more.flops;
    work.weight_bytes += more.weight_bytes;
    work.kv_bytes += more.kv_bytes;
    work.kernels += more.kernels;
  };
  const std::uint32_t decoding = pass_.tokens - pass_.prompt_tokens;
  Work work = attention_work(model_, layer, decoding, pass_.context);
  if (pass_.prompt_tokens > 0) {
    Work prompts = attention_work(model_, layer, pass_.prompt_tokens, pass_.prompt_context, kPromptTile);
    if (decoding > 0) {  // one pass: its weights are read once
      prompts.weight_bytes = Bytes(0);
      prompts.kernels = 1;
    }
    add(work, prompts);
  }
  if (pass_.new_encoder_tokens > 0) add(work, cross_cache_work(model_, layer, pass_.new_encoder_tokens));
  if (layer.feed_forward.kind == FeedForward::Kind::dense) add(work, dense_work(model_, layer, pass_.tokens));
  return time(work);
}

KernelTime DenseTimes::compute_shared(const Layer& layer) const {
  if (layer.feed_forward.shared_width == 0) return {};
  return time(dense_work(model_, layer, pass_.tokens));
}

}  // namespace moelab
