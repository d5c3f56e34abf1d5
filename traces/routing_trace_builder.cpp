// RoutingTraceBuilder: checked rows become a TraceData.
#include <utility>

#include "models/input_error.hpp"
#include "traces/routing_trace.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/trace_check.hpp"

namespace moelab {
namespace {

std::string trace_name(const TraceDescription& about) {
  return about.model.empty() ? "routing trace" : "routing trace of " + about.model;
}

TraceDescription plain(std::string model, std::string provenance, bool synthetic, std::uint32_t layers,
                       std::uint32_t experts, std::uint32_t top_k, bool with_scores) {
  return {.model = std::move(model),
          .provenance = std::move(provenance),
          .synthetic = synthetic,
          .layers = layers,
          .experts = experts,
          .top_k = top_k,
          .gate_scores = with_scores};
}

}  // namespace

struct RoutingTraceBuilder::Impl {
  explicit Impl(TraceDescription about) : name(trace_name(about)), check(name, about) {
    data->about = std::move(about);
  }

  void append(const TraceRow& row);
  void truncate(std::uint64_t tokens);

  std::string name;  // for messages
  std::shared_ptr<RoutingTrace::Impl> data = std::make_shared<RoutingTrace::Impl>();
  TraceCheck check;
  std::uint64_t reserved = 0;  // tokens that the temporary files have room for; 0: there are none
};

void RoutingTraceBuilder::Impl::append(const TraceRow& row) {
  data->own_phases.push_back(static_cast<std::uint8_t>(row.phase));
  data->own_ids.append(row.ids);
  data->own_scores.append(row.gate_scores);
  data->own_router.append(row.router_scores);
  data->own_candidates.append(row.candidate_ids);
  data->own_lookahead.append(row.lookahead_ids);
}

void RoutingTraceBuilder::Impl::truncate(std::uint64_t tokens) {
  const TraceDescription& about = data->about;
  const std::uint64_t row = std::uint64_t{about.layers} * about.top_k;
  data->own_phases.resize(tokens);
  data->own_ids.truncate(tokens * row);
  data->own_scores.truncate(about.gate_scores ? tokens * row : 0);
  data->own_router.truncate(tokens * about.layers * about.router_width());
  data->own_candidates.truncate(tokens * about.layers * about.candidates);
  data->own_lookahead.truncate(about.lookahead ? tokens * row : 0);
}

RoutingTraceBuilder::RoutingTraceBuilder(TraceDescription description)
    : impl_(std::make_unique<Impl>(std::move(description))) {}

RoutingTraceBuilder::RoutingTraceBuilder(std::string model, std::string provenance, bool synthetic,
                                         std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k,
                                         bool with_scores)
    : RoutingTraceBuilder(
          plain(std::move(model), std::move(provenance), synthetic, layers, experts, top_k, with_scores)) {}

RoutingTraceBuilder::~RoutingTraceBuilder() = default;

void RoutingTraceBuilder::reserve(std::uint64_t tokens) {
  TraceData& data = *impl_->data;
  const TraceDescription& about = data.about;
  const std::uint64_t row = std::uint64_t{about.layers} * about.top_k;
  const std::uint64_t gate = about.gate_scores ? row : 0;
  const std::uint64_t router = std::uint64_t{about.layers} * about.router_width();
  const std::uint64_t candidates = std::uint64_t{about.layers} * about.candidates;
  const std::uint64_t lookahead = about.lookahead ? row : 0;
  const std::uint64_t bytes =
      (row + candidates + lookahead) * sizeof(std::uint16_t) + (gate + router) * sizeof(float);
  const bool spill = tokens > kMostInMemory / bytes;
  impl_->reserved = spill ? tokens : 0;
  data.own_phases.reserve(tokens);
  data.own_ids.reserve(tokens * row, spill);
  data.own_scores.reserve(tokens * gate, spill);
  data.own_router.reserve(tokens * router, spill);
  data.own_candidates.reserve(tokens * candidates, spill);
  data.own_lookahead.reserve(tokens * lookahead, spill);
}

void RoutingTraceBuilder::begin_request(std::uint16_t domain) {
  TraceData& data = *impl_->data;
  impl_->check.begin_request(domain);
  const std::uint64_t token = impl_->check.tokens();
  data.requests.push_back({token, token, token});
  if (!data.about.domains.empty()) data.request_domains.push_back(domain);
}

void RoutingTraceBuilder::add_token(const TraceRow& row) {
  Impl& b = *impl_;
  b.check.check(row);
  if (b.reserved > 0 && b.check.tokens() == b.reserved)
    throw InputError(b.name, "holds more tokens than the " + std::to_string(b.reserved) + " announced");
  try {
    b.append(row);
  } catch (...) {
    b.truncate(b.check.tokens());  // no memory: half a token must not stay
    throw;
  }
  b.check.added(row);
  TraceRequest& request = b.data->requests.back();
  ++request.end;
  if (row.phase != Phase::decode) request.decode_begin = request.end;
}

void RoutingTraceBuilder::add_token(Phase phase, std::span<const std::uint16_t> ids,
                                    std::span<const float> scores) {
  add_token({.phase = phase, .ids = ids, .gate_scores = scores});
}

RoutingTrace RoutingTraceBuilder::finish() {
  impl_->check.finish();
  const std::shared_ptr<RoutingTrace::Impl> data = std::move(impl_->data);
  data->tokens = impl_->check.tokens();
  data->ids = data->own_ids.values();
  data->scores = data->own_scores.values();
  data->router = std::as_bytes(data->own_router.values());
  data->candidates = data->own_candidates.values();
  data->lookahead = data->own_lookahead.values();
  data->phases = data->own_phases;
  RoutingTrace trace;
  trace.impl_ = data;
  return trace;
}

}  // namespace moelab
