// moelab trace stats: numbers worked out by hand, what is not known, pictures, and bad input.
#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/counts_trace.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::trace_stats_test {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

/// Four tokens of two requests, two layers of four experts, k = 2. Layer 0 uses {0 1} {1 2} {0 1} and {0 3};
/// layer 1 {2 3} (nothing) {2 3} and {0 2}.
std::string small_trace(const test::ScratchFolder& folder, bool synthetic) {
  RoutingTraceBuilder builder({.model = "tiny",
                               .provenance = "by hand",
                               .synthetic = synthetic,
                               .layers = 2,
                               .experts = 4,
                               .top_k = 2,
                               .gate_scores = true,
                               .domains = {"a", "b"}});
  builder.begin_request(0);
  builder.add_token(Phase::prefill, std::vector<std::uint16_t>{1, 0, 3, 2},
                    std::vector<float>{.75F, .25F, .75F, .25F});
  builder.add_token(Phase::prefill, std::vector<std::uint16_t>{1, 2, kNoExpert, kNoExpert},
                    std::vector<float>{.5F, .5F, 0, 0});
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{0, 1, 2, 3},
                    std::vector<float>{1, 0, .5F, .5F});
  builder.begin_request(1);
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{3, 0, 2, 0},
                    std::vector<float>{.25F, .75F, .25F, .75F});
  const std::string path = folder / "tiny.safetensors";
  write_routing_trace(builder.finish(), path);
  return path;
}

/// Two prompts of kinds a and b, two layers of four experts; the second layer was never used.
std::string small_counts(const test::ScratchFolder& folder, bool synthetic = false) {
  const std::string path = folder / "counts.safetensors";
  write_counts_trace(CountsTrace({.model = "tiny",
                                  .provenance = "by <hand>",
                                  .synthetic = synthetic,
                                  .prompts = 2,
                                  .layers = 2,
                                  .experts = 4,
                                  .domains = {"a", "b"}},
                                 {2, 3, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}, {0, 1}),
                     path);
  return path;
}

ProgramResult stats(const Strings& options) {
  Strings arguments = {"trace", "stats"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, arguments);
}

Json json_of(const std::string& path) {
  const ProgramResult result = stats({path, "--format", "json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return Json::parse(result.out);
}

void check_numbers(const Json& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, got[i]);
    CHECK(got[i].get<double>() == Approx(expected[i]).margin(1e-12));
  }
}

/// The names' numbers of one object, in order.
void check_fields(const Json& layer, const Strings& names, const std::vector<double>& expected) {
  Json got = Json::array();
  for (const std::string& name : names) got.push_back(layer.at(name));
  check_numbers(got, expected);
}

std::vector<Strings> words_by_line(const std::string& text) {
  std::vector<Strings> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

std::string text_within(const test::Element& element) {
  std::string text = element.text;
  for (const test::Element& child : element.children) text += "|" + text_within(child);
  return text;
}

const Strings kFields = {"top_quarter",
                         "entropy_bits",
                         "reuse",
                         "independent_reuse",
                         "prompt_divergence_bits",
                         "prompt_divergence_by_chance_bits",
                         "domain_divergence_bits",
                         "domain_divergence_by_chance_bits"};

// Entropies of the shares 3 3 1 1 of 8, and of 3 2 1 of 6.
const double kEntropy0 = 0.75 * std::log2(8 / 3.0) + 0.25 * 3;
const double kEntropy1 = 0.5 + std::log2(3.0) / 3 + std::log2(6.0) / 6;
// Layer 0: entropy of all less that of the requests' uses, 2 3 1 and 1 1, by their share of the 8 uses.
const double kDivergence0 = kEntropy0 - (6 * kEntropy1 + 2 * 1) / 8;

}  // namespace

