// What version 2 of the format adds: router scores, candidates, lookahead, domains; and the streaming writer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/routing_trace.hpp"
#include "traces/routing_trace_writer.hpp"

namespace moelab::router_scores_test {
namespace {

using test::bytes_of;
using test::container;
using test::error_of;
using test::read_bytes;
using test::ScratchFolder;
using test::write_bytes;

/// A file put together by hand: 2 tokens in 2 requests, 1 layer, k = 1, 3 experts.
struct FileParts {
  std::string metadata =
      R"("format":"moelab-routing","format_version":"2","model":"","experts":"3",)"
      R"("provenance":"","kind":"recorded","router_scores":"logits","domains":"[\"code\",\"chat\"]")";
  std::string router_dtype = "F32", router_shape = "2,1,3";  // shape "": none
  std::string router = bytes_of(std::vector<float>{.5F, -2, 1, 0, 3, .25F});
  std::string candidates_shape;  // "": none
  std::vector<std::uint16_t> candidates;
  std::vector<std::uint16_t> lookahead{65535, 65535};
  std::string lookahead_shape = "2,1,1";
  std::string domains_shape = "2";  // "": none
  std::vector<std::uint16_t> domains{1, 0};

  std::string file() const {
    std::string header = "{\"__metadata__\":{" + metadata + "}", data;
    const auto add = [&](const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& bytes) {
      header += ",\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
                "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + bytes.size()) + "]}";
      data += bytes;
    };
    add("request_offsets", "U64", "3", bytes_of(std::vector<std::uint64_t>{0, 1, 2}));
    if (!router_shape.empty()) add("router_scores", router_dtype, router_shape, router);
    add("expert_ids", "U16", "2,1,1", bytes_of(std::vector<std::uint16_t>{2, 1}));
    if (!candidates_shape.empty()) add("candidate_ids", "U16", candidates_shape, bytes_of(candidates));
    add("lookahead_ids", "U16", lookahead_shape, bytes_of(lookahead));
    if (!domains_shape.empty()) add("request_domains", "U16", domains_shape, bytes_of(domains));
    add("phases", "U8", "2", bytes_of(std::vector<std::uint8_t>{2, 2}));
    header += "}";
    while (header.size() % 8 != 0) header += ' ';
    return container(header, data);
  }
};

std::vector<float> router_of(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer) {
  std::vector<float> scores(trace.description().router_width());
  trace.router_scores_of(token, layer, scores);
  return scores;
}

RoutingTrace read(const ScratchFolder& scratch, const FileParts& parts) {
  write_bytes(scratch / "f", parts.file());
  return read_routing_trace(scratch / "f");
}

}  // namespace

TEST_CASE("router scores: a file put together by hand") {
  const ScratchFolder scratch;
  FileParts parts;
  const RoutingTrace trace = read(scratch, parts);
  CHECK(trace.description().router_scores == RouterScores::logits);
  CHECK(router_of(trace, 0, 0) == std::vector<float>{.5F, -2, 1});
  CHECK(router_of(trace, 1, 0) == std::vector<float>{0, 3, .25F});
  CHECK(trace.candidates_of(0, 0).empty());
  CHECK(trace.lookahead_of(1, 0)[0] == kNoExpert);
  CHECK(trace.description().domains == std::vector<std::string>{"code", "chat"});
  CHECK(trace.domain_of(0) == 1);
  CHECK(trace.domain_of(1) == 0);
  // Half precision: 1.5 is 0x3e00, -2 is 0xc000, 2^-24 is 0x0001; as bfloat16 1.5 is 0x3fc0, -2 is 0xc000.
  parts.router_dtype = "F16";
  parts.router = bytes_of(std::vector<std::uint16_t>{0x3e00, 0xc000, 1, 0, 0, 0x3e00});
  CHECK(router_of(read(scratch, parts), 0, 0) == std::vector<float>{1.5F, -2, 0x1p-24F});
  parts.router_dtype = "BF16";
  parts.router = bytes_of(std::vector<std::uint16_t>{0x3fc0, 0xc000, 0, 0, 0, 0x3fc0});
  CHECK(router_of(read(scratch, parts), 0, 0) == std::vector<float>{1.5F, -2, 0});
}

