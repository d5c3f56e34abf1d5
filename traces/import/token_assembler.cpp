#include "traces/import/token_assembler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostLayers = 65536;  // of one token: beyond it, tokens do not end where they should

bool is_none(std::int64_t id) {
  return id == -1 || id == kNoExpert;
}

}  // namespace

std::optional<Phase> parse_phase(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Phase>, 6> kPhases{{{"prefill", Phase::prefill},
                                                                       {"decode", Phase::decode},
                                                                       {"encoder", Phase::encoder},
                                                                       {"1", Phase::prefill},
                                                                       {"2", Phase::decode},
                                                                       {"0", Phase::encoder}}};
  for (const auto& [name, phase] : kPhases) {
    if (text == name) return phase;
  }
  return std::nullopt;
}

TokenAssembler::TokenAssembler(ImportTarget target, bool scores, std::vector<std::string> domains,
                               bool long_form)
    : target_(std::move(target)), scores_(scores), long_form_(long_form), domains_(std::move(domains)) {
  if (target_.experts == 0 || target_.experts > kNoExpert)
    throw InputError("--experts", "must say how many routed experts a layer has, from 1 to 65535");
  seen_.resize(target_.experts);
}

TokenAssembler::~TokenAssembler() = default;

std::string TokenAssembler::token_name() const {
  return "token " + std::to_string(token_) + (request_.empty() ? "" : " of request " + shown(request_));
}

void TokenAssembler::add(const LayerRow& row) {
  if (row.ids.empty()) throw RowError(RowField::expert, "no experts; a layer that does not run has -1");
  const bool same = any_ && row.token == token_ && row.request == request_;
  if (!same) {
    if (any_) end_token();
    begin_token(row);
  } else if (row.phase != phase_) {
    throw RowError(RowField::phase, "the phase differs from that of the token's rows before");
  } else if (row.domain != domain_) {
    throw RowError(RowField::request, "the domain differs from that of the request's rows before");
  }
  if (!target_.skip_layers.empty() && std::find(target_.skip_layers.begin(), target_.skip_layers.end(),
                                                row.layer) != target_.skip_layers.end())
    return;
  Slot& slot = slot_of(row.layer);
  if (!slot.ids.empty() && !long_form_)
    throw RowError(RowField::layer, token_name() + " has layer " + std::to_string(row.layer) + " twice");
  check_ids(row, slot);
  for (const std::int64_t id : row.ids)
    slot.ids.push_back(is_none(id) ? kNoExpert : static_cast<std::uint16_t>(id));
  slot.scores.insert(slot.scores.end(), row.scores.begin(), row.scores.end());
  slot.router_scores.assign(row.router_scores.begin(), row.router_scores.end());
  if (!long_form_) check_distinct(slot);
}

// Rows mostly come in the order of the layers: the slot after the last one is tried first.
TokenAssembler::Slot& TokenAssembler::slot_of(std::uint64_t layer) {
  const auto is_it = [layer](const Slot& slot) { return slot.layer == layer; };
  if (long_form_ && next_slot_ > 0 && is_it(slots_[next_slot_ - 1])) return slots_[next_slot_ - 1];
  if (next_slot_ < slots_.size() && is_it(slots_[next_slot_])) return slots_[next_slot_++];
  const auto found = places_.find(layer);
  if (found != places_.end()) {
    next_slot_ = found->second + 1;
    return slots_[found->second];
  }
  if (writer_ != nullptr)
    throw RowError(RowField::layer, token_name() + " has layer " + std::to_string(layer) +
                                        ", which the tokens before do not have");
  if (slots_.size() == kMostLayers)
    throw RowError(RowField::layer,
                   "the first token has more than " + std::to_string(kMostLayers) + " layers");
  places_.emplace(layer, slots_.size());
  slots_.push_back({layer, {}, {}, {}});
  next_slot_ = slots_.size();
  return slots_.back();
}

void TokenAssembler::check_ids(const LayerRow& row, const Slot& slot) {
  const std::size_t have = slot.ids.size() + row.ids.size();
  const std::size_t most = target_.top_k != 0 ? target_.top_k : target_.experts;
  if (have > most || (!long_form_ && target_.top_k != 0 && have != most))
    throw RowError(RowField::expert, token_name() + ", layer " + std::to_string(row.layer) + " has " +
                                         std::to_string(have) + " experts; expected " + std::to_string(most));
  const bool none = slot.ids.empty() ? is_none(row.ids.front()) : slot.ids.front() == kNoExpert;
  for (const std::int64_t id : row.ids) {
    if (none != is_none(id))
      throw RowError(RowField::expert, "some experts of the layer are -1 (it does not run) and some are not");
    if (!none && (id < 0 || id >= static_cast<std::int64_t>(target_.experts)))
      throw RowError(RowField::expert, "expert " + std::to_string(id) + " is out of range: there are " +
                                           std::to_string(target_.experts) + " experts, from 0");
  }
  check_scores(row, none);
}