TEST_CASE("trace stats gives a hand-made trace's numbers as worked out by hand") {
  const test::ScratchFolder folder;
  const Json all = json_of(small_trace(folder, false));
  CHECK(all["model"] == "tiny");
  CHECK(all["provenance"] == "by hand");
  CHECK(all["kind"] == "recorded");
  CHECK(all["tokens"] == 4);
  CHECK(all["prompt_tokens"] == 2);
  CHECK(all["requests"] == 2);
  CHECK(all["experts"] == 4);
  CHECK(all["top_k"] == 2);
  CHECK(all["domains"] == Json{"a", "b"});
  CHECK(all["lfu_and_fifo_capacities"] == Json{1, 1, 2, 3});
  REQUIRE(all["layers"].size() == 2);

  // Layer 0, uses by expert 3 3 1 1. Reused: 1 of {1 2}, 1 of {0 1}. (9 + 9 + 1 + 1) / (4 * 4 * 2) if
  // independent. By chance: 2 + 1 - 3 = 0 experts too many.
  const Json& first = all["layers"][0];
  CHECK(first["layer"] == 0);
  CHECK(first["tokens"] == 4);
  CHECK(first["uses"] == Json{3, 3, 1, 1});
  check_fields(first, kFields, {3 / 8.0, kEntropy0, 0.5, 0.625, kDivergence0, 0, kDivergence0, 0});
  CHECK(first["distinct_experts_in_window"]["2"] == 3);  // {0 1} {1 2}; the others are too short
  CHECK(first["transition_recall"].is_null());           // there is no layer before
  CHECK(first["popularity_recall"].is_null());
  check_numbers(first["gates_by_rank"], {0.75, 0.25});
  // Looked up: 0 1, 1 2, 0 1, 0 3. The counts for 2 and 4 are worked out in trace_hits_test.cpp.
  check_numbers(first["lru_hit_rate"], {1 / 8.0, 2 / 8.0, 4 / 8.0, 4 / 8.0});
  check_numbers(first["belady_hit_rate"], {1 / 8.0, 3 / 8.0, 4 / 8.0, 4 / 8.0});
  check_numbers(first["lfu_hit_rate"], {1 / 8.0, 1 / 8.0, 3 / 8.0, 4 / 8.0});
  check_numbers(first["fifo_hit_rate"], {1 / 8.0, 1 / 8.0, 2 / 8.0, 4 / 8.0});

  // Layer 1, uses 1 0 3 2 of three tokens; {2 3} twice in a row; requests' uses 2 2 and 1 1 have 1 bit each.
  const Json& second = all["layers"][1];
  CHECK(second["tokens"] == 3);
  CHECK(second["uses"] == Json{1, 0, 3, 2});
  check_fields(second, kFields, {3 / 6.0, kEntropy1, 1, 14 / 18.0, kEntropy1 - 1, 0, kEntropy1 - 1, 0});
  CHECK(second["distinct_experts_in_window"]["2"] == 2);
  // Foretold: nothing known, so 0 1 (0 hits); then 2 3 (2 hits); then 2 3 again for {0 2} (1 hit); of 6.
  check_fields(second, {"transition_recall", "popularity_recall"}, {0.5, 0.5});
  check_numbers(second["gates_by_rank"], {2 / 3.0, 1 / 3.0});
  check_numbers(second["lru_hit_rate"], {0, 2 / 6.0, 3 / 6.0, 3 / 6.0});
  check_numbers(second["belady_hit_rate"], {0, 3 / 6.0, 3 / 6.0, 3 / 6.0});
  check_numbers(second["lfu_hit_rate"], {0, 0, 2 / 6.0, 3 / 6.0});
  check_numbers(second["fifo_hit_rate"], {0, 0, 2 / 6.0, 3 / 6.0});
}

TEST_CASE("trace stats calls LFU what the cache policy lfu is: counts are kept of experts that left") {
  // The trace of trace_hits_test.cpp: in two places lfu finds one of seven, lfu:forget=1 two. In one place
  // both find the second 0 alone.
  const test::ScratchFolder folder;
  RoutingTraceBuilder builder("tiny", "by hand", true, 1, 3, 1, false);
  builder.begin_request();
  for (const std::uint16_t id : std::vector<std::uint16_t>{0, 0, 1, 2, 1, 2, 0})
    builder.add_token(Phase::decode, std::vector<std::uint16_t>{id}, {});
  write_routing_trace(builder.finish(), folder / "lfu.safetensors");
  const Json all = json_of(folder / "lfu.safetensors");
  CHECK(all["lfu_and_fifo_capacities"] == Json{1, 1, 2, 2});
  check_numbers(all["layers"][0]["lfu_hit_rate"], {1 / 7.0, 1 / 7.0, 1 / 7.0, 1 / 7.0});
}