TEST_CASE("router scores: of the best candidates only") {
  const ScratchFolder scratch;
  FileParts parts;
  parts.router_shape = parts.candidates_shape = "2,1,2";
  parts.router = bytes_of(std::vector<float>{3, 1, 2, 0});
  parts.candidates = {2, 0, 1, 2};
  const RoutingTrace trace = read(scratch, parts);
  CHECK(trace.description().candidates == 2);
  CHECK(router_of(trace, 1, 0) == std::vector<float>{2, 0});
  CHECK(std::ranges::equal(trace.candidates_of(1, 0), std::vector<std::uint16_t>{1, 2}));
}

TEST_CASE("router scores: hostile files are refused with their place") {
  struct Case {
    void (*spoil)(FileParts&);
    std::string message;
  };
  const auto replace = [](std::string& text, const std::string& was, const std::string& becomes) {
    text.replace(text.find(was), was.size(), becomes);
  };
  static const auto swap = replace;
  const std::vector<Case> cases = {
      {[](FileParts& p) { swap(p.metadata, "logits", "votes"); }, "'router_scores' is 'votes', but must be"},
      {[](FileParts& p) { swap(p.metadata, "router_scores", "router_score"); },
       "metadata 'router_scores' is missing"},
      {[](FileParts& p) { p.router_shape = "1,2,3"; }, "router_scores has other tokens or layers"},
      {[](FileParts& p) {
         p.router_shape = "2,1,2";
         p.router.resize(16);
       },
       "router_scores has 2 values a row, but must have 3, one an expert"},
      {[](FileParts& p) {
         p.router = bytes_of(std::vector<float>{0, 0, 0, 0, std::numeric_limits<float>::quiet_NaN(), 0});
       },
       "router_scores, token 1, layer 0: the score is not a finite number"},
      {[](FileParts& p) {
         p.candidates_shape = "2,1,3";
         p.candidates = {0, 1, 2, 0, 1, 2};
       },
       "from k to less than the number of experts"},
      {[](FileParts& p) {
         p.router_shape = p.candidates_shape = "2,1,2";
         p.router.resize(16);
         p.candidates = {0, 1, 2, 2};
       },
       "candidate_ids, token 1, layer 0: "},
      {[](FileParts& p) {
         p.router_shape = "2,1,2";
         p.candidates_shape = "1,2,2";
         p.router.resize(16);
         p.candidates = {0, 1, 2, 0};
       },
       "candidate_ids has another shape"},
      {[](FileParts& p) { p.router_shape.clear(); }, "'router_scores' says what they are, but tensor"},
      {[](FileParts& p) {
         swap(p.metadata, "router_scores", "router_score");
         p.router_shape.clear();
         p.candidates_shape = "2,1,2";
         p.candidates = {0, 1, 2, 0};
       },
       "'candidate_ids' says whose scores there are, but tensor 'router_scores' is missing"},
      {[](FileParts& p) { p.domains_shape.clear(); }, "tensor 'request_domains' is missing"},
      {[](FileParts& p) { swap(p.metadata, "chat", "code"); }, "the domain 'code' comes twice"},
      {[](FileParts& p) { p.lookahead[1] = 3; }, "lookahead_ids, token 1, layer 0: "},
      {[](FileParts& p) { p.lookahead_shape = "1,2,1"; }, "lookahead_ids has another shape"},
      {[](FileParts& p) {
         p.domains = {0, 2};
       },
       "request_domains[1] is 2, but there are 2 domains"},
      {[](FileParts& p) {
         p.domains = {0};
         p.domains_shape = "1";
       },
       "request_domains is of 1 requests, but the trace has 2"},
      {[](FileParts& p) { swap(p.metadata, "[\\\"code\\\",\\\"chat\\\"]", "[1]"); },
       "must be a JSON list of at most 65536 names"},
      {[](FileParts& p) { swap(p.metadata, "\"2\"", "\"1\""); },
       "'router_scores' is not one of a routing trace"},
  };
  const ScratchFolder scratch;
  for (const Case& hostile : cases) {
    FileParts parts;
    hostile.spoil(parts);
    const std::string error = error_of([&] { read(scratch, parts); });
    CAPTURE(hostile.message, error);
    CHECK(error.find(hostile.message) != std::string::npos);
  }
}

namespace {

/// A random trace as rows, and as the writer writes it.
struct RandomTrace {
  TraceDescription about;
  struct Row {
    Phase phase;
    std::vector<std::uint16_t> ids, candidates, lookahead;
    std::vector<float> gate, router;
  };
  std::vector<std::vector<Row>> requests;
  std::vector<std::uint16_t> domains;

