#include "traces/routing_trace.hpp"

#include <cassert>
#include <cstring>
#include <utility>

#include "models/input_error.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/row_check.hpp"

namespace moelab {

std::uint64_t RoutingTrace::tokens() const {
  return impl_->tokens;
}
std::uint32_t RoutingTrace::layers() const {
  return impl_->layers;
}
std::uint32_t RoutingTrace::experts() const {
  return impl_->experts;
}
std::uint32_t RoutingTrace::top_k() const {
  return impl_->top_k;
}
bool RoutingTrace::has_scores() const {
  return impl_->has_scores;
}
const std::string& RoutingTrace::model() const {
  return impl_->model;
}
const std::string& RoutingTrace::provenance() const {
  return impl_->provenance;
}
bool RoutingTrace::synthetic() const {
  return impl_->synthetic;
}
std::span<const TraceRequest> RoutingTrace::requests() const {
  return impl_->requests;
}

Phase RoutingTrace::phase_of(std::uint64_t token) const {
  assert(token < impl_->tokens);
  return static_cast<Phase>(impl_->phases[token]);
}

std::span<const std::uint16_t> RoutingTrace::experts_of(std::uint64_t token, std::uint32_t layer) const {
  assert(token < impl_->tokens && layer < impl_->layers);
  return impl_->ids.subspan((token * impl_->layers + layer) * impl_->top_k, impl_->top_k);
}

std::span<const float> RoutingTrace::scores_of(std::uint64_t token, std::uint32_t layer) const {
  assert(token < impl_->tokens && layer < impl_->layers);
  if (!impl_->has_scores) return {};
  return impl_->scores.subspan((token * impl_->layers + layer) * impl_->top_k, impl_->top_k);
}

bool RoutingTrace::worth_releasing(std::uint64_t rows) const {
  constexpr std::uint64_t kEnough = std::uint64_t{8} << 20;  // bytes of ids
  return rows * impl_->layers * impl_->top_k * sizeof(std::uint16_t) >= kEnough;
}

void RoutingTrace::release_rows(std::uint64_t begin, std::uint64_t end) const {
  assert(begin <= end && end <= impl_->tokens);
  const std::uint64_t row = std::uint64_t{impl_->layers} * impl_->top_k;
  if (impl_->own_ids.empty())
    release_pages(std::as_bytes(impl_->ids.subspan(begin * row, (end - begin) * row)));
  if (impl_->has_scores && impl_->own_scores.empty())
    release_pages(std::as_bytes(impl_->scores.subspan(begin * row, (end - begin) * row)));
}

void write_routing_trace(const RoutingTrace& trace, const std::filesystem::path& path) {
  const TraceData& data = *trace.impl_;
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(data.requests.size() + 1);
  for (const TraceRequest& request : data.requests) offsets.push_back(request.end);

  const std::vector<std::uint64_t> rows{data.tokens, data.layers, data.top_k};
  std::vector<Tensor> tensors{
      {"request_offsets", Dtype::u64, {offsets.size()}, std::as_bytes(std::span(offsets))},
      {"expert_ids", Dtype::u16, rows, std::as_bytes(data.ids)},
      {"phases", Dtype::u8, {data.tokens}, std::as_bytes(data.phases)}};
  if (data.has_scores) tensors.push_back({"gate_scores", Dtype::f32, rows, std::as_bytes(data.scores)});
  write_safetensors(path, tensors,
                    {{"format", std::string(kTraceFormat)},
                     {"format_version", std::string(kTraceVersion)},
                     {"model", data.model},
                     {"experts", std::to_string(data.experts)},
                     {"provenance", data.provenance},
                     {"kind", std::string(data.synthetic ? kSynthetic : kRecorded)}});
}

struct RoutingTraceBuilder::Impl {
  explicit Impl(std::uint32_t experts, std::uint32_t top_k) : check(experts, top_k) {}

  [[noreturn]] void fail(const std::string& what) const { throw InputError(name, what); }
  [[noreturn]] void fail_at_token(const std::string& what) const {
    fail("token " + std::to_string(data->own_phases.size()) + what);
  }

  void keep(std::uint8_t phase, std::span<const std::uint16_t> ids, std::span<const float> scores);
  void spill(std::uint8_t phase, std::span<const std::uint16_t> ids, std::span<const float> scores);

