// moelab trace fit and generate: from a recording to a synthetic trace and its statistics, and bad input.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <sstream>
#include <thread>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/random_traces.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/counts_trace.hpp"

namespace moelab::trace_fit_test {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

ProgramResult trace(const Strings& options, const std::function<void(pid_t)>& meanwhile = {}) {
  Strings arguments = {"trace"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, arguments, meanwhile);
}

/// A few hundred tokens of 10 requests of two kinds: 3 layers of 8 experts, top-2, with gates.
std::string recording(const test::ScratchFolder& folder) {
  RoutingTraceBuilder builder({.model = "small",
                               .provenance = "made for a test",
                               .synthetic = false,
                               .layers = 3,
                               .experts = 8,
                               .top_k = 2,
                               .gate_scores = true,
                               .domains = {"a", "b"}});
  Random random(11);
  for (std::uint16_t request = 0; request < 10; ++request) {
    builder.begin_request(request / 2 % 2);
    for (int row = 0; row < 60; ++row) {
      std::vector<std::uint16_t> ids;
      std::vector<float> gates;
      for (int layer = 0; layer < 3; ++layer) {
        const auto first = static_cast<std::uint16_t>(std::min(random.below(8), random.below(8)));
        ids.insert(ids.end(), {first, static_cast<std::uint16_t>((first + 1 + random.below(7)) % 8)});
        const auto gate = static_cast<float>(0.5 + 0.4 * random.uniform());
        gates.insert(gates.end(), {gate, 1 - gate});
      }
      builder.add_token(row < 20 ? Phase::prefill : Phase::decode, ids, gates);
    }
  }
  const std::string path = folder / "recording.safetensors";
  write_routing_trace(builder.finish(), path);
  return path;
}

std::string fitted(const test::ScratchFolder& folder) {
  const std::string law = folder / "law.yaml";
  const ProgramResult result = trace({"fit", recording(folder), "--out", law});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(contains(result.out, law + ": 3 layers of 8 experts, top-2, "));
  CHECK(contains(result.out, " --holdout' fits to every other request and compares with the rest\n"));
  return law;
}

std::string generated(const std::string& law, const std::string& out, const Strings& more) {
  Strings options = {"generate", law, "--out", out};
  options.insert(options.end(), more.begin(), more.end());
  const ProgramResult result = trace(options);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(contains(result.out, "synthetic"));
  return out;
}

Json stats_of(const std::string& path) {
  const ProgramResult result = trace({"stats", path, "--format", "json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return Json::parse(result.out);
}

void refuses(const Strings& options, const std::string& what) {
  const ProgramResult result = trace(options);
  CAPTURE(options, result.out, result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(contains(result.err, what));
}

Strings cells(const std::string& line) {
  Strings all;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) all.push_back(cell.substr(1, cell.size() - 2));
  return all;
}

}  // namespace

TEST_CASE("trace law told of a law says what it is, and a run names the file of a law that was fitted") {
  const test::ScratchFolder folder;
  const std::string law = fitted(folder);
  const ProgramResult told = trace({"law", law});
  CHECK(told.status == 2);
  CHECK(told.err.starts_with("moelab: " + law + ": is a law of routing; 'moelab trace generate " + law));
  CHECK(std::count(told.err.begin(), told.err.end(), '\n') == 1);
  const ProgramResult run =
      run_program(MOELAB_PROGRAM,
                  {"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                   "workload={batch: 1, requests: 1, prompt_tokens: 4, output_tokens: 4, law: " + law + "}"});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "routing: law of small in law.yaml (fitted; how near it comes is not known"));
}

TEST_CASE("a run over a trace without prompts' rows says what its TTFT is then") {
  const test::ScratchFolder folder;
  const std::string law = folder / "law.yaml", whole = folder / "whole.safetensors",
                    answers = folder / "answers.safetensors";
  REQUIRE(trace({"law", "deepseek-v2-lite", "--out", law}).status == 0);
  REQUIRE(trace({"generate", law, "--tokens", "40", "--prompt-tokens", "20", "--out", whole}).status == 0);
  REQUIRE(trace({"relabel", whole, "--from", "prefill", "--to", "decode", "--out", answers}).status == 0);
  const auto run = [](const std::string& file) {
    const ProgramResult result =
        run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                                     "workload={batch: 1, requests: 1, trace: " + file + "}"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result.out;
  };
  const std::string note =
      "the routing trace has no prompts' rows, so TTFT is the time of one generated token";
  CHECK_FALSE(contains(run(whole), note));
  CHECK(contains(run(answers), note));
}

TEST_CASE("trace fit, generate and stats: a recording's sizes, and synthetic wherever it shows") {
  const test::ScratchFolder folder;
  const std::string out = generated(fitted(folder), folder / "drawn.safetensors", {"--tokens", "200"});
  const Json all = stats_of(out);
  CHECK(all["kind"] == "synthetic");
  CHECK(contains(all["provenance"], "synthetic"));
  CHECK(contains(all["provenance"], "recording.safetensors (10 requests, 600 tokens of small)"));
  CHECK(all["tokens"] == 200);
  CHECK(all["requests"] == 4);  // of 60 rows each, the last of 20
  CHECK(all["prompt_tokens"] == 4 * 20);
  CHECK(all["experts"] == 8);
  CHECK(all["top_k"] == 2);
  CHECK(all["domains"] == Json{"a", "b"});
  REQUIRE(all["layers"].size() == 3);
  for (const Json& layer : all["layers"]) {
    CHECK(layer["tokens"] == 200);
    // Gates sum to what the recorded ones do: 1.
    CHECK(layer["gates_by_rank"][0].get<double>() + layer["gates_by_rank"][1].get<double>() ==
          Approx(1).epsilon(1e-5));
  }
  CHECK(contains(trace({"stats", out}).out, "small (synthetic): 200 tokens"));
}

TEST_CASE("trace generate draws the same bytes from the same seed, and others from another") {
  const test::ScratchFolder folder;
  const std::string law = fitted(folder);
  const auto bytes = [&](const char* seed) {
    return test::read_bytes(
        generated(law, folder / "drawn.safetensors", {"--tokens", "100", "--seed", seed, "--router-scores"}));
  };
  const std::string first = bytes("1");
  CHECK(bytes("1") == first);
  CHECK(bytes("2") != first);
}

TEST_CASE("trace generate draws for another model's sizes, and says that it was resized") {
  const test::ScratchFolder folder;
  const std::string law = fitted(folder);
  // DeepSeek-V2-Lite: 26 MoE layers of 64 experts, top-6.
  const Json all = stats_of(
      generated(law, folder / "lite.safetensors", {"--model", "deepseek-v2-lite", "--tokens", "64"}));
  CHECK(contains(all["model"], "deepseek-v2-lite"));
  CHECK(contains(all["provenance"], "resized from 3 layers of 8 experts, top-2 of small"));
  CHECK(all["layers"].size() == 26);
  CHECK(all["experts"] == 64);
  CHECK(all["top_k"] == 6);
  CHECK(all["tokens"] == 64);
  // Switch-Large-128: 12 MoE layers in each of encoder and decoder, of 128 experts, top-1.
  const RoutingTrace drawn = read_routing_trace(generated(
      law, folder / "switch.safetensors",
      {"--model", "switch-large-128", "--tokens", "30", "--prompt-tokens", "10", "--decode-tokens", "5"}));
  REQUIRE(drawn.layers() == 24);
  CHECK(drawn.top_k() == 1);
  CHECK(drawn.requests().size() == 2);
  for (std::uint64_t token = 0; token < 30; ++token) {
    const bool encoder = token % 15 < 10;
    CHECK(drawn.phase_of(token) == (encoder ? Phase::encoder : Phase::decode));
    for (std::uint32_t layer = 0; layer < 24; ++layer)
      CHECK((drawn.experts_of(token, layer)[0] != kNoExpert) == (encoder == (layer < 12)));
  }
}

TEST_CASE("trace fit --holdout says what is missed, and prints one table as Markdown and as JSON") {
  const test::ScratchFolder folder;
  const std::string path = recording(folder);
  const ProgramResult table = trace({"fit", path, "--holdout", "--format", "markdown"});
  const ProgramResult plain = trace({"fit", path, "--holdout"});
  const ProgramResult json = trace({"fit", path, "--holdout", "--format", "json"});
  REQUIRE(table.status == 0);
  REQUIRE(plain.status == 0);
  REQUIRE(json.status == 0);
  CHECK_FALSE(contains(plain.out, "|"));
  CHECK(contains(plain.out, "\nshare of the busiest quarter  "));
  std::istringstream lines(table.out);
  std::string line, missed_line;
  std::getline(lines, missed_line);
  std::getline(lines, line);
  CHECK(line.empty());
  std::getline(lines, line);
  CHECK(cells(line) == Strings{"figure", "fitted to", "held out", "drawn", "drawn, difference",
                               "halves, difference", "worst layer", "aim"});
  std::getline(lines, line);
  CHECK(line == "| :-- | --: | --: | --: | --: | --: | --: | --: |");
  const Json rows = Json::parse(json.out);
  // 1 share, 3 reuses, 4 policies at the 7 sizes that 8 experts allow, working sets of 2 to 128 tokens, 2
  // recalls, 2 divergences, 2 gates.
  CHECK(rows.size() == 1 + 3 + 4 * 7 + 7 + 2 + 2 + 2);
  for (const Json& row : rows) {
    REQUIRE(std::getline(lines, line));
    const Strings got = cells(line);
    REQUIRE(got.size() == 8);
    CAPTURE(line, row);
    CHECK(got[0] == row["figure"]);
    const double unit = row["relative"] == true ? 0.01 : 1;
    const auto says = [&](const std::string& cell, const char* key, double of) {
      if (row[key].is_null()) return cell == "-";
      return std::stod(cell) * of == Approx(row[key].get<double>()).margin(0.00051);
    };
    CHECK(says(got[1], "fitted_to", 1));
    CHECK(says(got[2], "held_out", 1));
    CHECK(says(got[3], "drawn", 1));
    CHECK(says(got[4], "drawn_difference", unit));
    CHECK(says(got[5], "halves_difference", unit));
    CHECK(says(got[6], "worst_difference", unit));
    if (got[6] != "-") CHECK(got[6].ends_with("(" + row["worst_layer"].dump() + ")"));
    if (row["aim"].is_null())
      CHECK(got[7].empty());
    else
      CHECK(says(got[7], "aim", unit));
  }
  std::size_t aims = 0, missed = 0;
  for (const Json& row : rows) {
    if (row["aim"].is_null() || row["drawn_difference"].is_null()) continue;
    ++aims;
    missed += row["drawn_difference"].get<double>() > row["aim"].get<double>() ? 1 : 0;
  }
  CHECK(missed_line.starts_with(std::to_string(missed) + " of " + std::to_string(aims) +
                                " aims are missed in the mean over layers; worst: "));
  CHECK_FALSE(std::getline(lines, line));
  CHECK(folder.names().size() == 1);  // nothing is written
}

TEST_CASE("trace fit says in JSON what it wrote") {
  const test::ScratchFolder folder;
  const std::string law = folder / "law.yaml";
  const ProgramResult result = trace({"fit", recording(folder), "--out", law, "--format", "json"});
  REQUIRE(result.status == 0);
  const Json said = Json::parse(result.out);
  CHECK(said["out"] == law);
  CHECK(said["layers"] == 3);
  CHECK(said["experts"] == 8);
  CHECK(said["top_k"] == 2);
}

TEST_CASE("trace fit says what is wrong and writes nothing") {
  const test::ScratchFolder folder;
  const std::string path = recording(folder), law = folder / "law.yaml", before = test::read_bytes(path);
  refuses({"fit", path}, "either --out FILE or --holdout");
  refuses({"fit", path, "--out", law, "--holdout"}, "either --out FILE or --holdout");
  refuses({"fit", folder / "absent", "--out", law}, "absent");
  refuses({"fit", path, "--out", "/dev/null/no/law.yaml"}, "/dev/null is no folder");
  refuses({"fit", path, "--out", folder / ""}, "is not a regular file");
  refuses({"fit", path, "--out", path}, "is an input");
  write_counts_trace(CountsTrace({.prompts = 1, .layers = 1, .experts = 2}, {1, 2}),
                     folder / "counts.safetensors");
  refuses({"fit", folder / "counts.safetensors", "--out", law}, "counts-only trace");
  RoutingTraceBuilder one("one", "", false, 1, 4, 2, false);
  one.begin_request();
  one.add_token(Phase::decode, std::vector<std::uint16_t>{2, 1}, {});
  write_routing_trace(one.finish(), folder / "one.safetensors");
  refuses({"fit", folder / "one.safetensors", "--holdout"}, "one request");
  CHECK(test::read_bytes(path) == before);
  CHECK(folder.names().size() == 3);
}

TEST_CASE("trace generate says what is wrong and writes nothing") {
  const test::ScratchFolder folder;
  const std::string law = fitted(folder), out = folder / "out.safetensors", before = test::read_bytes(law);
  const auto with = [&](const Strings& more) {
    Strings options = {"generate", law, "--out", out};
    options.insert(options.end(), more.begin(), more.end());
    return options;
  };
  for (const char* tokens : {"0", "-1", "1e3", "1099511627777", "99999999999999999999999"})
    CHECK(trace(with({"--tokens", tokens})).status == 2);
  for (const char* seed : {"-1", "18446744073709551616", "1e3", "1.5", " 1", "x"})
    refuses(with({"--tokens", "9", "--seed", seed}),
            "expected a whole number from 0 to 18446744073709551615");
  refuses(with({"--tokens", "9", "--model", "mixtrall-8x7b"}), "mixtral");
  refuses(with({"--tokens", "9", "--prompt-tokens", "0", "--decode-tokens", "0"}), "have no tokens");
  refuses(with({"--tokens", "9", "--model", "switch-large-128", "--prompt-tokens", "0"}), "--prompt-tokens");
  refuses({"generate", law, "--tokens", "9", "--out", law}, "is an input");
  refuses({"generate", law, "--tokens", "9", "--out", "/dev/null/no/out"}, "/dev/null is no folder");
  refuses({"generate", folder / "recording.safetensors", "--tokens", "9", "--out", out},
          "recording.safetensors");
  refuses({"generate", folder / "absent", "--tokens", "9", "--out", out}, "absent");
  test::write_bytes(folder / "other.yaml", "format: something\nversion: 1\n");
  refuses({"generate", folder / "other.yaml", "--tokens", "9", "--out", out}, "other.yaml:1");
  CHECK(test::read_bytes(law) == before);
  CHECK(folder.names().size() == 3);
}

TEST_CASE("an interrupted trace generate leaves nothing") {
  const test::ScratchFolder folder;
  const std::string law = fitted(folder);
  const ProgramResult result =
      trace({"generate", law, "--tokens", "100000000", "--out", folder / "out.safetensors"}, [](pid_t child) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        kill(child, SIGINT);
      });
  CHECK(result.status == 128 + SIGINT);
  CHECK(folder.names().size() == 2);
}

}  // namespace moelab::trace_fit_test
