// Slices of traces, compared row by row with what they were cut from.
#include "traces/trace_slice.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/random_runs.hpp"
#include "tests/traces/random_traces.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::trace_slice_test {
namespace {

using test::error_of;
using test::PlainRequest;
using test::PlainRow;
using test::PlainTrace;
using test::random_plain_trace;

template <class T>
bool equal(std::span<const T> a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void check_rows(const RoutingTrace& trace, std::size_t number, const PlainRequest& request) {
  const TraceRequest& got = trace.requests()[number];
  REQUIRE(got.end - got.begin == request.rows.size());
  const auto prompt = static_cast<std::uint64_t>(
      std::count_if(request.rows.begin(), request.rows.end(),
                    [](const PlainRow& row) { return row.phase != Phase::decode; }));
  CHECK(got.decode_begin - got.begin == prompt);
  CHECK(trace.domain_of(number) == (trace.description().domains.empty() ? 0 : request.domain));
  for (std::uint64_t t = 0; t < request.rows.size(); ++t) {
    const PlainRow& row = request.rows[t];
    REQUIRE(trace.phase_of(got.begin + t) == row.phase);
    for (std::uint32_t l = 0; l < trace.layers(); ++l) {
      REQUIRE(equal(trace.experts_of(got.begin + t, l), row.ids[l]));
      REQUIRE(equal(trace.scores_of(got.begin + t, l), row.gates[l]));
    }
  }
}

}  // namespace

TEST_CASE("a slice holds the requests asked for, in that order, as they were") {
  for (std::uint64_t seed = 0; seed < moelab::test::random_runs(1000u); ++seed) {
    Random random(seed, 5, 0);
    const PlainTrace plain = random_plain_trace(random);
    const RoutingTrace trace = plain.built();
    std::vector<std::uint32_t> requests;
    std::uint64_t rows = 0;
    for (std::uint64_t i = random.below(7); i-- > 0;) {
      requests.push_back(static_cast<std::uint32_t>(random.below(plain.requests.size())));
      rows += plain.requests[requests.back()].rows.size();
    }
    INFO("seed " << seed);
    if (rows == 0) {
      CHECK_THAT(error_of([&] { slice(trace, requests); }), Catch::Matchers::Contains("holds no tokens"));
      continue;
    }
    const RoutingTrace cut = slice(trace, requests);
    REQUIRE(cut.tokens() == rows);
    REQUIRE(cut.requests().size() == requests.size());
    CHECK(cut.description().domains == plain.about.domains);
    CHECK(cut.provenance() == plain.about.provenance);
    CHECK(cut.synthetic());
    for (std::size_t r = 0; r < requests.size(); ++r) check_rows(cut, r, plain.requests[requests[r]]);
  }
}

TEST_CASE("a slice keeps router scores, candidates and lookahead") {
  const auto expert = [](int number) { return static_cast<std::uint16_t>(number % 5); };
  for (const bool of_all : {true, false}) {
    TraceDescription about;
    about.model = "m";
    about.layers = 2;
    about.experts = 5;
    about.top_k = 1;
    about.router_scores = RouterScores::logits;
    about.candidates = of_all ? 0 : 3;
    about.lookahead = true;
    const std::uint32_t width = about.router_width();
    RoutingTraceBuilder builder(about);
    // Every value says which token, layer and place it is of.
    for (std::uint16_t t = 0; t < 6; ++t) {
      if (t % 2 == 0) builder.begin_request();
      std::vector<std::uint16_t> ids, candidates, lookahead;
      std::vector<float> scores;
      for (std::uint16_t l = 0; l < 2; ++l) {
        ids.push_back(expert(t + l));
        lookahead.push_back(l == 0 ? kNoExpert : expert(t + 2));
        for (std::uint16_t i = 0; i < width; ++i) {
          scores.push_back(static_cast<float>(100 * t + 10 * l + i));
          if (!of_all) candidates.push_back(expert(t + l + i));
        }
      }
      builder.add_token({.phase = Phase::decode,
                         .ids = ids,
                         .router_scores = scores,
                         .candidate_ids = candidates,
                         .lookahead_ids = lookahead});
    }
    const std::vector<std::uint32_t> requests{2, 0};
    const RoutingTrace cut = slice(builder.finish(), requests);
    REQUIRE(cut.tokens() == 4);
    for (std::uint16_t i = 0; i < 4; ++i)
      for (std::uint16_t l = 0; l < 2; ++l) {
        const int t = std::array{4, 5, 0, 1}[i];
        std::vector<float> scores(width);
        cut.router_scores_of(i, l, scores);
        for (std::uint32_t e = 0; e < width; ++e)
          CHECK(scores[e] == static_cast<float>(100 * t + 10 * l) + static_cast<float>(e));
        CHECK(cut.experts_of(i, l)[0] == (t + l) % 5);
        CHECK(cut.lookahead_of(i, l)[0] == (l == 0 ? kNoExpert : (t + 2) % 5));
        REQUIRE(cut.candidates_of(i, l).size() == (of_all ? 0 : 3));
        for (std::uint32_t e = 0; !of_all && e < width; ++e)
          CHECK(cut.candidates_of(i, l)[e] == (static_cast<std::uint32_t>(t + l) + e) % 5);
      }
  }
}

}  // namespace moelab::trace_slice_test
