#include "sim/serving/request_stream.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/input_error.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kArrivalSeedOffset = 0x6a09e667f3bcc909;

std::vector<ServedRequest> logged(const WorkloadConfig& w) {
  std::vector<ServedRequest> requests;
  for (const RequestRecord& r : w.log) requests.push_back({r.arrival_s, r.prompt_tokens, r.output_tokens, 0});
  return requests;
}

/// A request's rows run from its first to its last, each once; prefilled, those that decode.
std::vector<ServedRequest> recorded(const Scenario& s, const RoutingTrace& trace) {
  std::vector<ServedRequest> requests;
  for (const TraceRequest& q : trace.requests()) {
    const auto prompt = static_cast<std::uint32_t>(q.decode_begin - q.begin);
    const auto decoded = static_cast<std::uint32_t>(q.end - q.decode_begin);
    if (s.workload.prefilled) {
      if (decoded == 0)
        throw InputError(s.workload.trace_file, "request " + std::to_string(requests.size() + 1) +
                                                    " has no rows but its prompt's, and the workload is "
                                                    "prefilled: there is nothing to serve of it");
      // Its first row to decode has behind it one of a prompt at least, if need be one that nobody recorded.
      const std::uint32_t before = std::max(prompt, 1U);
      requests.push_back({0, before, decoded, (q.decode_begin + trace.tokens() - before) % trace.tokens()});
    } else {
      // The first token comes with the prompt; without one the first row gives it.
      requests.push_back({0, std::max(prompt, 1U), std::max(decoded + (prompt > 0 ? 1 : 0), 1U), q.begin});
    }
  }
  return requests;
}

std::vector<ServedRequest> of_one_length(const Scenario& s) {
  const WorkloadConfig& w = s.workload;
  std::vector<ServedRequest> requests(w.requests, {0, w.prompt_tokens, w.output_tokens, 0});
  if (w.arrivals_per_s == 0) return requests;
  Random random(s.seed + kArrivalSeedOffset);
  double now = 0;
  for (ServedRequest& request : requests) {
    now -= portable_log(1 - random.uniform()) / w.arrivals_per_s;
    if (!(now <= kLatestArrival))
      throw InputError(s.name,
                       "workload.arrivals_per_s is so low that requests come later than 1e12 s; "
                       "expected more, or 0 for all at once");
    request.arrival_s = now;
  }
  return requests;
}

}  // namespace

std::uint64_t spread_row(std::uint64_t number, std::uint64_t rows) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // its fraction, times 2^64
  return ((number * kGoldenRatio) >> 32) * rows >> 32;
}

std::vector<ServedRequest> served_requests(const Scenario& s, const RoutingTrace& trace) {
  if (!s.workload.trace_file.empty()) return recorded(s, trace);
  std::vector<ServedRequest> requests = s.workload.log.empty() ? of_one_length(s) : logged(s.workload);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].first_row = spread_row(i, trace.tokens());
  return requests;
}

std::unique_ptr<BatchingPolicy> make_batching(const Scenario& s, const PagingConfig& paging,
                                              const MemoryPlan& memory) {
  const BatchingShape shape{kv_shape(paging, memory), s.workload.batch, paging.max_tokens};
  return find_batching_policy(paging.batching.name)->make(shape, paging.batching.parameters);
}

std::string misfit(const BatchingPolicy& policy, const ServedRequest& request, bool prefilled) {
  return policy.misfit(batch_request(request, prefilled));
}

RequestStream::RequestStream(const std::vector<ServedRequest>& requests, bool prefilled,
                             std::uint64_t trace_rows, BatchingPolicy& policy)
    : requests_(requests),
      prefilled_(prefilled),
      trace_rows_(trace_rows),
      policy_(policy),
      progress_(requests.size()) {}

void RequestStream::announce(double now) {
  for (; arrived_ < requests_.size() && requests_[arrived_].arrival_s <= now; ++arrived_)
    policy_.arrive(batch_request(requests_[arrived_], prefilled_, static_cast<std::uint32_t>(arrived_)));
}

std::optional<double> RequestStream::next_arrival() const {
  if (arrived_ == requests_.size()) return std::nullopt;
  return requests_[arrived_].arrival_s;
}

void RequestStream::add_rows(const StepShare& share, Pass& pass) const {
  const ServedRequest& request = requests_[share.request];
  const std::uint64_t rows = request.pool_rows > 0 ? request.pool_rows : trace_rows_;
  std::uint64_t row = (request.first_row + share.context) % rows;
  for (std::uint64_t left = share.tokens; left > 0;) {
    const std::uint64_t together = std::min(left, rows - row);
    pass.rows.emplace_back(request.pool_begin + row, request.pool_begin + row + together);
    left -= together;
    row = 0;
  }
}

bool RequestStream::next(double now, Pass& pass) {
  announce(now);
  pass = {.rows = std::move(pass.rows)};
  pass.rows.clear();
  if (!policy_.form(step_)) return false;
  for (const std::uint32_t request : step_.admitted) progress_[request].begin = now;
  double context = 0, prompt_context = 0;
  for (const StepShare& share : step_.shares) {
    add_rows(share, pass);
    pass.tokens += share.tokens;
    pass.produces += share.produces ? 1 : 0;
    // A row attends to what is in the cache and to the rows of its own before it, itself included.
    const double seen = share.tokens * (share.context + (share.tokens + 1) / 2.0);
    (share.prompt ? prompt_context : context) += seen;
    if (share.prompt) pass.prompt_tokens += share.tokens;
  }
  const std::uint32_t decoding = pass.tokens - pass.prompt_tokens;
  pass.prompt = decoding == 0;
  pass.context = decoding == 0 ? 0 : context / decoding;
  pass.prompt_context = pass.prompt_tokens == 0 ? 0 : prompt_context / pass.prompt_tokens;
  return true;
}

void RequestStream::complete(double now, Metrics& m, GraphObserver* observer) {
  for (const StepShare& share : step_.shares) {
    if (!share.produces) continue;
    const ServedRequest& request = requests_[share.request];
    Progress& p = progress_[share.request];
    ++m.tokens;
    if (p.tokens++ == 0) {
      m.ttft_s.push_back(now - request.arrival_s);
      p.first_token = now;
    } else {
      m.token_gaps_s.push_back(now - p.last_token);
    }
    p.last_token = now;
    if (p.tokens < request.output_tokens) continue;
    m.end_to_end_s.push_back(now - request.arrival_s);
    if (observer != nullptr)
      observer->answered({share.request, request.arrival_s, p.begin, p.first_token, now});
  }
  policy_.complete();
}

}  // namespace moelab
