// The builder of routing traces with all that they can have; and gate scores that must be widened.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::trace_builder_test {
namespace {

using test::bytes_of;
using test::container;
using test::error_of;
using test::ScratchFolder;
using test::write_bytes;

std::vector<float> router_of(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer) {
  std::vector<float> scores(trace.description().router_width());
  trace.router_scores_of(token, layer, scores);
  return scores;
}

/// Rows that say where they are: one layer, k = 2 of 2000 experts, all that a row can have but candidates.
struct LargeRow {
  std::vector<std::uint16_t> ids, lookahead;
  std::vector<float> gate, router = std::vector<float>(2000);

  void fill(std::uint64_t token) {
    const auto first = static_cast<std::uint16_t>(token % 1999);
    ids = {first, 1999};
    lookahead = {1999, first};
    gate = {static_cast<float>(token), -1};
    router[token % 2000] = static_cast<float>(token);
  }
  bool is_at(const RoutingTrace& trace, std::uint64_t token) const {
    return std::ranges::equal(trace.experts_of(token, 0), ids) &&
           std::ranges::equal(trace.lookahead_of(token, 0), lookahead) &&
           std::ranges::equal(trace.scores_of(token, 0), gate) && router_of(trace, token, 0) == router;
  }
};

}  // namespace

TEST_CASE("trace builder: a trace announced to be large is kept in temporary files, with all that it has") {
  constexpr std::uint64_t kTokens = 10000;  // 80 MB of router scores
  RoutingTraceBuilder builder({.layers = 1,
                               .experts = 2000,
                               .top_k = 2,
                               .gate_scores = true,
                               .router_scores = RouterScores::sigmoid,
                               .lookahead = true});
  builder.reserve(kTokens);
  builder.begin_request();
  LargeRow row;
  for (std::uint64_t token = 0; token < kTokens; ++token) {
    row.fill(token);
    builder.add_token({Phase::decode, row.ids, row.gate, row.router, {}, row.lookahead});
  }
  CHECK(error_of([&] {
          builder.add_token({Phase::decode, row.ids, row.gate, row.router, {}, row.lookahead});
        }).find("holds more tokens than the 10000 announced") != std::string::npos);
  const RoutingTrace trace = builder.finish();
  trace.release_rows(0, kTokens);
  LargeRow again;
  for (std::uint64_t token = 0; token < kTokens; ++token) {
    again.fill(token);
    if (!again.is_at(trace, token)) FAIL("token " << token << " is not what was added");
  }
}

TEST_CASE("trace builder: bad rows are refused, and it goes on as if they had not been") {
  const std::vector<std::uint16_t> ids{0}, candidates{3, 1}, lookahead{2}, out{4}, twice{1, 1};
  const std::vector<float> router{2, 1}, bad{2, std::numeric_limits<float>::quiet_NaN()};
  RoutingTraceBuilder builder({.layers = 1,
                               .experts = 4,
                               .top_k = 1,
                               .router_scores = RouterScores::logits,
                               .candidates = 2,
                               .lookahead = true,
                               .domains = {"a", "b"}});
  const auto error = [&](const TraceRow& row) { return error_of([&] { builder.add_token(row); }); };
  CHECK(error_of([&] { builder.begin_request(2); }).find("is of domain 2, but there are 2") !=
        std::string::npos);
  builder.begin_request(1);
  builder.add_token({Phase::decode, ids, {}, router, candidates, lookahead});
  CHECK(error({Phase::decode, out, {}, router, candidates, lookahead}).find("expert ids: expert id 4") !=
        std::string::npos);
  CHECK(error({Phase::decode, ids, {}, bad, candidates, lookahead}).find("router scores: a score") !=
        std::string::npos);
  CHECK(error({Phase::decode, ids, {}, router, twice, lookahead}).find("candidate ids: expert id 1") !=
        std::string::npos);
  CHECK(error({Phase::decode, ids, {}, router, candidates, out}).find("token 1, layer 0: lookahead ids") !=
        std::string::npos);
  CHECK(error({Phase::prefill, ids, {}, router, candidates, lookahead}).find("its phase comes before") !=
        std::string::npos);
  const RoutingTrace trace = builder.finish();
  CHECK(trace.tokens() == 1);
  CHECK(trace.domain_of(0) == 1);

  const auto refusal = [](const TraceDescription& about) {
    return error_of([&] { RoutingTraceBuilder refused(about); });
  };
  CHECK(refusal({.layers = 1, .experts = 4, .top_k = 1, .candidates = 2})
            .find("must be 0 where there are no router scores") != std::string::npos);
  CHECK(refusal({.layers = 1, .experts = 4, .top_k = 1, .domains = {"a", "a"}}).find("comes twice") !=
        std::string::npos);
  CHECK(refusal({.layers = 1, .experts = 4, .top_k = 1, .domains = {"\xc3"}}).find("not UTF-8") !=
        std::string::npos);
}

