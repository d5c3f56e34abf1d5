#include "traces/routing_trace.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::routing_trace_test {
namespace {

using test::bytes_of;
using test::container;
using test::error_of;
using test::ScratchFolder;
using test::write_bytes;

/// A trace file in parts, so that each can be spoilt. As it stands: 3 tokens in 2 requests (the second has
/// no decode rows), 2 layers, k = 2, 8 experts; token 0 does not run in layer 1.
struct FileParts {
  std::string metadata = R"("format":"moelab-routing","format_version":"1","model":"tiny","experts":"8",)"
                         R"("provenance":"by hand","kind":"recorded")";
  std::vector<std::uint16_t> ids{3, 1, 65535, 65535, 0, 7, 2, 5, 6, 0, 4, 3};
  std::string ids_shape = "3,2,2";
  std::string ids_dtype = "U16";
  std::string scores_dtype = "F32";
  std::string scores_shape = "3,2,2";
  std::string scores = bytes_of(std::vector<float>{.5F, .25F, 0, 0, 1, 0, .75F, .125F, 2, -1, .5F, .5F});
  std::vector<std::uint64_t> offsets{0, 2, 3};
  std::string phases_dtype = "U8";
  std::vector<std::uint8_t> phases{1, 2, 0};
  std::string extra_tensor;   // its name
  std::string without;        // name of a tensor to leave out
  bool phases_first = false;  // puts everything after it at an odd offset

  std::string file() const {
    std::string header = "{\"__metadata__\":{" + metadata + "}";
    std::string data;
    const auto add = [&](const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& bytes) {
      if (name.empty() || name == without) return;
      header += ",\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
                "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + bytes.size()) + "]}";
      data += bytes;
    };
    const auto add_phases = [&] {
      add("phases", phases_dtype, std::to_string(phases.size()), bytes_of(phases));
    };
    if (phases_first) add_phases();
    add("request_offsets", "U64", std::to_string(offsets.size()), bytes_of(offsets));
    add("gate_scores", scores_dtype, scores_shape, scores);
    add("expert_ids", ids_dtype, ids_shape, bytes_of(ids));
    if (!phases_first) add_phases();
    add(extra_tensor, "U8", "1", "x");
    header += "}";
    while (header.size() % 8 != 0) header += ' ';
    return container(header, data);
  }
};

