#include "traces/routing_trace_writer.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/output_file.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/safetensors_header.hpp"
#include "traces/spool.hpp"
#include "traces/trace_check.hpp"

namespace moelab {

struct RoutingTraceWriter::Impl {
  Impl(std::filesystem::path target, TraceDescription description)
      : path(std::move(target)),
        about(std::move(description)),
        check(path.string(), about),
        ids(path),
        phases(path) {
    if (about.gate_scores) gate.emplace(path);
    if (about.router_scores != RouterScores::none) router.emplace(path);
    if (about.candidates > 0) candidates.emplace(path);
    if (about.lookahead) lookahead.emplace(path);
  }

  std::filesystem::path path;
  TraceDescription about;
  TraceCheck check;
  Spool ids, phases;
  std::optional<Spool> gate, router, candidates, lookahead;
  std::vector<std::uint64_t> offsets{};  // first row of each request
  std::vector<std::uint16_t> domains{};
};

RoutingTraceWriter::RoutingTraceWriter(std::filesystem::path path, TraceDescription description)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(description))) {}

RoutingTraceWriter::~RoutingTraceWriter() = default;

std::uint64_t RoutingTraceWriter::tokens() const {
  return impl_->check.tokens();
}

void RoutingTraceWriter::begin_request(std::uint16_t domain) {
  Impl& w = *impl_;
  w.check.begin_request(domain);
  w.offsets.push_back(w.check.tokens());
  if (!w.about.domains.empty()) w.domains.push_back(domain);
}

void RoutingTraceWriter::add_token(const TraceRow& row) {
  Impl& w = *impl_;
  w.check.check(row);
  const auto phase = static_cast<std::uint8_t>(row.phase);
  w.ids.append(std::as_bytes(row.ids));
  if (w.gate) w.gate->append(std::as_bytes(row.gate_scores));
  if (w.router) w.router->append(std::as_bytes(row.router_scores));
  if (w.candidates) w.candidates->append(std::as_bytes(row.candidate_ids));
  if (w.lookahead) w.lookahead->append(std::as_bytes(row.lookahead_ids));
  w.phases.append(std::as_bytes(std::span(&phase, 1)));
  w.check.added(row);
}

void RoutingTraceWriter::finish() {
  Impl& w = *impl_;
  const std::uint64_t tokens = w.check.tokens();
  w.check.finish();
  w.offsets.push_back(tokens);
  const std::vector<std::uint64_t> rows{tokens, w.about.layers, w.about.top_k};
  const std::vector<std::uint64_t> wide{tokens, w.about.layers, w.about.router_width()};
  // By falling size of their elements, so that all lie aligned.
  std::vector<Tensor> tensors{{"request_offsets", Dtype::u64, {w.offsets.size()}, {}}};
  if (w.gate) tensors.push_back({"gate_scores", Dtype::f32, rows, {}});
  if (w.router) tensors.push_back({"router_scores", Dtype::f32, wide, {}});
  tensors.push_back({"expert_ids", Dtype::u16, rows, {}});
  if (w.candidates) tensors.push_back({"candidate_ids", Dtype::u16, wide, {}});
  if (w.lookahead) tensors.push_back({"lookahead_ids", Dtype::u16, rows, {}});
  if (!w.domains.empty()) tensors.push_back({"request_domains", Dtype::u16, {w.domains.size()}, {}});
  tensors.push_back({"phases", Dtype::u8, {tokens}, {}});
  const std::string preamble =
      safetensors_preamble(w.path.string(), tensors, trace_metadata(w.path.string(), w.about));

  OutputFile file(w.path, safetensors_bytes(preamble, tensors));
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