  explicit RandomTrace(std::mt19937_64& random) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
    about.model = "m";
    about.provenance = "made by a test";
    about.synthetic = below(2) == 0;
    about.top_k = 1 + below(4);
    about.experts = about.top_k + 2 + below(20);
    about.layers = 1 + below(4);
    about.gate_scores = below(2) == 0;
    about.router_scores = static_cast<RouterScores>(below(4));
    if (about.router_scores != RouterScores::none && below(2) == 0)
      about.candidates = about.top_k + below(about.experts - about.top_k);
    about.lookahead = below(2) == 0;
    if (below(2) == 0) about.domains = {"a", "b \"quoted\"", "\u00e9"};
    const auto ids = [&](std::uint32_t width) {
      std::vector<std::uint16_t> all(about.experts), out;
      for (std::uint32_t i = 0; i < about.experts; ++i) all[i] = static_cast<std::uint16_t>(i);
      for (std::uint32_t layer = 0; layer < about.layers; ++layer) {
        std::shuffle(all.begin(), all.end(), random);
        for (std::uint32_t i = 0; i < width; ++i)
          out.push_back(below(9) == 0 && i == 0 && width == 1 ? kNoExpert : all[i]);
      }
      return out;
    };
    const auto scores = [&](std::uint32_t width) {
      std::vector<float> out(std::size_t{about.layers} * width);
      for (float& x : out) x = static_cast<float>(static_cast<int>(below(2001)) - 1000) / 64;
      return out;
    };
    for (std::uint32_t request = 1 + below(4); request > 0; --request) {
      domains.push_back(static_cast<std::uint16_t>(about.domains.empty() ? 0 : below(3)));
      requests.emplace_back();
      int phase = 0;
      for (std::uint32_t token = requests.size() == 1 ? 1 + below(6) : below(7); token > 0; --token) {
        phase = std::min(2, phase + static_cast<int>(below(2)));
        requests.back().push_back(
            {static_cast<Phase>(phase), ids(about.top_k),
             about.candidates > 0 ? ids(about.candidates) : std::vector<std::uint16_t>(),
             about.lookahead ? ids(about.top_k) : std::vector<std::uint16_t>(),
             scores(about.gate_scores ? about.top_k : 0), scores(about.router_width())});
      }
    }
  }

  void write(const std::filesystem::path& path) const {
    RoutingTraceWriter writer(path, about);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      writer.begin_request(domains[r]);
      for (const Row& row : requests[r])
        writer.add_token({row.phase, row.ids, row.gate, row.router, row.candidates, row.lookahead});
    }
    writer.finish();
  }

  RoutingTrace build(bool reserve) const {
    RoutingTraceBuilder builder(about);
    if (reserve) builder.reserve(100);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      builder.begin_request(domains[r]);
      for (const Row& row : requests[r])
        builder.add_token({row.phase, row.ids, row.gate, row.router, row.candidates, row.lookahead});
    }
    return builder.finish();
  }

  void check(const RoutingTrace& trace) const {
    REQUIRE(trace.requests().size() == requests.size());
    REQUIRE(trace.description().router_scores == about.router_scores);
    REQUIRE(trace.description().domains == about.domains);
    std::uint64_t token = 0;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      REQUIRE(trace.requests()[r].begin == token);
      REQUIRE(trace.domain_of(r) == domains[r]);
      for (const Row& row : requests[r]) {
        REQUIRE(trace.phase_of(token) == row.phase);
        for (std::uint32_t layer = 0; layer < about.layers; ++layer) {
          const auto part = [layer](const auto& all, std::uint32_t width) {
            return std::span(all).subspan(layer * width, width);
          };
          REQUIRE(std::ranges::equal(trace.experts_of(token, layer), part(row.ids, about.top_k)));
          REQUIRE(std::ranges::equal(trace.scores_of(token, layer),
                                     part(row.gate, about.gate_scores ? about.top_k : 0)));
          REQUIRE(
              std::ranges::equal(trace.candidates_of(token, layer), part(row.candidates, about.candidates)));
          REQUIRE(std::ranges::equal(trace.lookahead_of(token, layer),
                                     part(row.lookahead, about.lookahead ? about.top_k : 0)));
          if (about.router_width() > 0)
            REQUIRE(
                std::ranges::equal(router_of(trace, token, layer), part(row.router, about.router_width())));
        }
        ++token;
      }
    }
    REQUIRE(trace.tokens() == token);
  }
};

}  // namespace