  std::string name;  // for messages
  std::shared_ptr<RoutingTrace::Impl> data = std::make_shared<RoutingTrace::Impl>();
  RowCheck check;
  std::uint64_t reserved = 0;  // tokens that the temporary files have room for
};

/// Bytes of ids and scores that a builder keeps in memory; a larger trace, announced by reserve(), is
/// spilled.
constexpr std::uint64_t kMostInMemory = std::uint64_t{64} << 20;

void RoutingTraceBuilder::Impl::keep(std::uint8_t phase, std::span<const std::uint16_t> ids,
                                     std::span<const float> scores) {
  // A failed allocation must not leave half a token.
  data->own_phases.push_back(phase);
  try {
    data->own_ids.insert(data->own_ids.end(), ids.begin(), ids.end());
    data->own_scores.insert(data->own_scores.end(), scores.begin(), scores.end());
  } catch (...) {
    data->own_phases.pop_back();
    data->own_ids.resize(data->own_phases.size() * ids.size());
    throw;
  }
}

void RoutingTraceBuilder::Impl::spill(std::uint8_t phase, std::span<const std::uint16_t> ids,
                                      std::span<const float> scores) {
  const std::uint64_t token = data->own_phases.size();
  if (token == reserved) fail("holds more tokens than the " + std::to_string(reserved) + " announced");
  constexpr std::uint64_t kTogether = std::uint64_t{1} << 15;  // tokens whose pages leave the memory at once
  const auto write = [&](const SpilledBytes& where, std::span<const std::byte> row) {
    std::memcpy(where.bytes().data() + token * row.size(), row.data(), row.size());
    if ((token + 1) % kTogether == 0)
      release_pages(where.bytes().subspan((token + 1 - kTogether) * row.size(), kTogether * row.size()));
  };
  data->own_phases.push_back(phase);
  write(*data->spilled_ids, std::as_bytes(ids));
  if (data->has_scores) write(*data->spilled_scores, std::as_bytes(scores));
}

namespace {

std::string trace_name(const std::string& model) {
  return model.empty() ? "routing trace" : "routing trace of " + model;
}

void check_sizes(const std::string& name, std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k) {
  const auto fail = [&](const char* what, std::uint32_t value, const std::string& range) {
    throw InputError(name, std::string(what) + " is " + std::to_string(value) + ", but must be " + range);
  };
  if (layers == 0) fail("layers", layers, "at least 1");
  if (experts == 0 || experts > kNoExpert) fail("experts", experts, "between 1 and 65535");
  if (top_k == 0 || top_k > experts)
    fail("top_k", top_k, "between 1 and " + std::to_string(experts) + " experts");
}

}  // namespace

RoutingTraceBuilder::RoutingTraceBuilder(std::string model, std::string provenance, bool synthetic,
                                         std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k,
                                         bool with_scores) {
  check_sizes(trace_name(model), layers, experts, top_k);
  impl_ = std::make_unique<Impl>(experts, top_k);
  impl_->name = trace_name(model);
  TraceData& data = *impl_->data;
  data.model = std::move(model);
  data.provenance = std::move(provenance);
  data.synthetic = synthetic;
  data.layers = layers;
  data.experts = experts;
  data.top_k = top_k;
  data.has_scores = with_scores;
}

RoutingTraceBuilder::~RoutingTraceBuilder() = default;

void RoutingTraceBuilder::reserve(std::uint64_t tokens) {
  TraceData& data = *impl_->data;
  assert(data.own_phases.empty());
  const std::uint64_t places = tokens * data.layers * data.top_k;
  data.own_phases.reserve(tokens);
  if (places * (sizeof(std::uint16_t) + (data.has_scores ? sizeof(float) : 0)) > kMostInMemory) {
    impl_->reserved = tokens;
    data.spilled_ids = std::make_unique<SpilledBytes>(places * sizeof(std::uint16_t));
    if (data.has_scores) data.spilled_scores = std::make_unique<SpilledBytes>(places * sizeof(float));
    return;
  }
  data.own_ids.reserve(places);
  if (data.has_scores) data.own_scores.reserve(places);
}

void RoutingTraceBuilder::begin_request() {
  TraceData& data = *impl_->data;
  const std::uint64_t token = data.own_phases.size();
  data.requests.push_back({token, token, token});
}

void RoutingTraceBuilder::add_token(Phase phase, std::span<const std::uint16_t> ids,
                                    std::span<const float> scores) {
  TraceData& data = *impl_->data;
  assert(!data.requests.empty() && "begin_request comes first");
  assert(ids.size() == std::size_t{data.layers} * data.top_k);
  assert(scores.size() == (data.has_scores ? ids.size() : 0));
  TraceRequest& request = data.requests.back();
  const auto value = static_cast<std::uint8_t>(phase);
  if (request.end > request.begin && value < data.own_phases.back()) {
    impl_->fail_at_token(": its phase comes before that of the token before it");
  }
  if (const auto row = impl_->check.first_bad(ids)) {
    impl_->fail_at_token(", layer " + std::to_string(*row) + ": " +
                         impl_->check.describe(ids.subspan(*row * data.top_k, data.top_k)));
  }
  if (const auto place = first_not_finite(scores)) {
    impl_->fail_at_token(", layer " + std::to_string(*place / data.top_k) + ": a score is not finite");
  }

  if (data.spilled_ids != nullptr) {
    impl_->spill(value, ids, scores);
  } else {
    impl_->keep(value, ids, scores);
  }
  ++request.end;
  if (phase != Phase::decode) request.decode_begin = request.end;
}

RoutingTrace RoutingTraceBuilder::finish() {
  const std::shared_ptr<RoutingTrace::Impl> data = impl_->data;
  if (data->own_phases.empty()) impl_->fail("holds no tokens");
  impl_->data = nullptr;
  data->tokens = data->own_phases.size();
  const std::uint64_t places = data->tokens * data->layers * data->top_k;
  data->ids = data->own_ids;
  data->scores = data->own_scores;
  if (data->spilled_ids != nullptr)
    data->ids = elements_of<std::uint16_t>(data->spilled_ids->bytes()).first(places);
  if (data->spilled_scores != nullptr)
    data->scores = elements_of<float>(data->spilled_scores->bytes()).first(places);
  data->phases = data->own_phases;
  RoutingTrace trace;
  trace.impl_ = data;
  return trace;
}

}  // namespace moelab
