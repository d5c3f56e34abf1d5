// Counts, request logs, NumPy's types, gzip, and the export to cache simulators.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <ctime>
#include <map>

#include "tests/random_runs.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/gzip_text.hpp"
#include "traces/import/array_import.hpp"
#include "traces/import/cache_trace_export.hpp"
#include "traces/import/counts_import.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/request_import.hpp"
#include "traces/request_cut.hpp"
#include "traces/request_parts.hpp"

namespace moelab::import_tables_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

RoutingTrace trace_of(const Table& t) {
  RoutingTraceBuilder builder("m", "", true, t.layers, t.experts, t.top_k, false);
  std::uint64_t token = 0;
  for (const std::uint64_t tokens : t.requests) {
    builder.begin_request();
    for (std::uint64_t i = 0; i < tokens; ++i, ++token) {
      const std::size_t width = std::size_t{t.layers} * t.top_k;
      builder.add_token(t.phases[token], std::span(t.ids).subspan(token * width, width), {});
    }
  }
  return builder.finish();
}

struct Access {
  std::uint32_t time;
  std::uint64_t object;
  std::int64_t next;
};

// Straight from the definition: all accesses, then for each a search for the next one.
std::vector<Access> naive_accesses(const Table& t, std::optional<std::uint32_t> only) {
  std::vector<Access> all;
  for (std::uint64_t token = 0; token < t.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < t.layers; ++layer) {
      if (only && layer != *only) continue;
      std::vector<std::uint16_t> ids(
          t.ids.begin() + static_cast<std::ptrdiff_t>((token * t.layers + layer) * t.top_k),
          t.ids.begin() + static_cast<std::ptrdiff_t>((token * t.layers + layer + 1) * t.top_k));
      std::sort(ids.begin(), ids.end());
      for (const std::uint16_t id : ids) {
        if (id != kNoExpert)
          all.push_back({static_cast<std::uint32_t>(token), std::uint64_t{layer} * t.experts + id, -1});
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size() && all[i].next < 0; ++j) {
      if (all[j].object == all[i].object) all[i].next = static_cast<std::int64_t>(j + 1);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("the exported accesses are those of a naive search, in both formats") {
  const ScratchFolder folder;
  Random random(5);
  for (int i = 0; i < moelab::test::random_runs(300); ++i) {
    const Table t = random_table(random);
    const std::optional<std::uint32_t> layer =
        random.below(2) == 0 ? std::nullopt
                             : std::optional(static_cast<std::uint32_t>(random.below(t.layers)));
    const std::vector<Access> due = naive_accesses(t, layer);
    std::string binary, csv = "time,object,size,next_access\n";
    for (const Access& a : due) {
      binary += bytes_of(std::vector{a.time}) + bytes_of(std::vector{a.object}) +
                bytes_of(std::vector<std::uint32_t>{1}) + bytes_of(std::vector{a.next});
      csv += std::to_string(a.time) + "," + std::to_string(a.object) + ",1," + std::to_string(a.next) + "\n";
    }
    if (due.empty()) continue;
    const RoutingTrace trace = trace_of(t);
    CHECK(export_cache_trace(trace, CacheTraceKind::oracle_general, layer, folder / "o") == due.size());
    REQUIRE(read_bytes(folder / "o") == binary);
    export_cache_trace(trace, CacheTraceKind::csv, layer, folder / "c");
    REQUIRE(read_bytes(folder / "c") == csv);
  }
}

TEST_CASE("next accesses reach across the blocks that are exported one by one", "[long]") {
  // 2^20 accesses a block: a trace of three blocks, expert 0 in the first and last token only.
  constexpr std::uint32_t kTokens = 2'200'000;
  RoutingTraceBuilder builder("m", "", true, 1, 3, 1, false);
  builder.begin_request();
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    const std::uint16_t id = i == 0 || i + 1 == kTokens ? 0 : static_cast<std::uint16_t>(1 + i % 2);
    builder.add_token(Phase::decode, std::span(&id, 1), {});
  }
  const ScratchFolder folder;
  export_cache_trace(builder.finish(), CacheTraceKind::oracle_general, std::nullopt, folder / "o");
  const std::string bytes = read_bytes(folder / "o");
  REQUIRE(bytes.size() == std::size_t{kTokens} * 24);
  const auto next = [&](std::size_t i) {
    std::int64_t value = 0;
    std::memcpy(&value, bytes.data() + i * 24 + 16, 8);
    return value;
  };
  CHECK(next(0) == kTokens);
  CHECK(next(kTokens - 1) == -1);
  bool all = true;
  for (std::size_t i = 1; i + 3 < kTokens; ++i) all = all && next(i) == static_cast<std::int64_t>(i + 3);
  CHECK(all);
}

TEST_CASE("every type of NumPy's numbers is read as what it stands for") {
  const ScratchFolder folder;
  const auto numbers = [&](const std::string& descr, const std::string& data, std::uint64_t count) {
    write_bytes(folder / "a.npy", npy(descr, {count}, data));
    NpyArray array(InputStream(folder / "a.npy"));
    std::vector<float> values(count);
    array.read(values, "values");
    array.expect_end();
    return values;
  };
  CHECK(numbers("|i1", bytes_of<std::int8_t>({-128, 127}), 2) == std::vector<float>{-128, 127});
  CHECK(numbers("<i8", bytes_of<std::int64_t>({-5}), 1) == std::vector<float>{-5});
  CHECK(numbers("<u2", bytes_of<std::uint16_t>({65535}), 1) == std::vector<float>{65535});
  CHECK(numbers("<f8", bytes_of<double>({0.25}), 1) == std::vector<float>{0.25});
  // IEEE 754 binary16: 1.5, -2, the smallest subnormal 2^-24, the largest 65504.
  CHECK(numbers("<f2", bytes_of<std::uint16_t>({0x3e00, 0xc000, 0x0001, 0x7bff}), 4) ==
        std::vector<float>{1.5F, -2, 0x1p-24F, 65504});
  CHECK(numbers("<V2", bytes_of<std::uint16_t>({0x3fc0, 0xc000}), 2) == std::vector<float>{1.5F, -2});
}

TEST_CASE("arrays that are not what they should be are refused") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& bytes) {
    write_bytes(folder / "a.npy", bytes);
    ImportTarget target;
    target.out = folder / "out";
    target.experts = 4;
    return error_of([&] { import_arrays(ArrayKind::npy, folder / "a.npy", {}, target, {}); });
  };
  const std::string ids = bytes_of<std::uint8_t>({1, 2, 0, 3});
  CHECK(error(npy("|u1", {1, 2, 2}, ids)).empty());
  CHECK_THAT(error(npy("|u1", {1, 2, 2}, ids.substr(1))),
             Contains("ends at byte 131") && Contains("1 more bytes expected"));
  CHECK_THAT(error(npy("|u1", {1, 2, 2}, ids + "x")), Contains("more data than its shape [1, 2, 2]"));
  CHECK_THAT(error(npy("|u1", {2, 2}, ids)), Contains("expected [tokens, layers, k]"));
  CHECK_THAT(error(npy("<f4", {1, 1, 1}, bytes_of<float>({1}))),
             Contains("have the type f4; expected integers"));
  CHECK_THAT(error(npy(">i4", {1, 1, 1}, ids)), Contains("'>i4'"));
  CHECK_THAT(error(npy("|u1", {1, 2, 2}, bytes_of<std::uint8_t>({1, 2, 0, 4}))),
             Contains("request 0, token 0, layer 1: expert 4 is out of range"));
  CHECK_THAT(error("text"), Contains("within the start of a NumPy array"));
}

