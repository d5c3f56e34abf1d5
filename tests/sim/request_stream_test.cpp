// Streams of requests against what they are for: every row of the trace runs once, every request is answered
// once, in the order in which they come and never before.
#include "sim/serving/request_stream.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "tests/random_runs.hpp"
#include "tests/traces/random_traces.hpp"

namespace moelab::request_stream_test {
namespace {

using namespace moelab::test;

/// Some requests have no prompt, and where `empty` says so some have no rows at all; the others decode a row
/// at least.
PlainTrace small_trace(Random& random, bool encoder, bool empty) {
  PlainTrace trace = random_plain_trace(random, {2, 4, 1, 1, 1, encoder ? 1U : 0U});
  trace.requests.clear();
  const std::uint64_t requests = 1 + random.below(12);
  for (std::uint64_t r = 0; r < requests; ++r) {
    PlainRequest& request = trace.requests.emplace_back();
    if (empty && r + 1 < requests && random.below(3) == 0) continue;  // a trace has a row at least
    const std::uint64_t prompt = random.below(5), rows = prompt + 1 + random.below(6);
    for (std::uint64_t t = 0; t < rows; ++t) {
      const Phase phase = t >= prompt ? Phase::decode : encoder ? Phase::encoder : Phase::prefill;
      request.rows.push_back(random_row(random, trace, phase));
    }
  }
  return trace;
}

/// Requests come in the trace's order, some at the same moment; those that produce nothing do not come.
class Arrivals final : public RequestSource {
 public:
  Arrivals(Random& random, const RoutingTrace& trace, const Prompts& prompts) {
    double at = 0;
    for (std::size_t i = 0; i < trace.requests().size(); ++i) {
      if (random.below(2) == 0) at += 10 * random.uniform();
      ServedRequest request = trace_request(trace, i, prompts);
      request.arrival_s = at;
      if (request.output_tokens > 0) all_.push_back({static_cast<std::uint32_t>(i), request});
    }
  }
  std::span<const Arrival> take(double now) override {
    const std::size_t first = next_;
    while (next_ < all_.size() && all_[next_].request.arrival_s <= now) ++next_;
    return std::span(all_).subspan(first, next_ - first);
  }
  std::optional<double> next_time() const override {
    if (next_ == all_.size()) return std::nullopt;
    return all_[next_].request.arrival_s;
  }
  void finished(std::uint32_t number, double arrival_s, double) override {
    ++answers[number];
    REQUIRE(arrival_s == at(number));
  }

  double at(std::size_t number) const {
    return std::ranges::find(all_, number, &Arrival::number)->request.arrival_s;
  }
  std::map<std::size_t, int> answers;

