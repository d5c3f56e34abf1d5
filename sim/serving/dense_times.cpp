#include "sim/serving/dense_times.hpp"

#include <algorithm>

namespace moelab {

DenseTimes::DenseTimes(const Architecture& model, const TimingModel& timing)
    : model_(model), timing_(timing), dense_(model.layers.size()), shared_(model.layers.size()) {
  for (const Layer& layer : model.layers) {
    kind_.push_back(static_cast<std::size_t>(std::find(model.layers.begin(), model.layers.end(), layer) -
                                             model.layers.begin()));
    const auto known = std::find_if(spans_.begin(), spans_.end(), [&](const AttentionSpan& s) {
      return s.window == layer.attention.window;
    });
    span_.push_back(static_cast<std::size_t>(known - spans_.begin()));
    if (known == spans_.end()) spans_.push_back({layer.attention.window});
  }
}

void DenseTimes::begin(const Pass& pass, std::uint32_t expert_tokens) {
  tokens_ = pass.tokens;
  expert_tokens_ = expert_tokens;
  prompt_tokens_ = pass.prompt_tokens;
  produces_ = pass.produces;
  logits_ = pass.produces + pass.drafts;
  new_encoder_tokens_ = pass.new_encoder_tokens;
  sum_up(pass.runs);
  std::fill(dense_.begin(), dense_.end(), kUnknown);
  std::fill(shared_.begin(), shared_.end(), kUnknown);
}

void DenseTimes::sum_up(const std::vector<RowRun>& runs) {
  double decoding = 0, prompts = 0, encoded = 0, requests = 0;
  for (const RowRun& run : runs) {
    (run.prompt ? prompts : decoding) += run.rows;
    requests += run.prompt ? 0 : 1;
    encoded += run.rows * run.encoded;
  }
  decode_rows_ = requests == 0 ? 1 : decoding / requests;
  encoded_ = decoding == 0 ? 0 : encoded / decoding;
  for (AttentionSpan& span : spans_) {
    span.decoding = span.prompts = 0;
    for (const RowRun& run : runs)
      (run.prompt ? span.prompts : span.decoding) += attended_tokens(run, span.window);
    if (decoding > 0) span.decoding /= decoding;
    if (prompts > 0) span.prompts /= prompts;
  }
}

const KernelTime& DenseTimes::dense(std::size_t layer) {
  KernelTime& time = dense_[kind_[layer]];
  if (time.seconds < 0) time = compute_dense(kind_[layer]);
  return time;
}

const KernelTime& DenseTimes::shared(std::size_t layer) {
  KernelTime& time = shared_[kind_[layer]];
  if (time.seconds < 0) time = compute_shared(model_.layers[layer]);
  return time;
}

KernelTime DenseTimes::time(const Work& work) const {
  return time(work, tokens_);
}

KernelTime DenseTimes::time(const Work& work, double rows) const {
  return {timing_.kernel(work, rows, model_.hidden).value() + timing_.dispatch().value(),
          (work.weight_bytes + work.kv_bytes).value(), work.flops.value(), work.kernels};
}

KernelTime DenseTimes::head() const {
  if (produces_ == 0) return {};
  KernelTime head = time(head_work(model_, logits_), logits_);
  if (timing_.device().software) head.seconds += produces_ * timing_.device().software->request;
  return head;
}

/// `work` is of rows that decode beside rows of prompts: attention computes a tile of query rows for those of
/// each request.
void DenseTimes::fill_tiles(Work& work) const {
  if (!timing_.device().software) return;
  const Flops empty = work.mixing * std::max(0.0, timing_.device().software->mixed_tile / decode_rows_ - 1);
  work.mixing += empty;
  work.flops += empty;
}

KernelTime DenseTimes::compute_dense(std::size_t kind) const {
  const Layer& layer = model_.layers[kind];
  const AttentionSpan& span = spans_[span_[kind]];
  const std::uint32_t decoding = tokens_ - prompt_tokens_;
  Work work = attention_work(model_, layer, decoding, span.decoding, decode_rows_, encoded_);
  if (prompt_tokens_ > 0) {
    Work prompts = attention_work(model_, layer, prompt_tokens_, span.prompts, kPromptTile);
    if (decoding > 0) {  // one pass: its weights are read once
      fill_tiles(work);
      prompts.weight_bytes = Bytes(0);
      prompts.kernels = 1;
      prompts.biases = 0;
    }
    work += prompts;
  }
  if (new_encoder_tokens_ > 0) work += cross_cache_work(model_, layer, new_encoder_tokens_);
  const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
  const Work own = moe ? Work{} : dense_work(model_, layer, tokens_);
  if (!timing_.device().software) return time(work += own);
  // Kernels of their own: what bounds one bounds not the other.
  KernelTime result = time(work);
  if (prompt_tokens_ > 0 && !timing_.computes_on_cpu())
    result.seconds = std::max(result.seconds, timing_.device().software->eager_layer);
  const Seconds rest = moe ? timing_.expert_launches(model_, layer.feed_forward, expert_tokens_)
                           : timing_.kernel(own, tokens_, model_.hidden);
  result.seconds += rest.value();
  result.bytes += own.weight_bytes.value();
  result.flops += own.flops.value();
  result.kernels += own.kernels;
  return result;
}

KernelTime DenseTimes::compute_shared(const Layer& layer) const {
  if (layer.feed_forward.shared_width == 0) return {};
  return time(dense_work(model_, layer, tokens_));
}

}  // namespace moelab