TEST_CASE("what an array's shape asks for is refused before memory is taken for it") {
  const ScratchFolder folder;
  // Rows of 2^24 ids, of which there are 4 bytes after a header of 128: 2^24 - 4 are missing.
  const std::string ids = npy("|u1", {1, 1U << 23, 2}, "abcd");
  write_bytes(folder / "plain", ids);
  write_gzip(folder / "packed", ids);
  const auto error = [&](const std::string& file) {
    ImportTarget target;
    target.out = folder / "out";
    target.experts = 4;
    return error_of([&] { import_arrays(ArrayKind::npy, folder / file, {}, target, {}); });
  };
  CHECK_THAT(error("plain"), Contains("ends at byte 132, within expert ids: 16777212 more bytes expected"));
  CHECK_THAT(
      error("packed"),
      Contains("16777216 bytes of expert ids from byte 128 are more than its packed data can stand for"));
}

TEST_CASE("a gzip file that is cut or damaged is an error") {
  const ScratchFolder folder;
  std::string rows = "arrival_s,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 5000; ++i)
    rows += std::to_string(i) + "," + std::to_string(i * 7919 % 1000 + 1) + ",1\n";
  write_gzip(folder / "r.gz", rows);
  const std::string bytes = read_bytes(folder / "r.gz");
  const auto requests = read_request_log(folder / "r.gz");
  REQUIRE(requests.size() == 5000);
  Random random(6);
  for (int i = 0; i < moelab::test::random_runs(300); ++i) {
    write_bytes(folder / "m.gz", bytes.substr(0, 2) + mutated(bytes.substr(2), random));
    std::vector<RequestRecord> read;
    if (error_of([&] { read = read_request_log(folder / "m.gz"); }).empty()) REQUIRE(read == requests);
  }
  write_bytes(folder / "two.gz", bytes + bytes);  // members one after the other are one file
  CHECK_THAT(error_of([&] { read_request_log(folder / "two.gz"); }),
             Contains(":5002:1: expected seconds, found 'arrival_s'"));
}

