#include "traces/routing_trace.hpp"

#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/input_error.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/row_check.hpp"

namespace moelab {

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
  return static_cast<Phase>(impl_->phases[token]);
}

std::span<const std::uint16_t> RoutingTrace::experts_of(std::uint64_t token, std::uint32_t layer) const {
  assert(token < impl_->tokens && layer < impl_->about.layers);
  return impl_->ids.subspan((token * impl_->about.layers + layer) * impl_->about.top_k, impl_->about.top_k);
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
  return impl_->candidates.subspan((token * impl_->about.layers + layer) * width, width);
}

std::span<const std::uint16_t> RoutingTrace::lookahead_of(std::uint64_t token, std::uint32_t layer) const {
  if (impl_->lookahead.empty()) return {};
  return impl_->lookahead.subspan((token * impl_->about.layers + layer) * impl_->about.top_k,
                                  impl_->about.top_k);
}

bool RoutingTrace::worth_releasing(std::uint64_t rows) const {
  constexpr std::uint64_t kEnough = std::uint64_t{8} << 20;  // bytes of ids
  return rows * impl_->about.layers * impl_->about.top_k * sizeof(std::uint16_t) >= kEnough;
}

void RoutingTrace::release_rows(std::uint64_t begin, std::uint64_t end) const {
  assert(begin <= end && end <= impl_->tokens);
  const std::uint64_t row = std::uint64_t{impl_->about.layers} * impl_->about.top_k;
  if (impl_->own_ids.empty())
    release_pages(std::as_bytes(impl_->ids.subspan(begin * row, (end - begin) * row)));
  if (impl_->about.gate_scores && impl_->own_scores.empty())
    release_pages(std::as_bytes(impl_->scores.subspan(begin * row, (end - begin) * row)));
  if (!impl_->router.empty()) {
    const std::uint64_t bytes = impl_->router.size() / impl_->tokens;
    release_pages(impl_->router.subspan(begin * bytes, (end - begin) * bytes));
  }
}

TensorMetadata trace_metadata(const TraceDescription& about) {
  TensorMetadata metadata{{"format", std::string(kTraceFormat)},
                          {"format_version", std::string(kTraceVersion)},
                          {"model", about.model},
                          {"experts", std::to_string(about.experts)},
                          {"provenance", about.provenance},
                          {"kind", std::string(about.synthetic ? kSynthetic : kRecorded)}};
  if (about.router_scores != RouterScores::none)
    metadata["router_scores"] = kRouterScoreNames[static_cast<std::size_t>(about.router_scores)];
  if (!about.domains.empty()) metadata["domains"] = nlohmann::json(about.domains).dump();
  return metadata;
}

void write_routing_trace(const RoutingTrace& trace, const std::filesystem::path& path) {
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
  write_safetensors(path, tensors, trace_metadata(data.about));
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
  if (data->about.gate_scores) write(*data->spilled_scores, std::as_bytes(scores));
}

namespace {

std::string trace_name(const std::string& model) {
  return model.empty() ? "routing trace" : "routing trace of " + model;
}

}  // namespace

void check_description(const std::string& name, const TraceDescription& about) {
  const auto fail = [&](const char* what, std::uint64_t value, const std::string& range) {
    throw InputError(name, std::string(what) + " is " + std::to_string(value) + ", but must be " + range);
  };
  if (about.layers == 0) fail("layers", about.layers, "at least 1");
  if (about.experts == 0 || about.experts > kNoExpert) fail("experts", about.experts, "between 1 and 65535");
  if (about.top_k == 0 || about.top_k > about.experts)
    fail("top_k", about.top_k, "between 1 and " + std::to_string(about.experts) + " experts");
  if (about.candidates > 0 && (about.candidates < about.top_k || about.candidates >= about.experts))
    fail("candidates", about.candidates,
         "from top_k, " + std::to_string(about.top_k) + ", to less than the " +
             std::to_string(about.experts) + " experts");
  if (about.domains.size() > 65536) fail("the number of domains", about.domains.size(), "at most 65536");
}

RoutingTraceBuilder::RoutingTraceBuilder(std::string model, std::string provenance, bool synthetic,
                                         std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k,
                                         bool with_scores) {
  TraceDescription about;
  about.model = std::move(model);
  about.provenance = std::move(provenance);
  about.synthetic = synthetic;
  about.layers = layers;
  about.experts = experts;
  about.top_k = top_k;
  about.gate_scores = with_scores;
  check_description(trace_name(about.model), about);
  impl_ = std::make_unique<Impl>(experts, top_k);
  impl_->name = trace_name(about.model);
  impl_->data->about = std::move(about);
}

RoutingTraceBuilder::~RoutingTraceBuilder() = default;

void RoutingTraceBuilder::reserve(std::uint64_t tokens) {
  TraceData& data = *impl_->data;
  assert(data.own_phases.empty());
  const std::uint64_t places = tokens * data.about.layers * data.about.top_k;
  data.own_phases.reserve(tokens);
  if (places * (sizeof(std::uint16_t) + (data.about.gate_scores ? sizeof(float) : 0)) > kMostInMemory) {
    impl_->reserved = tokens;
    data.spilled_ids = std::make_unique<SpilledBytes>(places * sizeof(std::uint16_t));
    if (data.about.gate_scores) data.spilled_scores = std::make_unique<SpilledBytes>(places * sizeof(float));
    return;
  }
  data.own_ids.reserve(places);
  if (data.about.gate_scores) data.own_scores.reserve(places);
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
  assert(ids.size() == std::size_t{data.about.layers} * data.about.top_k);
  assert(scores.size() == (data.about.gate_scores ? ids.size() : 0));
  TraceRequest& request = data.requests.back();
  const auto value = static_cast<std::uint8_t>(phase);
  if (request.end > request.begin && value < data.own_phases.back()) {
    impl_->fail_at_token(": its phase comes before that of the token before it");
  }
  if (const auto row = impl_->check.first_bad(ids)) {
    impl_->fail_at_token(", layer " + std::to_string(*row) + ": " +
                         impl_->check.describe(ids.subspan(*row * data.about.top_k, data.about.top_k)));
  }
  if (const auto place = first_not_finite(scores)) {
    impl_->fail_at_token(", layer " + std::to_string(*place / data.about.top_k) + ": a score is not finite");
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
  const std::uint64_t places = data->tokens * data->about.layers * data->about.top_k;
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
