// moelab tune residency: what it prints and draws, held against `moelab run`, and what it says to bad input.
#include <catch2/catch.hpp>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::tune_residency_test {
namespace {

using nlohmann::json;

/// A small part of the scenario, whose weights are more than the GPUs' memory.
const std::vector<std::string> kSmall = {"--set", "workload.output_tokens=40", "--set",
                                         "workload.requests=12"};

ProgramResult run(std::vector<std::string> words, const std::vector<std::string>& options) {
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  words.insert(words.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, words);
}

ProgramResult tune(const std::vector<std::string>& options) {
  return run({"tune", "residency", "fluxmoe-mixtral"}, options);
}

}  // namespace

TEST_CASE("tune residency: help says what the knee is and ends with an example") {
  const ProgramResult help = run_program(MOELAB_PROGRAM, {"tune", "residency", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.out, "The knee is the lowest residency at which loading still hides"));
  CHECK(contains(help.out, "Example:\n  moelab tune residency "));
}

TEST_CASE("tune residency: each level is what a run with that split comes to") {
  const ProgramResult tuned = tune({"--system", "vllm-o", "--steps", "4", "--format", "json"});
  CAPTURE(tuned.err);
  REQUIRE(tuned.status == 0);
  CHECK(tuned.err.empty());  // no progress where there is no terminal
  const json result = json::parse(tuned.out);
  REQUIRE(result["levels"].size() == 5);
  CHECK(result["experts_a_layer"] == 8);
  CHECK(result["on_gpu"] == "resident");
  CHECK(result["off_gpu"] == "host");
  for (int i = 0; i < 5; ++i) {
    if (moelab::test::kFewerRuns && (i == 2 || i == 3)) continue;  // between two that fit
    const json& level = result["levels"][static_cast<std::size_t>(i)];
    const double offloaded = i / 4.0;
    const std::string systems =
        "systems=[{name: split, weights: paged, paging: {backends: [resident, host], storage: {policy: "
        "fixed, offloaded: " +
        std::to_string(offloaded) + "}}, batching: {policy: continuous, swap: 1}, kv: {swap_space: 16 GiB}}]";
    const ProgramResult alone = run({"run", "fluxmoe-mixtral"}, {"--set", systems, "--format", "json"});
    CAPTURE(alone.err, i);
    REQUIRE(alone.status == (i == 0 ? 1 : 0));  // 1: it does not fit
    const json expected = json::parse(alone.out);
    CHECK(level["residency"] == 1 - offloaded);
    CHECK(level["shortfall_bytes"] == expected["memory_bytes_a_gpu"]["shortfall"]);
    CHECK(level["memory_bytes_a_gpu"]["kv_blocks"] == expected["memory_bytes_a_gpu"]["kv_blocks"]);
    CHECK(level["memory_bytes_a_gpu"]["stored_experts"] == expected["memory_bytes_a_gpu"]["stored_experts"]);
    CHECK(level["fits"] == (i > 0));  // the model's weights are more than the GPUs' memory
    if (i == 0) {
      CHECK_FALSE(level.contains("tokens_per_s"));
      continue;
    }
    double steps_s = 0;
    for (const auto& [cause, seconds] : expected["stall_s"].items()) steps_s += seconds.get<double>();
    const double tokens = 12 * 40;
    CHECK(level["tokens_per_s"].get<double>() == Approx(tokens / steps_s));  // requests are there at once
    CHECK(level["requests_a_step"].get<double>() ==
          Approx(tokens / expected["serving"]["steps"].get<double>()));
    CHECK(level["load_share"].get<double>() ==
          Approx(expected["stall_s"]["prefetch"].get<double>() / steps_s));
    CHECK(level["slowdown"].get<double>() ==
          Approx(level["step_s"].get<double>() / level["resident_step_s"].get<double>()));
  }
  CHECK(result["highest_residency"] == 0.75);
  CHECK(result["best_residency"] == 0.75);
  CHECK(result["knee_residency"].is_null());
}

