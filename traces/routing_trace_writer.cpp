#include "traces/routing_trace_writer.hpp"

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/input_error.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/row_check.hpp"
#include "traces/safetensors_header.hpp"
#include "traces/spool.hpp"

namespace moelab {

struct RoutingTraceWriter::Impl {
  Impl(std::filesystem::path target, TraceDescription description)
      : path(std::move(target)),
        about(std::move(description)),
        check(about.experts, about.top_k),
        check_candidates(about.experts, about.candidates > 0 ? about.candidates : 1),
        ids(path),
        phases(path) {
    if (about.gate_scores) gate.emplace(path);
    if (about.router_scores != RouterScores::none) router.emplace(path);
    if (about.candidates > 0) candidates.emplace(path);
    if (about.lookahead) lookahead.emplace(path);
  }

  void check_row(const TraceRow& row);
  void check_ids(RowCheck& rule, std::span<const std::uint16_t> values, std::size_t width, const char* what);
  void check_scores(std::span<const float> values, std::size_t width, const char* what);
  [[noreturn]] void fail_at(std::size_t layer, const std::string& what) const {
    throw InputError(path.string(),
                     "token " + std::to_string(tokens) + ", layer " + std::to_string(layer) + ": " + what);
  }

  std::filesystem::path path;
  TraceDescription about;
  RowCheck check, check_candidates;
  Spool ids, phases;
  std::optional<Spool> gate, router, candidates, lookahead;
  std::vector<std::uint64_t> offsets{};  // first row of each request
  std::vector<std::uint16_t> domains{};
  std::uint64_t tokens = 0;
  std::uint8_t last_phase = 0;
};

void RoutingTraceWriter::Impl::check_ids(RowCheck& rule, std::span<const std::uint16_t> values,
                                         std::size_t width, const char* what) {
  assert(values.size() == about.layers * width);
  if (const auto row = rule.first_bad(values))
    fail_at(*row, std::string(what) + ": " + rule.describe(values.subspan(*row * width, width)));
}

void RoutingTraceWriter::Impl::check_scores(std::span<const float> values, std::size_t width,
                                            const char* what) {
  assert(values.size() == about.layers * width);
  if (const auto place = first_not_finite(values))
    fail_at(*place / width, std::string(what) + ": a score is not finite");
}

void RoutingTraceWriter::Impl::check_row(const TraceRow& row) {
  assert(!offsets.empty() && "begin_request comes first");
  const auto phase = static_cast<std::uint8_t>(row.phase);
  if (tokens > offsets.back() && phase < last_phase)
    throw InputError(path.string(), "token " + std::to_string(tokens) +
                                        ": its phase comes before that of the token before it");
  check_ids(check, row.ids, about.top_k, "expert ids");
  check_scores(row.gate_scores, about.gate_scores ? about.top_k : 0, "gate scores");
  check_scores(row.router_scores, about.router_width(), "router scores");
  if (candidates) check_ids(check_candidates, row.candidate_ids, about.candidates, "candidate ids");
  if (lookahead) check_ids(check, row.lookahead_ids, about.top_k, "lookahead ids");
}

RoutingTraceWriter::RoutingTraceWriter(std::filesystem::path path, TraceDescription description) {
  check_description(path.string(), description);
  impl_ = std::make_unique<Impl>(std::move(path), std::move(description));
}

RoutingTraceWriter::~RoutingTraceWriter() = default;

std::uint64_t RoutingTraceWriter::tokens() const {
  return impl_->tokens;
}

void RoutingTraceWriter::begin_request(std::uint16_t domain) {
  const std::size_t domains = impl_->about.domains.size();
  if (domain >= std::max<std::size_t>(domains, 1))
    throw InputError(impl_->path.string(), "request " + std::to_string(impl_->offsets.size()) +
                                               " is of domain " + std::to_string(domain) +
                                               ", but there are " + std::to_string(domains));
  impl_->offsets.push_back(impl_->tokens);
  if (domains > 0) impl_->domains.push_back(domain);
}

void RoutingTraceWriter::add_token(const TraceRow& row) {
  Impl& w = *impl_;
  w.check_row(row);
  const auto phase = static_cast<std::uint8_t>(row.phase);
  w.ids.append(std::as_bytes(row.ids));
  if (w.gate) w.gate->append(std::as_bytes(row.gate_scores));
  if (w.router) w.router->append(std::as_bytes(row.router_scores));
  if (w.candidates) w.candidates->append(std::as_bytes(row.candidate_ids));
  if (w.lookahead) w.lookahead->append(std::as_bytes(row.lookahead_ids));
  w.phases.append(std::as_bytes(std::span(&phase, 1)));
  w.last_phase = phase;
  ++w.tokens;
}

void RoutingTraceWriter::finish() {
  Impl& w = *impl_;
  if (w.tokens == 0) throw InputError(w.path.string(), "holds no tokens");
  w.offsets.push_back(w.tokens);
  const std::vector<std::uint64_t> rows{w.tokens, w.about.layers, w.about.top_k};
  const std::vector<std::uint64_t> wide{w.tokens, w.about.layers, w.about.router_width()};
  // By falling size of their elements, so that all lie aligned.
  std::vector<Tensor> tensors{{"request_offsets", Dtype::u64, {w.offsets.size()}, {}}};
  if (w.gate) tensors.push_back({"gate_scores", Dtype::f32, rows, {}});
  if (w.router) tensors.push_back({"router_scores", Dtype::f32, wide, {}});
  tensors.push_back({"expert_ids", Dtype::u16, rows, {}});
  if (w.candidates) tensors.push_back({"candidate_ids", Dtype::u16, wide, {}});
  if (w.lookahead) tensors.push_back({"lookahead_ids", Dtype::u16, rows, {}});
  if (!w.domains.empty()) tensors.push_back({"request_domains", Dtype::u16, {w.domains.size()}, {}});
  tensors.push_back({"phases", Dtype::u8, {w.tokens}, {}});
  const std::string preamble = safetensors_preamble(w.path.string(), tensors, trace_metadata(w.about));

  AtomicFile file(w.path);
  file.write(std::as_bytes(std::span(preamble)));
  file.write(std::as_bytes(std::span(w.offsets)));
  if (w.gate) w.gate->copy_to(file);
  if (w.router) w.router->copy_to(file);
  w.ids.copy_to(file);
  if (w.candidates) w.candidates->copy_to(file);
  if (w.lookahead) w.lookahead->copy_to(file);
  file.write(std::as_bytes(std::span(w.domains)));
  w.phases.copy_to(file);
  file.commit();
}

}  // namespace moelab
