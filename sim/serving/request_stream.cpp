#include "sim/serving/request_stream.hpp"

#include <algorithm>
#include <limits>

#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Rows of a long answer that leave the memory together.
constexpr std::uint64_t kReleasedTogether = 1 << 15;

/// A row attends to what its request has in the cache and to the rows of its own share up to itself. In an
/// encoder it attends to all of its prompt, and what comes of that is what the decoder's rows attend to by
/// cross-attention, beside the tokens decoded up to themselves.
RowRun attention_of(const StepShare& share, const ServedRequest& request) {
  RowRun run{.prompt = share.prompt, .first = share.context + 1.0, .rows = share.tokens};
  if (request.encoder_tokens == 0) return run;
  if (share.prompt) {
    run.first = request.encoder_tokens;
    run.whole = true;
  } else {
    run.first -= request.encoder_tokens;
    run.encoded = request.encoder_tokens;
  }
  return run;
}

/// Keeps its memory.
void empty(Pass& pass) {
  pass = {.rows = std::move(pass.rows), .runs = std::move(pass.runs), .of_ranks = std::move(pass.of_ranks)};
  pass.rows.clear();
  pass.runs.clear();
}

}  // namespace

std::unique_ptr<BatchingPolicy> make_static_batches(std::uint32_t together, std::uint32_t micro_batch,
                                                    std::uint32_t drafts) {
  BatchingShape shape;
  shape.kv.gpu_blocks = std::numeric_limits<std::uint64_t>::max() / 2;
  shape.max_requests = together;
  shape.max_tokens = std::numeric_limits<std::uint32_t>::max();
  shape.micro_batch = micro_batch;
  shape.drafts = drafts;
  return find_batching_policy("static")->make(shape, {});
}

void RequestStream::announce(double now) {
  for (const RequestSource::Arrival& arrival : source_.take(now)) {
    const std::uint32_t order = arrival.order == RequestSource::kByNumber ? arrival.number : arrival.order;
    const bool measured = measured_.holds(order, arrival.request.arrival_s);
    const double begun = arrival.request.first_token_s;
    live_.emplace(
        arrival.number,
        Live{.request = arrival.request, .first_token = begun, .last_token = begun, .measured = measured});
    in_order_.push_back(arrival.number);
    policy_.arrive(batch_request(arrival.request, arrival.number));
  }
}

// A large trace streams through the memory: what requests before the oldest one have run may leave it.
void RequestStream::release_rows() {
  if (in_order_.empty()) return;
  const ServedRequest& oldest = live_.at(in_order_.front()).request;
  if (oldest.pool_rows > 0) return;
  if (oldest.first_row < released_) released_ = oldest.first_row;
  if (!trace_.worth_releasing(oldest.first_row - released_)) return;
  trace_.release_rows(released_, oldest.first_row);
  released_ = oldest.first_row;
}

void RequestStream::add_rows(const StepShare& share, const ServedRequest& request, Pass& pass) const {
  const std::uint64_t rows = request.pool_rows > 0 ? request.pool_rows : trace_.tokens();
  std::uint64_t row = (request.first_row + share.context) % rows;
  for (std::uint64_t left = share.tokens; left > 0;) {
    const std::uint64_t together = std::min(left, rows - row);
    pass.rows.emplace_back(request.pool_begin + row, request.pool_begin + row + together);
    left -= together;
    row = 0;
  }
  // With drafts a share may go beyond a multiple.
  const bool of_long_answer = !share.prompt && share.context >= kReleasedTogether &&
                              share.context % kReleasedTogether <= drafts_.tokens;
  if (of_long_answer && request.pool_rows == 0 && pass.rows.back().first >= kReleasedTogether)
    trace_.release_rows(pass.rows.back().first - kReleasedTogether, pass.rows.back().first);
}

bool RequestStream::next(double now, Pass& pass) {
  announce(now);
  release_rows();
  empty(pass);
  const bool runs = policy_.form(step_);
  for (const std::uint32_t number : step_.fetches) source_.has_blocks(number);
  if (!runs) return false;
  pass.of_ranks.resize(step_.of_ranks.size());
  for (Pass& own : pass.of_ranks) empty(own);
  running_ += step_.admitted.size();
  begins_ = !step_.admitted.empty() && running_ == step_.admitted.size();
  for (const std::uint32_t number : step_.admitted) {
    Live& live = live_.at(number);
    live.begin = now;
    if (live.request.prefilled) pass.brought_tokens += live.request.prompt_tokens;
  }
  for (const auto* const preempted : {&step_.swapped_out, &step_.dropped})
    for (const std::uint32_t number : *preempted) ++live_.at(number).preempted;
  for (const StepShare& share : step_.shares) {
    Live& live = live_.at(share.request);
    const ServedRequest& request = live.request;
    if (!live.ran && !request.prefilled) live.cached_tokens = share.context;
    live.ran = true;
    add_rows(share, request, pass);
    add_share(share, request, pass);
    if (!pass.of_ranks.empty()) add_share(share, request, pass.of_ranks[share.rank]);
  }
  pass.prompt = pass.tokens == pass.prompt_tokens;
  ends_ = step_.finished;
  if (drafts_.tokens > 0) verify_drafts(pass);
  return true;
}

