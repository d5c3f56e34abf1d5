#include "sim/serving/batch.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace moelab {

void Batch::start(std::size_t first, std::size_t size) {
  numbers_.resize(size);
  std::iota(numbers_.begin(), numbers_.end(), first);
  restart();
}

void Batch::start(std::span<const std::size_t> numbers) {
  numbers_.assign(numbers.begin(), numbers.end());
  restart();
}

void Batch::restart() {
  step_ = 0;
  // A large trace streams through the memory: what earlier batches have used may leave it.
  const std::uint64_t begin = request(0).begin;
  if (begin < released_) released_ = begin;
  if (!trace_.worth_releasing(begin - released_)) return;
  trace_.release_rows(released_, begin);
  released_ = begin;
}

void Batch::prompt_pass(Pass& pass) {
  pass.prompt = true;
  pass.stack = encoder_decoder_ ? Stack::encoder : Stack::decoder;
  double context = 0;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (prompt_rows(i) == 0) continue;
    pass.rows.emplace_back(request(i).begin, request(i).decode_begin);
    pass.tokens += static_cast<std::uint32_t>(prompt_rows(i));
    // A causal prompt attends to half of itself on average, an encoder to all.
    const auto length = static_cast<double>(prompt_rows(i));
    context += length * (encoder_decoder_ ? length : (length + 1) / 2);
  }
  pass.prompt_tokens = pass.tokens;
  pass.prompt_context = pass.tokens == 0 ? 0 : context / pass.tokens;
  pass.produces = encoder_decoder_ ? 0 : static_cast<std::uint32_t>(pass.rows.size());
}

void Batch::decode_pass(Pass& pass) {
  pass.stack = Stack::decoder;
  const std::uint64_t row = step_ - 2;
  double context = 0;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (row >= decode_rows(i)) continue;
    const std::uint64_t at = request(i).decode_begin + row;
    if (row > 0 && row % kReleaseTogether == 0) trace_.release_rows(at - kReleaseTogether, at);
    pass.rows.emplace_back(at, at + 1);
    ++pass.tokens;
    context += static_cast<double>(at - request(i).begin + 1);
    if (encoder_decoder_ && row == 0) pass.new_encoder_tokens += static_cast<std::uint32_t>(prompt_rows(i));
  }
  pass.context = pass.tokens == 0 ? 0 : context / pass.tokens;
  pass.produces = pass.tokens;
}

bool Batch::next(Pass& pass) {
  pass = {.rows = std::move(pass.rows)};
  pass.rows.clear();
  if (++step_ == 1) {
    prompt_pass(pass);
    if (pass.tokens > 0) return true;
    ++step_;
    pass.prompt = false;
  }
  decode_pass(pass);
  return pass.tokens > 0;
}

bool Batch::gets_token(std::size_t i) const {
  return step_ == 1 ? !encoder_decoder_ && prompt_rows(i) > 0 : step_ - 2 < decode_rows(i);
}

bool Batch::finishes(std::size_t i) const {
  return gets_token(i) && step_ - 1 == decode_rows(i);
}

void LayerUses::add(const RoutingTrace& trace, std::uint64_t row, std::uint32_t moe_layer) {
  const auto ids = trace.experts_of(row, moe_layer);
  if (ids[0] == kNoExpert) return;
  for (const std::uint16_t id : ids) {
    used_[id >> 6] |= std::uint64_t{1} << (id & 63);
    ++tokens_[id];
  }
  if (!wants_scores_ || !trace.has_scores()) return;
  const auto scores = trace.scores_of(row, moe_layer);
  for (std::size_t r = 0; r < ids.size(); ++r) scores_[ids[r]] += scores[r];
}

std::span<const ExpertUse> LayerUses::collect(const RoutingTrace& trace, const Pass& pass,
                                              std::uint32_t moe_layer) {
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row) add(trace, row, moe_layer);
  return finish();
}

std::span<const ExpertUse> LayerUses::collect(std::span<const TokenGate> tokens, const StepRouting& routing) {
  std::fill(low_score_.begin(), low_score_.end(), std::uint8_t{0});
  for (const std::uint16_t id : routing.experts) low_score_[id] = 1;
  std::size_t place = 0;
  for (const TokenGate& token : tokens)
    for (std::size_t r = 0; r < token.chosen.size(); ++r, ++place) {
      const std::uint16_t id = routing.experts[place];
      used_[id >> 6] |= std::uint64_t{1} << (id & 63);
      ++tokens_[id];
      scores_[id] += token.scores[id];
      if (routing.roles[place] == ExpertRole::top) low_score_[id] = 0;
    }
  return finish();
}

std::span<const ExpertUse> LayerUses::finish() {
  uses_.clear();
  for (std::uint32_t word = 0; word < used_.size(); ++word) {
    for (std::uint64_t left = std::exchange(used_[word], 0); left != 0; left &= left - 1) {
      const std::uint32_t expert = (word << 6) + static_cast<std::uint32_t>(std::countr_zero(left));
      uses_.push_back({expert, std::exchange(tokens_[expert], 0U), std::exchange(scores_[expert], 0.0F),
                       kNeverUsedAgain});
    }
  }
  return uses_;
}

}  // namespace moelab