namespace {

/// IEEE 754, binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Of finite ones.
float value_of_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return static_cast<float>(half >> 15 != 0 ? -size : size);
}

/// A trace of so many tokens, one layer, one expert, with these gate scores over and over.
std::string half_scores_file(std::uint64_t tokens, const std::vector<std::uint16_t>& halves) {
  std::string scores;
  while (scores.size() < tokens * 2) scores += bytes_of(halves);
  const auto tensor = [](const char* name, const char* dtype, const std::string& shape, std::uint64_t begin,
                         std::uint64_t end) {
    return ",\"" + std::string(name) + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
           "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const std::string n = std::to_string(tokens);
  std::string header =
      R"({"__metadata__":{"format":"moelab-routing","format_version":"2","model":"","experts":"1",)"
      R"("provenance":"","kind":"recorded"})" +
      tensor("request_offsets", "U64", "2", 0, 16) +
      tensor("gate_scores", "F16", n + ",1,1", 16, 16 + 2 * tokens) +
      tensor("expert_ids", "U16", n + ",1,1", 16 + 2 * tokens, 16 + 4 * tokens) +
      tensor("phases", "U8", n, 16 + 4 * tokens, 16 + 5 * tokens) + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return container(header, bytes_of(std::vector<std::uint64_t>{0, tokens}) + scores +
                               std::string(2 * tokens, '\0') + std::string(tokens, '\2'));
}

}  // namespace

TEST_CASE("gate scores: every half-precision number is widened exactly, also of large files") {
  const ScratchFolder scratch;
  std::vector<std::uint16_t> finite;
  for (std::uint32_t half = 0; half < 65536; ++half)
    if ((half >> 10 & 31) != 31) finite.push_back(static_cast<std::uint16_t>(half));
  // The second time they are more than 64 MiB when widened, which go to a temporary file.
  for (const std::uint64_t tokens : {finite.size(), finite.size() * 270}) {
    if (test::kFewerRuns && tokens > finite.size()) continue;
    write_bytes(scratch / "f", half_scores_file(tokens, finite));
    const RoutingTrace trace = read_routing_trace(scratch / "f");
    trace.release_rows(0, tokens);
    for (std::uint64_t token = 0; token < tokens; ++token) {
      const float value = trace.scores_of(token, 0)[0], due = value_of_half(finite[token % finite.size()]);
      if (value != due || std::signbit(value) != std::signbit(due))
        FAIL("token " << token << ": " << value << " instead of " << due);
    }
  }
  for (std::uint32_t half = 0; half < 65536; ++half) {
    if ((half >> 10 & 31) != 31) continue;
    write_bytes(scratch / "f", half_scores_file(2, {0, static_cast<std::uint16_t>(half)}));
    if (error_of([&] { read_routing_trace(scratch / "f"); }).find("token 1, layer 0: the score is not") ==
        std::string::npos)
      FAIL(half << " is not finite, but was read");
  }
}

}  // namespace moelab::trace_builder_test