void TokenAssembler::check_scores(const LayerRow& row, bool none) const {
  const bool router = target_.router_scores != RouterScores::none;
  if (row.scores.size() != (scores_ ? row.ids.size() : 0) ||
      row.router_scores.size() != (router ? target_.experts : 0))
    throw RowError(RowField::score, std::to_string(row.scores.size() + row.router_scores.size()) +
                                        " scores for " + std::to_string(row.ids.size()) + " experts");
  for (const std::span<const float> scores : {row.scores, row.router_scores}) {
    for (const float score : scores) {
      if (!std::isfinite(score)) throw RowError(RowField::score, "a score is not finite");
      if (none && score != 0) throw RowError(RowField::score, "a score where the layer does not run");
    }
  }
}

void TokenAssembler::check_distinct(const Slot& slot) {
  if (slot.ids.front() == kNoExpert) return;
  if (++row_number_ == 0) {  // wrapped: old marks would read as new
    std::fill(seen_.begin(), seen_.end(), 0);
    row_number_ = 1;
  }
  for (const std::uint16_t id : slot.ids) {
    if (std::exchange(seen_[id], row_number_) == row_number_)
      throw RowError(RowField::expert, token_name() + ", layer " + std::to_string(slot.layer) +
                                           " has expert " + std::to_string(id) + " twice");
  }
}

void TokenAssembler::begin_token(const LayerRow& row) {
  const bool new_request = !any_ || row.request != request_;
  if (new_request) {
    if (!requests_.emplace(row.request).second)
      throw RowError(RowField::request, "request " + shown(row.request) +
                                            " comes back after another one; its rows must stand together");
    request_ = row.request;
    domain_ = row.domain;
  } else {
    if (row.token != token_ + 1)
      throw RowError(RowField::token, "token " + std::to_string(row.token) + " after token " +
                                          std::to_string(token_) + "; expected " +
                                          std::to_string(token_ + 1));
    if (row.phase < phase_)
      throw RowError(RowField::phase, "the phase comes before that of the token before it");
    if (row.domain != domain_)
      throw RowError(RowField::request, "the domain differs from that of the request's tokens before");
  }
  any_ = true;
  new_request_ = new_request;
  token_ = row.token;
  phase_ = row.phase;
  next_slot_ = 0;
}

void TokenAssembler::end_token() {
  if (writer_ == nullptr) open();
  row_ids_.clear();
  row_scores_.clear();
  row_router_scores_.clear();
  for (Slot& slot : slots_) {
    if (slot.ids.size() != target_.top_k)
      throw RowError(RowField::layer, token_name() + " ends with " + std::to_string(slot.ids.size()) +
                                          " experts at layer " + std::to_string(slot.layer) + "; expected " +
                                          std::to_string(target_.top_k));
    if (long_form_) check_distinct(slot);
    row_ids_.insert(row_ids_.end(), slot.ids.begin(), slot.ids.end());
    row_scores_.insert(row_scores_.end(), slot.scores.begin(), slot.scores.end());
    row_router_scores_.insert(row_router_scores_.end(), slot.router_scores.begin(), slot.router_scores.end());
    slot.ids.clear();
    slot.scores.clear();
  }
  if (new_request_) writer_->begin_request(domain_);
  TraceRow row{};
  row.phase = phase_;
  row.ids = row_ids_;
  row.gate_scores = row_scores_;
  row.router_scores = row_router_scores_;
  writer_->add_token(row);
  ++tokens_;
  if (phase_ != Phase::decode) ++prompt_tokens_;
}

// The first token is whole: it says what the flags left open.
void TokenAssembler::open() {
  if (slots_.empty()) throw RowError(RowField::layer, token_name() + " has no layers but those left out");
  std::sort(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.layer < b.layer; });
  for (std::size_t i = 0; i < slots_.size(); ++i) places_[slots_[i].layer] = i;
  if (target_.layers != 0 && slots_.size() != target_.layers)
    throw RowError(RowField::layer, token_name() + " has " + std::to_string(slots_.size()) +
                                        " layers; expected " + std::to_string(target_.layers));
  if (target_.top_k == 0) target_.top_k = static_cast<std::uint32_t>(slots_.front().ids.size());
  TraceDescription description;
  description.model = target_.model;
  description.provenance = target_.provenance;
  description.synthetic = target_.synthetic;
  description.layers = static_cast<std::uint32_t>(slots_.size());
  description.experts = target_.experts;
  description.top_k = target_.top_k;
  description.gate_scores = scores_;
  description.router_scores = target_.router_scores;
  description.domains = domains_;
  writer_ = std::make_unique<RoutingTraceWriter>(target_.out, description);
}

void TokenAssembler::finish() {
  if (any_) end_token();
  if (writer_ == nullptr) throw RowError(RowField::token, "there are no rows; expected one token at least");
  writer_->finish();
}

}  // namespace moelab
