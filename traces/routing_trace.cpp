#include "traces/routing_trace.hpp"

#include <cassert>

#include "traces/domain_list.hpp"
#include "traces/mapped_file.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/trace_file.hpp"

namespace moelab {
namespace {

/// The ids, once more within what was validated: a mapped file may have been rewritten since, and callers
/// index by them. Throws InputError.
std::span<const std::uint16_t> still_valid(const TraceData& trace, std::span<const std::uint16_t> ids) {
  if (!trace.file) return ids;
  bool outside = false;  // without a branch a value
  for (const std::uint16_t id : ids) outside |= (id >= trace.about.experts) & (id != kNoExpert);
  if (outside) fail_changed(trace.file->name());
  return ids;
}

}  // namespace

std::uint64_t RoutingTrace::tokens() const {
  return impl_->tokens;
}
std::uint32_t RoutingTrace::layers() const {
  return impl_->about.layers;
}
std::uint32_t RoutingTrace::experts() const {
  return impl_->about.experts;
}
std::uint32_t RoutingTrace::top_k() const {
  return impl_->about.top_k;
}
bool RoutingTrace::has_scores() const {
  return impl_->about.gate_scores;
}
const std::string& RoutingTrace::model() const {
  return impl_->about.model;
}
const std::string& RoutingTrace::provenance() const {
  return impl_->about.provenance;
}
bool RoutingTrace::synthetic() const {
  return impl_->about.synthetic;
}
const TraceDescription& RoutingTrace::description() const {
  return impl_->about;
}
std::uint16_t RoutingTrace::domain_of(std::size_t request) const {
  return impl_->request_domains.empty() ? std::uint16_t{0} : impl_->request_domains[request];
}
std::span<const TraceRequest> RoutingTrace::requests() const {
  return impl_->requests;
}

Phase RoutingTrace::phase_of(std::uint64_t token) const {
  assert(token < impl_->tokens);
  const std::uint8_t phase = impl_->phases[token];
  if (phase > static_cast<std::uint8_t>(Phase::decode)) fail_changed(impl_->file->name());
  return static_cast<Phase>(phase);
}

std::span<const std::uint16_t> RoutingTrace::experts_of(std::uint64_t token, std::uint32_t layer) const {
  assert(token < impl_->tokens && layer < impl_->about.layers);
  return still_valid(*impl_, impl_->ids.subspan((token * impl_->about.layers + layer) * impl_->about.top_k,
                                                impl_->about.top_k));
}

std::span<const std::uint16_t> RoutingTrace::experts_of(std::uint64_t token) const {
  assert(token < impl_->tokens);
  const std::size_t of_token = std::size_t{impl_->about.layers} * impl_->about.top_k;
  return still_valid(*impl_, impl_->ids.subspan(token * of_token, of_token));
}

std::span<const float> RoutingTrace::scores_of(std::uint64_t token, std::uint32_t layer) const {
  assert(token < impl_->tokens && layer < impl_->about.layers);
  if (!impl_->about.gate_scores) return {};
  return impl_->scores.subspan((token * impl_->about.layers + layer) * impl_->about.top_k,
                               impl_->about.top_k);
}

void RoutingTrace::router_scores_of(std::uint64_t token, std::uint32_t layer, std::span<float> scores) const {
  const std::uint64_t width = impl_->about.router_width();
  assert(token < impl_->tokens && layer < impl_->about.layers && width > 0 && scores.size() == width);
  const std::uint64_t bytes = width * bits_of(impl_->router_dtype) / 8;
  widen(impl_->router.subspan((token * impl_->about.layers + layer) * bytes, bytes), impl_->router_dtype,
        scores);
}

std::span<const std::uint16_t> RoutingTrace::candidates_of(std::uint64_t token, std::uint32_t layer) const {
  if (impl_->candidates.empty()) return {};
  const std::uint64_t width = impl_->about.router_width();
  return still_valid(*impl_, impl_->candidates.subspan((token * impl_->about.layers + layer) * width, width));
}

std::span<const std::uint16_t> RoutingTrace::lookahead_of(std::uint64_t token, std::uint32_t layer) const {
  if (impl_->lookahead.empty()) return {};
  return still_valid(*impl_,
                     impl_->lookahead.subspan((token * impl_->about.layers + layer) * impl_->about.top_k,
                                              impl_->about.top_k));
}

bool RoutingTrace::worth_releasing(std::uint64_t rows) const {
  constexpr std::uint64_t kEnough = std::uint64_t{8} << 20;  // bytes of ids
  return rows * impl_->about.layers * impl_->about.top_k * sizeof(std::uint16_t) >= kEnough;
}

void RoutingTrace::release_rows(std::uint64_t begin, std::uint64_t end) const {
  assert(begin <= end && end <= impl_->tokens);
  const std::uint64_t row = std::uint64_t{impl_->about.layers} * impl_->about.top_k;
  if (!impl_->own_ids.in_memory())
    release_pages(std::as_bytes(impl_->ids.subspan(begin * row, (end - begin) * row)));
  if (impl_->about.gate_scores && !impl_->own_scores.in_memory())
    release_pages(std::as_bytes(impl_->scores.subspan(begin * row, (end - begin) * row)));
  if (!impl_->router.empty() && !impl_->own_router.in_memory()) {
    const std::uint64_t bytes = impl_->router.size() / impl_->tokens;
    release_pages(impl_->router.subspan(begin * bytes, (end - begin) * bytes));
  }
  const std::uint64_t wide = std::uint64_t{impl_->about.layers} * impl_->about.candidates;
  if (wide > 0 && !impl_->own_candidates.in_memory())
    release_pages(std::as_bytes(impl_->candidates.subspan(begin * wide, (end - begin) * wide)));
  if (impl_->about.lookahead && !impl_->own_lookahead.in_memory())
    release_pages(std::as_bytes(impl_->lookahead.subspan(begin * row, (end - begin) * row)));
}

TensorMetadata trace_metadata(const std::string& file, const TraceDescription& about) {
  TensorMetadata metadata{{"format", std::string(kRoutingFormat)},
                          {"format_version", std::string(kTraceVersion)},
                          {"model", about.model},
                          {"experts", std::to_string(about.experts)},
                          {"provenance", about.provenance},
                          {"kind", std::string(about.synthetic ? kSynthetic : kRecorded)}};
  if (about.router_scores != RouterScores::none)
    metadata["router_scores"] = kRouterScoreNames[static_cast<std::size_t>(about.router_scores)];
  if (!about.domains.empty()) metadata["domains"] = domain_list_text(file, about.domains);
  return metadata;
}

void write_routing_trace(const RoutingTrace& trace, const std::string& path) {
  const TraceData& data = *trace.impl_;
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(data.requests.size() + 1);
  for (const TraceRequest& request : data.requests) offsets.push_back(request.end);

  const std::vector<std::uint64_t> rows{data.tokens, data.about.layers, data.about.top_k};
  const std::vector<std::uint64_t> wide{data.tokens, data.about.layers, data.about.router_width()};
  std::vector<Tensor> tensors{
      {"request_offsets", Dtype::u64, {offsets.size()}, std::as_bytes(std::span(offsets))},
      {"expert_ids", Dtype::u16, rows, std::as_bytes(data.ids)},
      {"phases", Dtype::u8, {data.tokens}, std::as_bytes(data.phases)}};
  if (data.about.gate_scores)
    tensors.push_back({"gate_scores", Dtype::f32, rows, std::as_bytes(data.scores)});
  if (!data.router.empty()) tensors.push_back({"router_scores", data.router_dtype, wide, data.router});
  if (!data.candidates.empty())
    tensors.push_back({"candidate_ids", Dtype::u16, wide, std::as_bytes(data.candidates)});
  if (!data.lookahead.empty())
    tensors.push_back({"lookahead_ids", Dtype::u16, rows, std::as_bytes(data.lookahead)});
  if (!data.request_domains.empty())
    tensors.push_back({"request_domains",
                       Dtype::u16,
                       {data.request_domains.size()},
                       std::as_bytes(std::span(data.request_domains))});
  write_safetensors(path, tensors, trace_metadata(path, data.about));
}

}  // namespace moelab