TEST_CASE("packed text is what gzip's own reader finds in it, and has no time or name in its header") {
  const ScratchFolder folder;
  Random random(27);
  for (const std::size_t size : {0, 1, 100, 65'535, 65'536, 300'000}) {
    std::string text(size, 'a');
    for (char& c : text) c = static_cast<char>(random.below(256));  // packed, it fills several buffers
    const std::string packed = gzipped(text);
    write_bytes(folder / "t.gz", packed);
    gzFile file = gzopen((folder / "t.gz").c_str(), "rb");
    std::string found(size + 1, ' ');
    const int read = gzread(file, found.data(), static_cast<unsigned>(found.size()));
    REQUIRE(gzclose(file) == Z_OK);
    REQUIRE(read == static_cast<int>(size));
    found.resize(size);
    CHECK((found == text));
    // RFC 1952, 2.3: two bytes that identify it, deflate, no flags, a time of 0.
    CHECK(packed.substr(0, 8) == std::string("\x1f\x8b\x08\0\0\0\0\0", 8));
    CHECK((packed_by_name("out/t.json.gz", text) == packed));
    CHECK((packed_by_name("out/t.gz.json", text) == text));
  }
}

TEST_CASE("CSV fields are those of RFC 4180") {
  const ScratchFolder folder;
  write_bytes(folder / "c.csv",
              "\xef\xbb\xbf"
              "a,\"b \"\"c\"\"\",d\r\n1,\"x, \"\"y\"\"\nz\",\"\"\r\n\n,,3");
  CsvReader csv(folder / "c.csv");
  CHECK(csv.header() == std::vector<std::string>{"a", "b \"c\"", "d"});
  REQUIRE(csv.next());
  CHECK(csv.field(0) == "1");
  CHECK(csv.field(1) == "x, \"y\"\nz");
  CHECK(csv.field(2).empty());
  REQUIRE(csv.next());
  CHECK(csv.field(1).empty());
  CHECK(csv.field(2) == "3");
  CHECK_THAT(error_of([&] { csv.fail(2, "x"); }), Contains("c.csv:5:3: x"));
  CHECK_FALSE(csv.next());
}

TEST_CASE("a header of very many columns is read in time that grows with them, not with their square") {
  const ScratchFolder folder;
  std::string header;
  for (int i = 0; i < 300'000; ++i) header += std::to_string(i) + ",";
  write_bytes(folder / "c.csv", header + "7\n");
  const std::clock_t begin = std::clock();
  CHECK_THAT(error_of([&] { CsvReader csv(folder / "c.csv"); }), Contains("a second column named '7'"));
  // 4.5e10 comparisons would take more than 20 s on any machine.
  CHECK((std::clock() - begin) / CLOCKS_PER_SEC < 10);
}

TEST_CASE("request logs of every kind") {
  const ScratchFolder folder;
  const auto import = [&](RequestLogKind kind, const std::string& text, bool skip = false) {
    write_bytes(folder / "in", text);
    RequestImport how;
    how.kind = kind;
    how.skip_failed = skip;
    return import_requests(folder / "in", how, {});
  };
  using Records = std::vector<RequestRecord>;
  CHECK(import(RequestLogKind::mooncake,
               "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 2, \"hash_ids\": [1, 2]}\n"
               "{\"timestamp\": 1500, \"input_length\": 6, \"output_length\": 3, \"hash_ids\": []}\n")
            .requests == Records{{0, 5, 2}, {1.5, 6, 3}});
  // Blocks of 512 tokens: the third request has the first's two, the fourth also the third's last one, which
  // is 76 tokens long; the fifth begins otherwise, and what comes then is something else.
  CHECK(
      import(RequestLogKind::mooncake,
             "{\"timestamp\": 0, \"input_length\": 1500, \"output_length\": 2, \"hash_ids\": [5, 6, 7]}\n"
             "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [8, 9]}\n"
             "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 3, \"hash_ids\": [5, 6, 10]}\n"
             "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 3, \"hash_ids\": [5, 6, 10]}\n"
             "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 3, \"hash_ids\": [8, 6, 7]}\n")
          .requests ==
      Records{{0, 1500, 2}, {0, 600, 2}, {0, 1100, 3, 1024, 0}, {0, 1100, 3, 1100, 2}, {0, 1100, 3, 512, 1}});
  CHECK_THAT(error_of([&] {
               import(RequestLogKind::mooncake,
                      "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 2, \"hash_ids\": [1.5]}\n");
             }),
             Contains(":1: has 'hash_ids' that are no list of whole numbers"));
  // Across the end of February of a leap year: 2 s + 0.5 s.
  CHECK(import(RequestLogKind::azure,
               "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 23:59:59.0000000,4,10\n"
               "2024-03-01T00:00:01.5+00:00,5,11\n")
            .requests == Records{{0, 4, 10}, {2.5, 5, 11}});
  const std::string burst =
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,7,8,15,chat\n"
      "6,GPT-4,7,0,7,chat\n";
  CHECK_THAT(error_of([&] { import(RequestLogKind::burstgpt, burst); }),
             Contains(":3:11: has no output tokens") && Contains("--skip-failed"));
  const ImportedRequests kept = import(RequestLogKind::burstgpt, burst, true);
  CHECK(kept.requests == Records{{5, 7, 8}});
  CHECK(kept.skipped == 1);
  CHECK_THAT(error_of([&] {
               import(RequestLogKind::azure,
                      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-29 00:00:00,4,10\n");
             }),
             Contains(":2:1: expected a date and time"));
  // 9998 years are more nanoseconds than 64 bits hold.
  CHECK_THAT(error_of([&] {
               import(RequestLogKind::azure,
                      "TIMESTAMP,ContextTokens,GeneratedTokens\n0001-01-01 00:00:00,4,10\n"
                      "9999-01-01 00:00:00,5,11\n");
             }),
             Contains(":3:1: centuries from the first request"));
  CHECK_THAT(error_of([&] { import(RequestLogKind::mooncake, "{\"timestamp\": 0, \"input_length\": 5}\n"); }),
             Contains(":1: has no number 'output_length'"));
  CHECK_THAT(error_of([&] {
               import(RequestLogKind::burstgpt, "Timestamp,Request tokens,Response tokens\n2,1,1\n1,1,1\n");
             }),
             Contains(":3:1: arrives before"));
}

TEST_CASE("request logs of serving benchmarks") {
  const ScratchFolder folder;
  const auto import = [&](const std::string& text, bool skip_failed = false) {
    write_bytes(folder / "in", text);
    RequestImport how;
    how.kind = RequestLogKind::benchmark;
    how.skip_failed = skip_failed;
    return import_requests(folder / "in", how, {});
  };
  using Records = std::vector<RequestRecord>;
  // As vllm bench serve writes it: tasks end up in another order than they were sent in.
  const std::string vllm =
      "{\"duration\": 3.5,\n \"input_lens\": [5, 7, 9], \"output_lens\": [2, 3, 0], \"start_times\": [101.5, "
      "100.25, 104.0], \"ttfts\": [0.1, 0.2, 0], \"itls\": [[0.1], [0.1, 0.2], []], \"generated_texts\": "
      "[\"a [{\", \"b\", \"\"]}\n";
  CHECK(import(vllm, true).requests == Records{{0, 7, 3}, {1.25, 5, 2}});
  CHECK(import(vllm, true).skipped == 1);
  CHECK_THAT(error_of([&] { import(vllm); }), Contains("--skip-failed leaves such requests out"));
  CHECK(import("{\"input_lens\": [5, 7], \"output_lens\": [2, 3]}").requests ==
        Records{{0, 5, 2}, {0, 7, 3}});
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"{\"mean_ttft_ms\": 3}", "has no list of numbers 'input_lens'; a benchmark writes it where"},
      {"{\"input_lens\": [5], \"output_lens\": [2, 3]}", "'output_lens' has 2 numbers, 'input_lens' 1"},
      {"{\"input_lens\": [5.5], \"output_lens\": [2]}", "not a whole number of tokens"},
      {"{\"input_lens\": [-5], \"output_lens\": [2]}", "not a whole number of tokens"},
      {"{\"input_lens\": [], \"output_lens\": []}", "has no requests"},
      {"{\"input_lens\": \"5\", \"output_lens\": [2]}", "has no list of numbers"},
      {"{\"input_lens\": [[5]], \"output_lens\": [2]}", "has no list of numbers"},
      {"{\"input_lens\": [5], \"output_lens\": [2], \"start_times\": []}", "'start_times' has 0"},
      {"{\"input_lens\": [5", ""},
      {"", ""}};
  for (const auto& [text, expected] : bad) {
    INFO(text);
    CHECK_THAT(error_of([&, text = text] { import(text); }), Contains(expected) && Contains("in"));
  }
}

TEST_CASE("a part of a request log is cut out, and its lengths shuffled") {
  const std::vector<RequestRecord> log = {{0, 1, 10}, {2, 2, 20}, {2, 3, 30}, {5, 4, 40}, {9, 5, 50}};
  using Records = std::vector<RequestRecord>;
  CHECK(cut_requests(log, {}) == log);
  CHECK(cut_requests(log, {.from_s = 2, .until_s = 9}) == Records{{0, 2, 20}, {0, 3, 30}, {3, 4, 40}});
  CHECK(cut_requests(log, {.from_s = 1, .count = 2}) == Records{{1, 2, 20}, {1, 3, 30}});
  CHECK(cut_requests(log, {.skip = 3}) == Records{{0, 4, 40}, {4, 5, 50}});
  CHECK(cut_requests(log, {.skip = 9}).empty());
  CHECK(cut_requests(log, {.from_s = 10}).empty());
  // A permutation of the pairs, and each arrival gets each pair equally often: 4.5 deviations of a binomial.
  constexpr std::size_t count = random_runs(2000u);
  std::map<std::pair<double, std::uint32_t>, double> seen;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    std::vector<RequestRecord> shuffled = cut_requests(log, {.shuffle_seed = seed});
    std::vector<std::uint32_t> prompts;
    for (std::size_t i = 0; i < log.size(); ++i) {
      CHECK(shuffled[i].arrival_s == log[i].arrival_s);
      CHECK(shuffled[i].output_tokens == 10 * shuffled[i].prompt_tokens);
      prompts.push_back(shuffled[i].prompt_tokens);
      ++seen[{static_cast<double>(i), prompts.back()}];
    }
    std::sort(prompts.begin(), prompts.end());
    CHECK(prompts == std::vector<std::uint32_t>{1, 2, 3, 4, 5});
  }
  for (const auto& [which, often] : seen)
    CHECK(std::abs(often - count / 5.0) < 4.5 * std::sqrt(count * 0.16));
}