TEST_CASE("tune residency: the table names what does not fit, marks what is chosen, and says what it means") {
  const ProgramResult slow = tune({"--system", "vllm-o", "--steps", "2"});
  CAPTURE(slow.out, slow.err);
  REQUIRE(slow.status == 0);
  CHECK(contains(slow.out, "   1.0000 "));
  CHECK(contains(slow.out, "does not fit: 2.536 GB more\n"));
  CHECK(contains(slow.out, "best, leanest\n"));
  CHECK(contains(slow.out, "\nknee: none; even at residency 0.5000, the highest that fits, a step takes "));

  // Other weights and activations alone are more.
  const ProgramResult nothing = tune({"--system", "vllm-o", "--steps", "2", "--set", "budget=3 GB"});
  CAPTURE(nothing.out, nothing.err);
  REQUIRE(nothing.status == 1);
  CHECK(contains(nothing.err, "no residency level fits"));
  CHECK(contains(nothing.out, "\nno residency level fits\n"));
}

// A link fast enough to bring some of a layer's 8 experts while the others are decoded, and not all.
TEST_CASE("tune residency: the knee is found between the levels of the grid, and drawn") {
  moelab::test::ScratchFolder folder;
  const std::string picture = (folder / "curve.svg").string();
  const std::vector<std::string> options = {
      "--system", "fluxmoe", "--steps", "1", "--set", "overrides.device.gpu.link.to_device.rate=100 GB/s",
      "--plot",   picture};
  const ProgramResult tuned = tune(options);
  CAPTURE(tuned.out, tuned.err);
  REQUIRE(tuned.status == 0);
  CHECK(contains(tuned.out, "picture: " + picture + "\n"));
  CHECK(contains(tuned.out, "\nknee: residency "));
  CHECK(contains(tuned.out, "% of the experts: "));
  CHECK(contains(tuned.out, " more KV blocks ("));
  const std::string svg = moelab::test::read_bytes(picture);
  CHECK(contains(svg, "knee"));
  CHECK(contains(svg, "tokens/s"));

  std::vector<std::string> as_json(options.begin(), options.end() - 2);
  as_json.insert(as_json.end(), {"--format", "json"});
  const json result = json::parse(tune(as_json).out);
  REQUIRE(result["knee_residency"].is_number());
  REQUIRE(result["past_knee_residency"].is_number());
  CHECK(result["knee_residency"].get<double>() - result["past_knee_residency"].get<double>() == 1.0 / 8);
  double before = 2;
  for (const json& level : result["levels"]) {
    CHECK(level["residency"].get<double>() < before);
    before = level["residency"].get<double>();
  }
}

TEST_CASE("tune residency: systems that have no level to tune, and unknown ones") {
  check_refusal(
      tune({"--system", "vllm"}),
      "fluxmoe-mixtral: system 'vllm' has one storage backend, 'resident'; expected one in the GPU's "
      "memory and, as the last, one outside it, such as 'backends: [resident, host]'\n");
  check_refusal(tune({"--system", "vlm"}),
                "scenario 'fluxmoe-mixtral' has no such system (did you mean 'vllm'?)");
  check_refusal(tune({"--system", "both", "--set",
                      "systems=[{name: both, weights: paged, paging: {backends: [resident, huffman]}}]"}),
                "has 'huffman' as its last storage backend, which takes GPU memory");
  check_refusal(run_program(MOELAB_PROGRAM, {"tune", "residency", "zipmoe-orin", "--system", "zipmoe"}),
                "system 'zipmoe' does not page its experts");
  CHECK(tune({}).status == 2);
}

TEST_CASE("tune residency: options within their ranges, a place for the picture") {
  check_refusal(tune({"--system", "vllm-o", "--steps", "0"}), "--steps");
  check_refusal(tune({"--system", "vllm-o", "--most", "0"}), "--most");
  check_refusal(tune({"--system", "vllm-o", "--most", "1.5"}), "--most");
  check_refusal(tune({"--system", "vllm-o", "--tolerance", "-0.1"}), "--tolerance");
  std::vector<std::string> no_shares = {"nan", "half", ""};
  if (!moelab::test::kFewerRuns) no_shares.insert(no_shares.end(), {"-nan", "inf", "-inf", "1e400"});
  for (const std::string& no_share : no_shares) {
    check_refusal(tune({"--system", "vllm-o", "--tolerance", no_share}), "--tolerance");
    check_refusal(tune({"--system", "vllm-o", "--most", no_share}), "--most");
  }
  check_refusal(tune({"--system", "vllm-o", "--plot", "/dev/null/no/a.svg"}), "/dev/null is no folder");
}

}  // namespace moelab::tune_residency_test