TEST_CASE("trace builder: what is made of rows is what they say, in memory and from a file") {
  const ScratchFolder scratch;
  std::mt19937_64 random(6);
  for (int i = 0; i < moelab::test::random_runs(500); ++i) {
    const RandomTrace made(random);
    const RoutingTrace trace = made.build(i % 2 == 0);
    made.check(trace);
    trace.release_rows(0, trace.tokens());  // must leave what is in memory alone
    made.check(trace);
    write_routing_trace(trace, scratch / "t");
    made.check(read_routing_trace(scratch / "t"));
  }
}

TEST_CASE("trace writer: what is written streaming reads back, and is written again the same") {
  const ScratchFolder scratch;
  std::mt19937_64 random(3);
  for (int i = 0; i < moelab::test::random_runs(500); ++i) {
    const RandomTrace made(random);
    made.write(scratch / "t");
    const RoutingTrace trace = read_routing_trace(scratch / "t");
    made.check(trace);
    write_routing_trace(trace, scratch / "again");
    made.check(read_routing_trace(scratch / "again"));
  }
  CHECK(scratch.names().size() == 2);  // no temporary files are left
}

TEST_CASE("trace writer: damaged files are refused or hold to the rules") {
  const ScratchFolder scratch;
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < moelab::test::random_runs(1500); ++i) {
    RandomTrace(random).write(scratch / "t");
    std::string bytes = read_bytes(scratch / "t");
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    for (std::uint64_t flips = 1 + random() % 3; flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write_bytes(scratch / "t", bytes);
    const std::string error = error_of([&] {
      const RoutingTrace trace = read_routing_trace(scratch / "t");
      for (std::uint64_t token = 0; token < trace.tokens(); ++token)
        for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
          for (const std::uint16_t id : trace.experts_of(token, layer))
            REQUIRE((id == kNoExpert || id < trace.experts()));
          for (const std::uint16_t id : trace.candidates_of(token, layer))
            REQUIRE((id == kNoExpert || id < trace.experts()));
          if (trace.description().router_width() > 0)
            for (const float score : router_of(trace, token, layer)) REQUIRE(std::isfinite(score));
        }
    });
    refused += error.empty() ? 0 : 1;
  }
  CHECK(refused > moelab::test::random_runs(500));
}

TEST_CASE("trace writer: bad rows are refused, and it goes on as if they had not been") {
  const ScratchFolder scratch;
  TraceDescription about;
  about.layers = 1;
  about.experts = 4;
  about.top_k = 2;
  about.router_scores = RouterScores::softmax;
  const std::vector<std::uint16_t> good{0, 3}, twice{1, 1};
  const std::vector<float> scores{.1F, .2F, .3F, .4F}, bad{0, 0, std::numeric_limits<float>::infinity(), 0};
  {
    RoutingTraceWriter writer(scratch / "t", about);
    writer.begin_request();
    CHECK(error_of([&] {
            writer.add_token({Phase::prefill, twice, {}, scores, {}, {}});
          }).find("token 0, layer 0: expert ids") != std::string::npos);
    CHECK(error_of([&] {
            writer.add_token({Phase::prefill, good, {}, bad, {}, {}});
          }).find("router scores: a score is not finite") != std::string::npos);
    CHECK(error_of([&] { writer.begin_request(1); }).find("is of domain 1") != std::string::npos);
    CHECK(error_of([&] { writer.finish(); }).find("holds no tokens") != std::string::npos);
    writer.add_token({Phase::decode, good, {}, scores, {}, {}});
    CHECK(error_of([&] {
            writer.add_token({Phase::prefill, good, {}, scores, {}, {}});
          }).find("its phase comes before") != std::string::npos);
    CHECK(scratch.names().empty());  // nothing appears before finish()
    writer.finish();
  }
  CHECK(read_routing_trace(scratch / "t").tokens() == 1);
  CHECK(error_of([&] {
          RoutingTraceWriter(scratch / "no" / "t", about);
        }).find("cannot create a temporary file") != std::string::npos);
}

}  // namespace moelab::router_scores_test