TEST_CASE("trace stats says null where a trace cannot tell") {
  const test::ScratchFolder folder;
  RoutingTraceBuilder builder("", "", false, 1, 3, 1, false);
  builder.begin_request();
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{2}, {});
  write_routing_trace(builder.finish(), folder / "one.safetensors");
  const Json layer = json_of(folder / "one.safetensors")["layers"][0];
  for (const char* name : {"reuse", "transition_recall", "popularity_recall", "domain_divergence_bits",
                           "domain_divergence_by_chance_bits"})
    CHECK(layer.at(name).is_null());
  for (const auto& [window, distinct] : layer["distinct_experts_in_window"].items())
    CHECK(distinct.is_null());
  CHECK(layer["distinct_experts_in_window"].size() == 7);
  CHECK(layer["gates_by_rank"].empty());
  check_fields(layer, {"top_quarter", "entropy_bits", "prompt_divergence_bits"}, {1, 0, 0});
  const ProgramResult table = stats({folder / "one.safetensors"});
  CHECK(table.status == 0);
  CHECK(contains(table.out, "unknown model (recorded): 1 tokens of 1 requests"));
  CHECK_FALSE(contains(table.out, "nan"));
}

TEST_CASE("trace stats prints a row for each layer and one for their mean") {
  const test::ScratchFolder folder;
  const ProgramResult result = stats({small_trace(folder, true)});
  REQUIRE(result.status == 0);
  const std::vector<Strings> lines = words_by_line(result.out);
  REQUIRE(lines.size() > 6);
  CHECK(contains(result.out, "tiny (synthetic): 4 tokens of 2 requests, 2 layers of 4 experts, top-2\n"));
  // The numbers above, in the columns top 1/4, entropy, reuse, independent, in 16, LRU 25 % and 50 %, LFU
  // 25 %, Belady 25 % and 50 %, transition, popularity, prompts, chance, domains, gate 1, gate k.
  CHECK(lines[3] == Strings{"0", "4", "0.375", "1.81", "0.500", "0.625", "-", "0.125", "0.250", "0.125",
                            "0.125", "0.375", "-", "-", "0.467", "0.000", "0.467", "0.750", "0.250"});
  CHECK(lines[4] == Strings{"1", "3", "0.500", "1.46", "1.000", "0.778", "-", "0.000", "0.333", "0.000",
                            "0.000", "0.500", "0.500", "0.500", "0.459", "0.000", "0.459", "0.667", "0.333"});
  CHECK(lines[5] == Strings{"mean", "0.438", "1.64", "0.750", "0.701", "-", "0.062", "0.292", "0.062",
                            "0.062", "0.438", "0.500", "0.500", "0.463", "0.000", "0.463", "0.708", "0.292"});
}

TEST_CASE("trace stats draws well-formed pictures that say whether routing was recorded") {
  const test::ScratchFolder folder;
  for (const bool synthetic : {false, true})
    for (const bool counts : {false, true}) {
      CAPTURE(synthetic, counts);
      const std::string path = counts ? small_counts(folder, synthetic) : small_trace(folder, synthetic);
      const std::string picture = folder / "picture.svg";
      const ProgramResult result = stats({path, "--plot", picture});
      CAPTURE(result.err);
      REQUIRE(result.status == 0);
      CHECK(contains(result.out, "picture: " + picture + "\n"));
      const std::string text = text_within(test::parse_xml(test::read_bytes(picture)));
      CHECK(contains(text, synthetic ? "tiny (synthetic" : "tiny (recorded"));
      CHECK(contains(text, counts ? "by <hand>" : "by hand"));  // where it comes from
      for (const char* title : {"Popularity", "Drift"}) CHECK(contains(text, title));
      CHECK(contains(text, "Gates by rank") == !counts);
      const ProgramResult again = stats({path, "--plot", picture, "--format", "json"});
      CHECK(Json::parse(again.out)["kind"] == (synthetic ? "synthetic" : "recorded"));
    }
}