TEST_CASE("a request log comes back as it was written") {
  const ScratchFolder folder;
  Random random(7);
  std::vector<RequestRecord> requests;
  double at = 0;
  for (int i = 0; i < 2000; ++i) {
    at += random.uniform() * 1e-3;
    requests.push_back({at, 1 + static_cast<std::uint32_t>(random.below(1U << 31)),
                        1 + static_cast<std::uint32_t>(random.below(9))});
  }
  write_request_log(requests, folder / "r.csv");
  CHECK(read_request_log(folder / "r.csv") == requests);
  requests.push_back({0, 1, 1});
  CHECK_THAT(error_of([&] { write_request_log(requests, folder / "r.csv"); }),
             Contains("request 2000 arrives before"));
  write_bytes(folder / "late.csv", "arrival_s,prompt_tokens,output_tokens\n1e12,5,5\n");
  CHECK(read_request_log(folder / "late.csv").front().arrival_s == kLatestArrival);
  write_bytes(folder / "late.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,5\n1e308,5,5\n");
  CHECK_THAT(error_of([&] { read_request_log(folder / "late.csv"); }),
             Contains("late.csv:3:1: the arrival is not a number of seconds from 0 to 1e12"));
  // One column whose name is that of three.
  write_bytes(folder / "one.csv", "\"arrival_s,prompt_tokens,output_tokens\"\n1\n");
  CHECK_THAT(error_of([&] { read_request_log(folder / "one.csv"); }),
             Contains("one.csv:1: expected the columns arrival_s,prompt_tokens,output_tokens"));
}