 private:
  std::vector<Arrival> all_;
  std::size_t next_ = 0;
};

struct Spans final : GraphObserver {
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override {}
  void answered(const ServedSpan& span) override { all.push_back(span); }
  std::vector<ServedSpan> all;
};

struct Served {
  std::vector<int> rows;             // by row of the trace: how often it ran
  std::vector<std::uint64_t> first;  // rows of first passes of batches, in the order of running
  std::size_t batches = 0, passes = 0;
  Metrics metrics;
  Spans spans;
};

/// Serves everything; a pass takes up to 4 seconds.
Served serve(Random& random, const RoutingTrace& trace, std::size_t most, bool encoder, Arrivals* arrivals,
             std::uint32_t micro_batch = 0) {
  Served s;
  s.rows.assign(trace.tokens(), 0);
  RequestsInTurn in_turn(trace, most, {.encoded = encoder});
  const auto policy = make_static_batches(static_cast<std::uint32_t>(most), micro_batch);
  RequestStream batches(arrivals != nullptr ? static_cast<RequestSource&>(*arrivals) : in_turn, trace,
                        *policy);
  Pass pass;
  for (double now = 0;;) {
    if (!batches.next(now, pass)) {
      const std::optional<double> next = batches.next_arrival();
      if (!next) return s;
      REQUIRE(*next > now);  // else there was something to serve
      now = *next;
      continue;
    }
    s.batches += batches.begins() ? 1 : 0;
    ++s.passes;
    REQUIRE(pass.rows.size() <= most);
    if (micro_batch > 0 && !encoder && pass.prompt) REQUIRE(pass.tokens <= micro_batch);
    for (const auto& [begin, end] : pass.rows) {
      if (batches.begins()) s.first.push_back(begin);
      for (std::uint64_t row = begin; row < end; ++row) ++s.rows[row];
    }
    now += 4 * random.uniform();
    batches.complete(now, s.metrics, &s.spans);
  }
}

void check(const PlainTrace& plain, const Served& s, std::size_t most, bool encoder) {
  const auto requests = static_cast<std::size_t>(
      std::ranges::count_if(plain.requests, [](const PlainRequest& q) { return !q.rows.empty(); }));
  REQUIRE(std::ranges::all_of(s.rows, [](int ran) { return ran == 1; }));
  REQUIRE(std::ranges::is_sorted(s.first));  // in the trace's order, in which they come
  std::uint64_t tokens = 0;
  for (const PlainRequest& request : plain.requests) {
    if (request.rows.empty()) continue;
    const auto decoded = std::ranges::count(request.rows, Phase::decode, &PlainRow::phase);
    const bool prompted = !encoder && request.rows.front().phase != Phase::decode;
    tokens += static_cast<std::uint64_t>(decoded) + (prompted ? 1 : 0);
  }
  REQUIRE(s.metrics.tokens == tokens);
  REQUIRE(s.metrics.ttft_s.size() == requests);
  REQUIRE(s.metrics.end_to_end_s.size() == requests);
  REQUIRE(s.metrics.token_gaps_s.size() == tokens - requests);
  REQUIRE(s.batches >= (requests + most - 1) / most);  // of at most so many
  std::vector<int> answered(plain.requests.size(), 0);
  for (const ServedSpan& span : s.spans.all) {
    ++answered[span.request];
    REQUIRE(span.arrival_s <= span.begin_s);
    REQUIRE(span.begin_s <= span.first_token_s);
    REQUIRE(span.first_token_s <= span.end_s);
  }
  for (std::size_t i = 0; i < answered.size(); ++i)
    REQUIRE(answered[i] == (plain.requests[i].rows.empty() ? 0 : 1));
}

TEST_CASE("static batches run every row and answer every request once, whenever requests come") {
  Random random(11);
  for (int i = 0; i < random_runs(2000); ++i) {
    const bool encoder = random.below(3) == 0;
    const bool empty = random.below(3) == 0;
    const PlainTrace plain = small_trace(random, encoder, empty);
    const RoutingTrace trace = plain.built();
    const std::size_t most = 1 + random.below(5);
    const std::size_t requests = plain.requests.size();

    Arrivals arrivals(random, trace, {.encoded = encoder});
    const Served served = serve(random, trace, most, encoder, &arrivals);
    check(plain, served, most, encoder);
    for (const ServedSpan& span : served.spans.all) REQUIRE(span.arrival_s == arrivals.at(span.request));
    for (std::size_t r = 0; r < requests; ++r)
      REQUIRE(arrivals.answers[r] == (plain.requests[r].rows.empty() ? 0 : 1));

    const auto micro_batch = static_cast<std::uint32_t>(random.below(4));
    const Served in_turn = serve(random, trace, most, encoder, nullptr, micro_batch);
    check(plain, in_turn, most, encoder);
    if (!empty) REQUIRE(in_turn.batches == (requests + most - 1) / most);
    for (const ServedSpan& span : in_turn.spans.all) REQUIRE(span.arrival_s == span.begin_s);
  }
}

TEST_CASE("a batch's passes are its prompts together and then a token each") {
  Random random(12);
  PlainTrace plain = small_trace(random, false, false);
  plain.requests.resize(1);
  std::vector<PlainRow>& longer = plain.requests.front().rows;
  longer.assign(4, random_row(random, plain, Phase::decode));
  longer.front().phase = Phase::prefill;
  plain.requests.push_back({0, {longer.begin(), longer.begin() + 2}});
  const Served served = serve(random, plain.built(), 2, false, nullptr);
  CHECK(served.batches == 1u);
  CHECK(served.passes == 4u);  // the prompts, and the longer request's three tokens
  CHECK(served.metrics.tokens == 6u);
}

}  // namespace
}  // namespace moelab::request_stream_test