// What is refused is drawn here, and told when the step has run.
void RequestStream::verify_drafts(Pass& pass) {
  refused_.clear();
  for (const StepShare& share : step_.shares) {
    const std::uint32_t drafted = share.prompt ? 0 : share.tokens - 1;
    const std::uint32_t refused = drafted - drafts_.accepted(share.request, share.context, drafted);
    refused_.push_back(refused);
    pass.refused += refused;
    const std::uint64_t cached = std::uint64_t{share.context} + share.tokens - refused;
    if (drafted > 0 && cached == final_tokens(batch_request(live_.at(share.request).request)))
      ends_.push_back(share.request);
  }
}

void RequestStream::add_share(const StepShare& share, const ServedRequest& request, Pass& pass) {
  pass.tokens += share.tokens;
  pass.produces += share.produces ? 1 : 0;
  pass.drafts += share.prompt ? 0 : share.tokens - 1;
  pass.runs.push_back(attention_of(share, request));
  if (share.prompt) pass.prompt_tokens += share.tokens;
  if (share.prompt && request.encoded) pass.stack = Stack::encoder;
  if (request.encoded && !share.prompt && share.context == request.prompt_tokens)
    pass.new_encoder_tokens += request.prompt_tokens;
}

// Tokens of one step come at once: the gap before them is one, as a client sees it (vLLM's benchmark: one
// entry of `itl` a chunk of the stream, however many tokens it has).
void RequestStream::count_tokens(const StepShare& share, std::uint32_t refused, double now, Metrics& m,
                                 GraphObserver* observer) {
  Live& live = live_.at(share.request);
  const double arrival_s = live.request.arrival_s;
  const std::uint32_t tokens = share.prompt ? 1 : share.tokens - refused;
  m.tokens += tokens;
  if (!share.prompt && drafts_.tokens > 0) m.speculation.add(share.tokens - 1, refused);
  if (live.first_token < 0) {
    if (live.measured) m.ttft_s.push_back(now - arrival_s);
    live.first_token = now;
  } else {
    const double gap_s = now - live.last_token;
    live.longest_gap_s = std::max(live.longest_gap_s, gap_s);
    if (live.measured) m.count_gap(gap_s, live.request.of_class);
  }
  live.tokens += tokens;
  live.last_token = now;
  if (live.tokens < live.request.output_tokens) return;
  if (live.measured) m.end_to_end_s.push_back(now - arrival_s);
  m.requests.push_back(times_of(share.request, live));
  m.requests.back().end_s = now;
  if (observer != nullptr) observer->answered({share.request, arrival_s, live.begin, live.first_token, now});
}

RequestTimes RequestStream::times_of(std::uint32_t number, const Live& live) {
  return {.number = number,
          .arrival_s = live.request.arrival_s,
          .started_s = live.begin,
          .first_token_s = live.first_token,
          .prompt_tokens = live.request.prompt_tokens,
          .output_tokens = live.request.output_tokens + (live.request.first_token_s < 0 ? 0U : 1U),
          .preempted = live.preempted,
          .cached_tokens = live.cached_tokens,
          .longest_gap_s = live.longest_gap_s,
          .of_class = live.request.of_class,
          .measured = live.measured};
}

void RequestStream::abandon(Metrics& m) {
  for (const std::uint32_t number : in_order_) {
    const auto live = live_.find(number);
    if (live == live_.end()) continue;
    if (live->second.begin >= 0) {
      m.requests.push_back(times_of(number, live->second));
      source_.lost(number);
    } else {
      source_.give_back({number, live->second.request});
    }
  }
  live_.clear();
  in_order_.clear();
  running_ = 0;
}

void RequestStream::complete(double now, Metrics& m, GraphObserver* observer) {
  for (std::size_t i = 0; i < step_.shares.size(); ++i)
    if (step_.shares[i].produces)
      count_tokens(step_.shares[i], refused_.empty() ? 0 : refused_[i], now, m, observer);
  complete(now);
}

void RequestStream::complete(double now) {
  for (const std::uint32_t number : ends_) {
    source_.finished(number, live_.at(number).request.arrival_s, now);
    live_.erase(number);
  }
  running_ -= ends_.size();
  while (!in_order_.empty() && !live_.contains(in_order_.front())) in_order_.pop_front();
  const auto any = [](std::uint32_t tokens) { return tokens > 0; };
  if (std::any_of(refused_.begin(), refused_.end(), any)) policy_.refuse(refused_);
  policy_.complete();
}

StaticPasses::StaticPasses(const RoutingTrace& trace, std::uint32_t together, const Prompts& prompts,
                           std::uint32_t micro_batch, const Drafts& drafts)
    : source_(trace, together, prompts),
      policy_(make_static_batches(together, micro_batch, drafts.tokens)),
      stream_(source_, trace, *policy_, drafts) {}

bool StaticPasses::next(Pass& pass) {
  if (running_) stream_.complete(0);
  return running_ = stream_.next(0, pass);
}

}  // namespace moelab
