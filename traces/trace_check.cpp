#include "traces/trace_check.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "models/input_error.hpp"
#include "traces/domain_list.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

// The description, if a trace can be so.
const TraceDescription& checked(const std::string& name, const TraceDescription& about) {
  const auto fail = [&](const char* what, std::uint64_t value, const std::string& range) {
    throw InputError(name, std::string(what) + " is " + std::to_string(value) + ", but must be " + range);
  };
  if (about.layers == 0) fail("layers", about.layers, "at least 1");
  if (about.experts == 0 || about.experts > kNoExpert) fail("experts", about.experts, "between 1 and 65535");
  if (about.top_k == 0 || about.top_k > about.experts)
    fail("top_k", about.top_k, "between 1 and " + std::to_string(about.experts) + " experts");
  if (about.candidates > 0 && about.router_scores == RouterScores::none)
    fail("candidates", about.candidates, "0 where there are no router scores");
  if (about.candidates > 0 && (about.candidates < about.top_k || about.candidates >= about.experts))
    fail("candidates", about.candidates,
         "from top_k, " + std::to_string(about.top_k) + ", to less than the " +
             std::to_string(about.experts) + " experts");
  domain_list_text(name, about.domains);
  return about;
}

}  // namespace

TraceCheck::TraceCheck(std::string name, const TraceDescription& about)
    : name_(std::move(name)),
      layers_(checked(name_, about).layers),
      top_k_(about.top_k),
      candidates_(about.candidates),
      router_width_(about.router_width()),
      domains_(about.domains.size()),
      gate_scores_(about.gate_scores),
      lookahead_(about.lookahead),
      rows_(about.experts, about.top_k),
      candidate_rows_(about.experts, std::max(about.candidates, 1U)) {}

void TraceCheck::fail(const std::string& what) const {
  throw InputError(name_, what);
}

void TraceCheck::fail_at(std::size_t layer, const char* which, const std::string& what) const {
  fail("token " + std::to_string(tokens_) + ", layer " + std::to_string(layer) + ": " + which + ": " + what);
}

void TraceCheck::begin_request(std::uint16_t domain) {
  if (domain >= std::max<std::size_t>(domains_, 1))
    fail("request " + std::to_string(requests_) + " is of domain " + std::to_string(domain) +
         ", but there are " + std::to_string(domains_));
  ++requests_;
  last_phase_ = 0;
}

void TraceCheck::check_ids(RowCheck& rule, std::span<const std::uint16_t> values, std::size_t width,
                           const char* what) {
  assert(values.size() == layers_ * width);
  if (const auto row = rule.first_bad(values))
    fail_at(*row, what, rule.describe(values.subspan(*row * width, width)));
}

void TraceCheck::check_scores(std::span<const float> values, std::size_t width, const char* what) const {
  assert(values.size() == layers_ * width);
  if (const auto place = first_not_finite(values)) fail_at(*place / width, what, "a score is not finite");
}

void TraceCheck::check(const TraceRow& row) {
  assert(requests_ > 0 && "begin_request comes first");
  if (static_cast<std::uint8_t>(row.phase) < last_phase_)
    fail("token " + std::to_string(tokens_) + ": its phase comes before that of the token before it");
  check_ids(rows_, row.ids, top_k_, "expert ids");
  check_scores(row.gate_scores, gate_scores_ ? top_k_ : 0, "gate scores");
  check_scores(row.router_scores, router_width_, "router scores");
  if (candidates_ > 0) check_ids(candidate_rows_, row.candidate_ids, candidates_, "candidate ids");
  if (lookahead_) check_ids(rows_, row.lookahead_ids, top_k_, "lookahead ids");
}

void TraceCheck::added(const TraceRow& row) {
  last_phase_ = static_cast<std::uint8_t>(row.phase);
  ++tokens_;
}

void TraceCheck::finish() const {
  if (tokens_ == 0) fail("holds no tokens");
}

}  // namespace moelab