namespace {

/// Texts of random requests, each going on from a beginning of one before it, and the log that says so.
/// Request number i has i + 1 output tokens.
struct SharedLog {
  std::vector<RequestRecord> log;
  std::vector<std::vector<std::uint64_t>> texts;  // prompt and answer

  SharedLog() = default;
  SharedLog(Random& random, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      RequestRecord request{static_cast<double>(i), 1 + static_cast<std::uint32_t>(random.below(12)),
                            1 + static_cast<std::uint32_t>(i)};
      std::vector<std::uint64_t> text;
      if (i > 0 && random.below(4) > 0) {
        const auto& from = texts[random.below(i)];
        text.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(random.below(from.size() + 1)));
        text.resize(std::min<std::size_t>(text.size(), request.prompt_tokens));
      }
      while (text.size() < request.prompt_tokens + request.output_tokens)
        text.push_back(1000 * (i + 1) + text.size());
      connect(text, request);
      log.push_back(request);
      texts.push_back(text);
    }
  }
  void connect(const std::vector<std::uint64_t>& text, RequestRecord& request) const {
    request.shared_tokens = request.shared_with = 0;
    for (std::size_t j = 0; j < texts.size(); ++j)
      if (const auto n = common(text, texts[j], request.prompt_tokens); n > request.shared_tokens) {
        request.shared_tokens = n;
        request.shared_with = static_cast<std::uint32_t>(j);
      }
  }
  static std::uint32_t common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b,
                              std::size_t most) {
    std::uint32_t n = 0;
    while (n < most && n < a.size() && n < b.size() && a[n] == b[n]) ++n;
    return n;
  }
};