TEST_CASE("trace stats of counts gives skew and drift, and null for a layer that was not used") {
  const test::ScratchFolder folder;
  const Json all = json_of(small_counts(folder));
  CHECK(all["kind"] == "recorded");
  CHECK(all["uses"] == 8);
  CHECK(all["prompts"] == 2);
  CHECK(all["experts"] == 4);
  CHECK(all["top_k"].is_null());
  REQUIRE(all["layers"].size() == 2);
  const Strings fields = {"top_quarter",
                          "entropy_bits",
                          "prompt_divergence_bits",
                          "prompt_divergence_by_chance_bits",
                          "domain_divergence_bits",
                          "domain_divergence_by_chance_bits"};
  CHECK(all["layers"][0]["uses"] == Json{3, 3, 1, 1});  // as layer 0 of the trace above
  check_fields(all["layers"][0], fields, {3 / 8.0, kEntropy0, kDivergence0, 0, kDivergence0, 0});
  CHECK(all["layers"][1]["uses"] == Json{0, 0, 0, 0});
  for (const std::string& field : fields) CHECK(all["layers"][1][field].is_null());
  const ProgramResult table = stats({small_counts(folder)});
  CHECK(contains(table.out, "tiny (recorded, counts only): 8 uses by 2 prompts, 2 layers of 4 experts\n"));
  const std::vector<Strings> lines = words_by_line(table.out);
  CHECK(lines.at(3) == Strings{"0", "8", "0.375", "1.81", "0.4669", "0.0000", "0.4669", "0.0000"});
  CHECK(lines.at(4) == Strings{"1", "0", "-", "-", "-", "-", "-", "-"});
  CHECK(lines.at(5) == Strings{"mean", "0.375", "1.81", "0.4669", "0.0000", "0.4669", "0.0000"});
}

TEST_CASE("trace stats keeps its inputs, and says what is wrong with bad ones") {
  const test::ScratchFolder folder;
  const std::string path = small_trace(folder, false);
  const std::string before = test::read_bytes(path);
  const auto says = [](const Strings& options, const std::string& what) {
    const ProgramResult result = stats(options);
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err, what));
  };
  says({folder / "absent"}, "absent");
  says({folder / ""}, "folder");
  says({path, "--plot", path}, "expected a file that ends in .svg");
  const std::string named = folder / "trace.svg";
  test::write_bytes(named, before);
  says({named, "--plot", named}, named + ": is an input; it would be lost under the result");
  says({path, "--plot", folder / ""}, "is not a regular file");
  says({path, "--plot", "/dev/null/no/p.svg"}, "/dev/null is no folder");
  test::write_bytes(folder / "law.yaml", "format: moelab-routing-law\n");
  says({folder / "law.yaml"}, "law.yaml");
  CHECK(test::read_bytes(path) == before);
  CHECK(folder.names().size() == 3);
}

TEST_CASE("trace stats refuses sizes that no memory holds") {
  const test::ScratchFolder folder;
  RoutingTraceBuilder builder("", "", true, 1, 65535, 1, false);
  builder.begin_request();
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{65534}, {});
  write_routing_trace(builder.finish(), folder / "vast.safetensors");
  const ProgramResult result = stats({folder / "vast.safetensors"});
  CHECK(result.status == 2);
  CHECK(contains(result.err, "trace of an unknown model: 1 layers of 65535 experts"));
}

TEST_CASE("trace stats shows names of any characters on one line and in the picture") {
  const test::ScratchFolder folder;
  RoutingTraceBuilder builder("a\"b\n\x1b[31m</svg>", "x\ny", false, 1, 2, 1, false);
  builder.begin_request();
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{1}, {});
  const std::string path = folder / "quo\"te\nd.safetensors";
  write_routing_trace(builder.finish(), path);
  CHECK(json_of(path)["model"] == "a\"b\n\x1b[31m</svg>");
  const ProgramResult result = stats({path, "--plot", folder / "p.svg"});
  CHECK(result.status == 0);
  CHECK(contains(result.out, "a\"b??[31m</svg> (recorded): 1 tokens"));
  CHECK_NOTHROW(test::parse_xml(test::read_bytes(folder / "p.svg")));
}

TEST_CASE("the help of stats, fit and generate ends with an example of that command") {
  for (const char* command : {"stats", "fit", "generate"}) {
    const ProgramResult result = run_program(MOELAB_PROGRAM, {"trace", command, "--help"});
    CHECK(result.status == 0);
    CHECK(contains(result.out, std::string("Example:\n  moelab trace ") + command + " "));
  }
}

}  // namespace moelab::trace_stats_test