std::vector<std::uint16_t> all_ids(const RoutingTrace& trace) {
  std::vector<std::uint16_t> all;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const auto row = trace.experts_of(token, layer);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

std::vector<float> all_scores(const RoutingTrace& trace) {
  std::vector<float> all;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const auto row = trace.scores_of(token, layer);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

void check_is_parts(const RoutingTrace& trace, const FileParts& parts) {
  CHECK(trace.tokens() == 3);
  CHECK(trace.layers() == 2);
  CHECK(trace.top_k() == 2);
  CHECK(trace.experts() == 8);
  CHECK(trace.model() == "tiny");
  CHECK(trace.provenance() == "by hand");
  CHECK_FALSE(trace.synthetic());
  CHECK(all_ids(trace) == parts.ids);
  REQUIRE(trace.requests().size() == 2);
  const TraceRequest first = trace.requests()[0];
  CHECK((first.begin == 0 && first.decode_begin == 1 && first.end == 2));
  const TraceRequest second = trace.requests()[1];
  CHECK((second.begin == 2 && second.decode_begin == 3 && second.end == 3));
  CHECK(trace.phase_of(0) == Phase::prefill);
  CHECK(trace.phase_of(1) == Phase::decode);
  CHECK(trace.phase_of(2) == Phase::encoder);
}

TEST_CASE("routing trace: a file put together by hand") {
  const ScratchFolder scratch;
  FileParts parts;
  parts.phases_first = GENERATE(false, true);
  write_bytes(scratch / "f", parts.file());
  const RoutingTrace trace = read_routing_trace(scratch / "f");
  check_is_parts(trace, parts);
  CHECK(bytes_of(all_scores(trace)) == parts.scores);
}

TEST_CASE("routing trace: scores are optional, and may be of half precision") {
  const ScratchFolder scratch;
  FileParts parts;
  SECTION("none") {
    parts.without = "gate_scores";
    write_bytes(scratch / "f", parts.file());
    const RoutingTrace trace = read_routing_trace(scratch / "f");
    CHECK_FALSE(trace.has_scores());
    CHECK(trace.scores_of(2, 1).empty());
    check_is_parts(trace, parts);
  }
  SECTION("F16") {  // IEEE 754 binary16: (-1)^s 2^(e-15) (1 + f/1024), and f 2^-24 where e = 0
    parts.scores_dtype = "F16";
    parts.scores = bytes_of(std::vector<std::uint16_t>{0x3c00, 0x3555, 0, 0x8000, 0x0001, 0x03ff, 0x0400,
                                                       0x7bff, 0xc000, 0x3800, 0xfbff, 0x8001});
    write_bytes(scratch / "f", parts.file());
    CHECK(all_scores(read_routing_trace(scratch / "f")) ==
          std::vector<float>{1.0F, 0.333251953125F, 0.0F, -0.0F, 0x1p-24F, 1023 * 0x1p-24F, 0x1p-14F,
                             65504.0F, -2.0F, 0.5F, -65504.0F, -0x1p-24F});
  }
  SECTION("BF16") {  // the upper half of a single
    parts.scores_dtype = "BF16";
    parts.phases_first = GENERATE(false, true);
    parts.scores = bytes_of(std::vector<std::uint16_t>{0x3f80, 0x4049, 0, 0x8000, 1, 0x0080, 0x7f7f, 0xc000,
                                                       0x3f00, 0x3e80, 0, 0});
    write_bytes(scratch / "f", parts.file());
    CHECK(all_scores(read_routing_trace(scratch / "f")) ==
          std::vector<float>{1.0F, 3.140625F, 0.0F, -0.0F, 0x1p-133F, 0x1p-126F, 0x1.fep127F, -2.0F, 0.5F,
                             0.25F, 0.0F, 0.0F});
  }
}

TEST_CASE("routing trace: hostile files are refused with the place and the reason") {
  struct Case {
    void (*spoil)(FileParts&);
    const char* message;
  };
  const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  static const auto swap_text = replace;
  const Case cases[] = {
      {[](FileParts& p) { swap_text(p.metadata, "\"format\":\"moelab-routing\",", ""); },
       "'format' is missing"},
      {[](FileParts& p) { swap_text(p.metadata, "moelab-routing", "pt"); }, "'format' is 'pt', but"},
      {[](FileParts& p) { swap_text(p.metadata, "\"1\"", "\"3\""); },
       "'format_version' is '3', but this program reads '1' and '2'"},
      {[](FileParts& p) { swap_text(p.metadata, "\"experts\":\"8\",", ""); }, "'experts' is missing"},
      {[](FileParts& p) { swap_text(p.metadata, "\"8\"", "\"8x\""); }, "'experts' is '8x'"},
      {[](FileParts& p) { swap_text(p.metadata, "\"8\"", "\"-8\""); }, "'experts' is '-8'"},
      {[](FileParts& p) { swap_text(p.metadata, "\"8\"", "\"0\""); }, "'experts' is '0'"},
      {[](FileParts& p) { swap_text(p.metadata, "\"8\"", "\"65536\""); }, "'experts' is '65536'"},
      {[](FileParts& p) { swap_text(p.metadata, "\"8\"", "\"\""); }, "'experts' is ''"},
      {[](FileParts& p) { swap_text(p.metadata, "\"recorded\"", "\"real\""); }, "'kind' is 'real'"},
      {[](FileParts& p) { swap_text(p.metadata, ",\"kind\":\"recorded\"", ""); }, "'kind' is missing"},
      {[](FileParts& p) { swap_text(p.metadata, "\"model\":\"tiny\",", ""); }, "'model' is missing"},
      {[](FileParts& p) { swap_text(p.metadata, "\"provenance\":\"by hand\",", ""); },
       "'provenance' is missing"},
      {[](FileParts& p) { p.without = "expert_ids"; }, "tensor 'expert_ids' is missing"},
      {[](FileParts& p) { p.without = "phases"; }, "tensor 'phases' is missing"},
      {[](FileParts& p) { p.without = "request_offsets"; }, "tensor 'request_offsets' is missing"},
      {[](FileParts& p) { p.extra_tensor = "gate_score"; },
       "tensor 'gate_score' is not one of a routing trace"},
      {[](FileParts& p) { p.ids_dtype = "I16"; }, "'expert_ids' is I16, but must be U16"},
      {[](FileParts& p) { p.ids_shape = "6,2"; }, "'expert_ids' has 2 dimensions, but must have 3"},
      {[](FileParts& p) { p.ids_shape = "1,12,1"; }, "phases has 3 tokens, but expert_ids has 1"},
      {[](FileParts& p) {
         p.ids_shape = "0,2,2";
         p.ids.clear();
       },
       "expert_ids holds no tokens"},
      {[](FileParts& p) {
         p.ids_shape = "3,0,2";
         p.ids.clear();
       },
       "expert_ids has 0 layers"},
      // no bytes, and so many tokens that a loop over them would not end
      {[](FileParts& p) {
         p.ids_shape = "9007199254740992,2,0";
         p.ids.clear();
       },
       "expert_ids has 0 ids a row"},
      {[](FileParts& p) { p.ids_shape = "1,1,12"; }, "expert_ids has 12 ids a row, but must have 1 to 8"},
      {[](FileParts& p) { p.ids[5] = 8; }, "expert_ids, token 1, layer 0: expert id 8 is out of range"},
      {[](FileParts& p) { p.ids[7] = 2; }, "expert_ids, token 1, layer 1: expert id 2 comes twice"},
      {[](FileParts& p) { p.ids[11] = 65535; }, "expert_ids, token 2, layer 1: some of the 2 ids are 65535"},
      {[](FileParts& p) { p.ids[2] = 1; }, "expert_ids, token 0, layer 1: some of the 2 ids are 65535"},
      {[](FileParts& p) { p.scores_dtype = "I32"; }, "'gate_scores' is I32, but must be F32 or BF16 or F16"},
      {[](FileParts& p) { p.scores_shape = "2,3,2"; }, "gate_scores has another shape"},
      {[](FileParts& p) { p.scores.replace(28, 4, bytes_of(std::vector<float>{NAN})); },
       "gate_scores, token 1, layer 1: the score is not a finite number"},
      {[](FileParts& p) { p.scores.replace(44, 4, bytes_of(std::vector<float>{-INFINITY})); },
       "gate_scores, token 2, layer 1: the score is not a finite number"},
      {[](FileParts& p) {
         p.scores_dtype = "F16";
         p.scores = std::string(24, '\x7c');
       },
       "is not a finite number"},
      {[](FileParts& p) { p.phases_dtype = "I8"; }, "'phases' is I8, but must be U8"},
      {[](FileParts& p) { p.phases[2] = 3; }, "phases, token 2: 3 is not a phase"},
      {[](FileParts& p) {
         p.phases = {2, 1, 1};
       },
       "phases, token 1: 1 follows 2 in request 0"},
      {[](FileParts& p) {
         p.phases = {1, 2};
       },
       "phases has 2 tokens, but expert_ids has 3"},
      {[](FileParts& p) {
         p.offsets = {1, 2, 3};
       },
       "request_offsets starts with 1, not 0"},
      {[](FileParts& p) {
         p.offsets = {0, 2, 2};
       },
       "request_offsets ends with 2, not with the number of tokens, 3"},
      {[](FileParts& p) {
         p.offsets = {0, 2, 1, 3};
       },
       "request_offsets[2] is 1, but must be between"},
      {[](FileParts& p) {
         p.offsets = {0, ~std::uint64_t{0}, 3};
       },
       "request_offsets[1] is 18446744073709551615"},
      {[](FileParts& p) { p.offsets = {0}; }, "must hold at least two offsets"},
  };
  const ScratchFolder scratch;
  const std::string path = (scratch / "hostile").string();
  for (const Case& hostile : cases) {
    FileParts parts;
    hostile.spoil(parts);
    write_bytes(path, parts.file());
    const std::string error = error_of([&] { read_routing_trace(path); });
    CAPTURE(hostile.message, error);
    CHECK(error.find(path + ": ") == 0);
    CHECK(error.find(hostile.message) != std::string::npos);
  }
}

TEST_CASE("routing trace: a table in its place is sent to trace import") {
  const test::ScratchFolder folder;
  for (const std::string form : {"csv", "jsonl", "npy", "npz"}) {
    const std::string file = (folder / ("t." + form)).string();
    std::ofstream(file) << "token,layer,expert\n0,0,1\n0,1,2\n";
    CHECK_THROWS_WITH(read_routing_trace(file), Catch::Matchers::Contains("moelab trace import " + form));
  }
  CHECK_THROWS_WITH(read_routing_trace((folder / "absent.csv").string()),
                    !Catch::Matchers::Contains("trace import"));
}

TEST_CASE("routing trace: the byte in a message is the byte of the file") {
  const ScratchFolder scratch;
  FileParts parts;
  parts.ids[4] = 77;
  const std::string bytes = parts.file();
  write_bytes(scratch / "f", bytes);
  // 77 = 0x4d, then 7: the row that starts with the bad id is the only place with these four bytes.
  const std::size_t place = bytes.find(std::string("\x4d\0\x07\0", 4));
  CHECK(error_of([&] { read_routing_trace(scratch / "f"); }).find("byte " + std::to_string(place) + ": ") !=
        std::string::npos);
}

/// The rules of a row, told again: all places 65535, or distinct ids below `experts`.
bool row_is_good(std::span<const std::uint16_t> row, std::uint32_t experts) {
  const std::set<std::uint16_t> ids(row.begin(), row.end());
  if (ids == std::set<std::uint16_t>{kNoExpert}) return true;
  return ids.size() == row.size() && *ids.rbegin() < experts;
}

/// `idle` of 8 rows do not run.
std::vector<std::uint16_t> random_rows(std::mt19937_64& random, std::uint32_t layers, std::uint32_t experts,
                                       std::uint32_t top_k, std::uint64_t idle) {
  std::vector<std::uint16_t> pool(experts);
  for (std::uint32_t i = 0; i < experts; ++i) pool[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> rows;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const bool runs = random() % 8 >= idle;
    for (std::uint32_t i = 0; i < top_k; ++i) {
      std::swap(pool[i], pool[i + random() % (experts - i)]);
      rows.push_back(runs ? pool[i] : kNoExpert);
    }
  }
  return rows;
}

TEST_CASE("routing trace: the fast check of rows finds what the plain one finds") {
  std::mt19937_64 random(11);
  int refused = 0;
  for (int round = 0; round < moelab::test::random_runs(4000); ++round) {
    const auto top_k = static_cast<std::uint32_t>(1 + random() % 20);
    const auto experts = static_cast<std::uint32_t>(random() % 10 == 0 ? 65535 : top_k + random() % 100);
    const auto layers = static_cast<std::uint32_t>(1 + random() % (3000 / top_k));  // up to three blocks
    std::vector<std::uint16_t> rows = random_rows(random, layers, experts, top_k, random() % 2);
    for (std::uint64_t spoil = random() % 3; spoil > 0; --spoil) {
      const std::uint16_t values[] = {kNoExpert, static_cast<std::uint16_t>(experts),
                                      rows[random() % rows.size()],
                                      static_cast<std::uint16_t>(random() % experts)};
      rows[random() % rows.size()] = values[random() % 4];
    }
    std::uint32_t bad = 0;
    while (bad < layers && row_is_good(std::span(rows).subspan(bad * top_k, top_k), experts)) ++bad;

    RoutingTraceBuilder builder("m", "p", false, layers, experts, top_k, false);
    builder.begin_request();
    const std::string error = error_of([&] { builder.add_token(Phase::decode, rows, {}); });
    CAPTURE(round, top_k, experts, layers, bad, error);
    if (bad == layers) {
      REQUIRE(error.empty());
    } else {
      REQUIRE(error.find("token 0, layer " + std::to_string(bad) + ": ") != std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > moelab::test::random_runs(500));  // both outcomes were met
  CHECK(refused < moelab::test::random_runs(3500));
}

RoutingTrace random_trace(std::mt19937_64& random) {
  const auto top_k = static_cast<std::uint32_t>(1 + random() % 8);
  const auto experts = static_cast<std::uint32_t>(top_k + random() % 60);
  const auto layers = static_cast<std::uint32_t>(1 + random() % 9);
  const bool with_scores = random() % 2 == 0;
  RoutingTraceBuilder builder("mod\u00e9l", "test", random() % 2 == 0, layers, experts, top_k, with_scores);
  for (std::uint64_t request = 1 + random() % 4; request > 0; --request) {
    builder.begin_request();
    int phase = 0;
    for (std::uint64_t token = request == 1 ? 1 : random() % 5; token > 0; --token) {
      phase = std::min(2, phase + static_cast<int>(random() % 3));
      std::vector<float> scores(with_scores ? layers * top_k : 0);
      for (float& score : scores) score = static_cast<float>(random() % 1000) / 1000;
      builder.add_token(static_cast<Phase>(phase), random_rows(random, layers, experts, top_k, 1), scores);
    }
  }
  return builder.finish();
}

/// What every trace promises, told again.
bool invariants_hold(const RoutingTrace& trace) {
  std::uint64_t next = 0;
  for (const TraceRequest& request : trace.requests()) {
    if (request.begin != next || request.decode_begin < request.begin || request.end < request.decode_begin)
      return false;
    for (std::uint64_t token = request.begin; token < request.end; ++token) {
      if ((trace.phase_of(token) == Phase::decode) != (token >= request.decode_begin)) return false;
      if (token > request.begin && trace.phase_of(token) < trace.phase_of(token - 1)) return false;
    }
    next = request.end;
  }
  if (next != trace.tokens() || next == 0 || trace.experts() > 65535) return false;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      if (trace.experts_of(token, layer).size() != trace.top_k()) return false;
      if (!row_is_good(trace.experts_of(token, layer), trace.experts())) return false;
      const auto scores = trace.scores_of(token, layer);
      if (scores.size() != (trace.has_scores() ? trace.top_k() : 0)) return false;
      if (!std::all_of(scores.begin(), scores.end(), [](float s) { return std::isfinite(s); })) return false;
    }
  }
  return true;
}

bool same(const RoutingTrace& a, const RoutingTrace& b) {
  const auto same_request = [](const TraceRequest& x, const TraceRequest& y) {
    return x.begin == y.begin && x.decode_begin == y.decode_begin && x.end == y.end;
  };
  for (std::uint64_t token = 0; token < std::min(a.tokens(), b.tokens()); ++token) {
    if (a.phase_of(token) != b.phase_of(token)) return false;
  }
  return a.tokens() == b.tokens() && a.layers() == b.layers() && a.experts() == b.experts() &&
         a.top_k() == b.top_k() && a.has_scores() == b.has_scores() && a.model() == b.model() &&
         a.provenance() == b.provenance() && a.synthetic() == b.synthetic() && all_ids(a) == all_ids(b) &&
         all_scores(a) == all_scores(b) &&
         std::equal(a.requests().begin(), a.requests().end(), b.requests().begin(), b.requests().end(),
                    same_request);
}

TEST_CASE("routing trace: what is written is read back, also onto its own file") {
  const ScratchFolder scratch;
  std::mt19937_64 random(3);
  for (int round = 0; round < moelab::test::random_runs(300); ++round) {
    const RoutingTrace trace = random_trace(random);
    REQUIRE(invariants_hold(trace));
    write_routing_trace(trace, scratch / "f");
    const RoutingTrace read = read_routing_trace(scratch / "f");
    REQUIRE(same(trace, read));
    const std::string bytes = test::read_bytes(scratch / "f");
    write_routing_trace(read, scratch / "f");
    REQUIRE(test::read_bytes(scratch / "f") == bytes);
    REQUIRE(same(trace, read));
  }
}

TEST_CASE("routing trace: a mapped trace outlives its file's name") {
  const ScratchFolder scratch;
  const FileParts parts;
  write_bytes(scratch / "f", parts.file());
  const RoutingTrace trace = read_routing_trace(scratch / "f");
  std::filesystem::remove(scratch / "f");
  const RoutingTrace copy = trace;
  check_is_parts(copy, parts);
}

TEST_CASE("routing trace: the builder refuses what the reader would, and stays as it was") {
  const auto error = [](std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k) {
    return error_of([&] { RoutingTraceBuilder("m", "p", false, layers, experts, top_k, false); });
  };
  CHECK(error(0, 8, 2) == "routing trace of m: layers is 0, but must be at least 1");
  CHECK(error(1, 0, 1).find("experts is 0") != std::string::npos);
  CHECK(error(1, 65536, 1).find("experts is 65536") != std::string::npos);
  CHECK(error(1, 8, 0).find("top_k is 0") != std::string::npos);
  CHECK(error(1, 8, 9).find("top_k is 9") != std::string::npos);

  RoutingTraceBuilder builder("m", "p", false, 1, 8, 2, true);
  CHECK(error_of([&] { builder.finish(); }).find("holds no tokens") != std::string::npos);
  const std::vector<std::uint16_t> good{7, 0};
  const std::vector<float> scores{.75F, .25F};
  builder.begin_request();
  builder.add_token(Phase::decode, good, scores);
  CHECK(error_of([&] { builder.add_token(Phase::prefill, good, scores); }).find("token 1: its phase") !=
        std::string::npos);
  CHECK(error_of([&] {
          builder.add_token(Phase::decode, std::vector<std::uint16_t>{7, 7}, scores);
        }).find("token 1, layer 0: expert ids: expert id 7 comes twice") != std::string::npos);
  CHECK(error_of([&] {
          builder.add_token(Phase::decode, good, std::vector<float>{1, INFINITY});
        }).find("token 1, layer 0: gate scores: a score is not finite") != std::string::npos);
  builder.begin_request();
  builder.add_token(Phase::prefill, good, scores);  // the order of phases is each request's own
  const RoutingTrace trace = builder.finish();
  CHECK(trace.tokens() == 2);
  CHECK(all_ids(trace) == std::vector<std::uint16_t>{7, 0, 7, 0});
  CHECK(trace.requests().size() == 2);
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  for (std::uint64_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
    const std::size_t at = random() % bytes.size();
    const char digits[] = "0123456789-.,:[]{}\"e ";
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes[at] = digits[random() % (sizeof digits - 1)];
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      default:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
    }
  }
  return bytes;
}

TEST_CASE("routing trace: mutated files open as sound traces or are refused") {
  const ScratchFolder scratch;
  std::mt19937_64 random(5);
  FileParts odd;
  odd.phases_first = true;
  const std::string originals[] = {FileParts{}.file(), odd.file()};
  int opened = 0;
  int refused = 0;
  for (int round = 0; round < moelab::test::random_runs(20000); ++round) {
    write_bytes(scratch / "f", mutated(originals[round % 2], random));
    try {
      const RoutingTrace trace = read_routing_trace(scratch / "f");
      if (!invariants_hold(trace)) FAIL("an unsound trace was opened in round " << round);
      ++opened;
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(opened > moelab::test::random_runs(200));  // the mutations reach past the header
  CHECK(refused > moelab::test::random_runs(10000));
}

}  // namespace
}  // namespace moelab::routing_trace_test