/// Tokens that two requests have in common, by their parts.
std::uint32_t common_tokens(const std::vector<SharedPart>& a, const std::vector<SharedPart>& b) {
  std::uint32_t tokens = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i].of == b[i].of; ++i)
    tokens = std::min(a[i].end, b[i].end);
  return tokens;
}

}  // namespace

TEST_CASE("what a log's requests share is what their tokens say, in whole, cut and shuffled") {
  const ScratchFolder folder;
  Random random(41);
  for (int i = 0; i < moelab::test::random_runs(300); ++i) {
    const SharedLog all(random, 2 + random.below(20));
    const RequestParts parts(all.log);
    CHECK(parts.nodes().size() <= 2 * all.log.size());
    for (std::size_t a = 0; a < all.log.size(); ++a) {
      CHECK(parts.whole(a).back().end == all.texts[a].size());
      for (std::size_t b = 0; b < a; ++b) {
        const std::uint32_t due = SharedLog::common(all.texts[a], all.texts[b], all.texts[a].size());
        CHECK(common_tokens(parts.shared(a), parts.shared(b)) == due);
      }
    }
    write_request_log(all.log, folder / "r.csv");
    CHECK(read_request_log(folder / "r.csv") == all.log);
    RequestCut cut{.skip = random.below(4), .count = 1 + random.below(12)};
    if (random.below(2) == 0) cut.shuffle_seed = random.below(99);
    const auto kept = cut_requests(all.log, cut);
    SharedLog before;
    for (const RequestRecord& request : kept) {
      const auto& text = all.texts[request.output_tokens - 1];
      RequestRecord due = request;
      before.connect(text, due);
      CHECK(request.shared_tokens == due.shared_tokens);
      if (due.shared_tokens > 0)
        CHECK(SharedLog::common(text, before.texts[request.shared_with], due.prompt_tokens) ==
              due.shared_tokens);
      before.texts.push_back(text);
    }
  }
}

TEST_CASE("what a log says of shared tokens is checked, with its line and column") {
  const ScratchFolder folder;
  const auto problem = [&](const std::string& lines) {
    write_bytes(folder / "r.csv",
                "arrival_s,prompt_tokens,output_tokens,shared_tokens,shared_with\n" + lines);
    return error_of([&] { read_request_log(folder / "r.csv"); });
  };
  CHECK(problem("0,5,2,0,0\n0,9,2,7,0\n") == "");
  CHECK_THAT(problem("0,5,2,1,0\n"),
             Contains("r.csv:2:7: shares 1 token with request 0, which is not before it"));
  CHECK_THAT(problem("0,5,2,0,0\n0,9,2,8,0\n"),
             Contains(":3:7: shares 8 tokens with request 0, which has 7"));
  CHECK_THAT(problem("0,9,2,0,0\n0,5,2,6,0\n"),
             Contains(":3:7: shares 6 tokens with request 0, its prompt has 5"));
  CHECK_THAT(problem("0,9,2,0,0\n0,5,2,0,1\n"), Contains(":3:7: shares no token with request 1; expected 0"));
  CHECK_THAT(problem("0,9,2,0\n"), Contains("r.csv:2"));
  write_bytes(folder / "r.csv", "arrival_s,prompt_tokens,output_tokens,shared_tokens\n0,5,2,0\n");
  CHECK_THAT(error_of([&] { read_request_log(folder / "r.csv"); }),
             Contains("shared_tokens,shared_with behind them"));
}

TEST_CASE("a table of counts cut in its last layer is refused where the other layers show it") {
  const ScratchFolder folder;
  CountColumns columns;
  columns.layer = "layer";
  columns.expert = "expert";
  columns.count = "count";
  int cut = 0;
  for (std::uint64_t seed = 0; seed < random_runs(300u); ++seed) {
    Random random(seed, 51, 0);
    const std::uint64_t layers = 2 + random.below(3), experts = 2 + random.below(4),
                        tokens = 20 + random.below(50);
    const bool dense = random.below(2) == 0;  // rows for experts that were never used, too
    std::vector<std::string> lines;
    std::vector<std::uint64_t> due;
    std::size_t last_begins = 0;
    for (std::uint64_t l = 0; l < layers; ++l) {
      std::vector<std::uint64_t> counts(experts);
      for (std::uint64_t t = 0; t < tokens; ++t) ++counts[random.below(experts)];
      last_begins = lines.size();
      for (std::uint64_t e = 0; e < experts; ++e)
        if (dense || counts[e] > 0)
          lines.push_back(std::to_string(l) + "," + std::to_string(e) + "," + std::to_string(counts[e]) +
                          "\n");
      due.insert(due.end(), counts.begin(), counts.end());
    }
    const auto written = [&](std::size_t rows) {
      std::string text = "layer,expert,count\n";
      for (std::size_t i = 0; i < rows; ++i) text += lines[i];
      write_bytes(folder / "c.csv", text);
      return folder / "c.csv";
    };
    columns.expert_count = static_cast<std::uint32_t>(experts);
    columns.sparse = false;
    INFO("seed " << seed);
    CHECK(import_counts_csv(written(lines.size()), columns, {}).counts == due);
    const std::size_t rows = last_begins + 1 + random.below(lines.size() - last_begins);
    std::uint64_t lost = 0;
    for (std::size_t i = rows; i < lines.size(); ++i)
      lost += std::stoull(lines[i].substr(lines[i].rfind(',') + 1));
    if (lost == 0 || (!dense && layers == 2)) continue;  // whole, or nothing to compare with
    ++cut;
    CHECK_THAT(error_of([&] { import_counts_csv(written(rows), columns, {}); }),
               Contains("c.csv:" + std::to_string(rows + 1) + ": the table ends with") &&
                   Contains("of layer " + std::to_string(layers - 1)) && Contains("--sparse"));
    columns.sparse = true;
    CHECK(import_counts_csv(written(rows), columns, {}).layers == layers);
  }
  CHECK(cut > 0);
}

TEST_CASE("counts from tables, JSON and NumPy") {
  const ScratchFolder folder;
  write_bytes(folder / "c.csv",
              "fam,layer,expert,count\nall,1,0,9\nx,1,0,3\nx,1,2,4\nx,5,1,1\ny,5,0,2\ny,1,1,8\n");
  CountColumns columns;
  columns.prompt = {"fam"};
  columns.layer = "layer";
  columns.expert = "expert";
  columns.count = "count";
  columns.expert_count = 3;
  columns.except = {{"fam", "all"}};
  const CountsTable table = import_counts_csv(folder / "c.csv", columns, {});
  CHECK(table.counts == std::vector<std::uint64_t>{3, 0, 4, 0, 1, 0, 0, 8, 0, 2, 0, 0});
  CHECK(table.layer_numbers == std::vector<std::uint64_t>{1, 5});
  CHECK(table.domains == std::vector<std::string>{"x", "y"});
  columns.except.clear();
  CHECK_THAT(error_of([&] { import_counts_csv(folder / "c.csv", columns, {}); }),
             Contains("has layer 5 for 2 of 3 prompts"));
  write_bytes(folder / "w.csv", "layer,a,b\n0,0.25,0.75\n1,0.1,0.9\n");
  CountColumns wide;
  wide.layer = "layer";
  wide.experts = {"a", "b"};
  CHECK_THAT(error_of([&] { import_counts_csv(folder / "w.csv", wide, {}); }),
             Contains(":2:3: '0.25' is not a whole count; shares need --scale"));
  wide.scale = 100;
  CHECK(import_counts_csv(folder / "w.csv", wide, {}).counts == std::vector<std::uint64_t>{25, 75, 10, 90});
  write_bytes(
      folder / "e.json",
      "{\"physical_count\": [[1, 2, 3], [4, 5, 6]], \"physical_to_logical_map\": [[0, 1, 0], [1, 0, 0]]}");
  CHECK(import_counts_json(folder / "e.json").counts == std::vector<std::uint64_t>{4, 2, 11, 4});
  write_bytes(folder / "m.json", "{\"physical_count\": [[1, 2]], \"physical_to_logical_map\": []}");
  CHECK_THAT(error_of([&] { import_counts_json(folder / "m.json"); }),
             Contains("'physical_to_logical_map' without numbers"));
  write_bytes(folder / "n.npy", npy("<u2", {1, 2, 2}, bytes_of<std::uint16_t>({1, 2, 3, 4})));
  CHECK(import_counts_npy(folder / "n.npy", {}).counts == std::vector<std::uint64_t>{1, 2, 3, 4});
}

}  // namespace moelab::import_tables_test
