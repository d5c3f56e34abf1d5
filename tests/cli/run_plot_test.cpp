// moelab run of systems with pages: what is shown over time, in the text and as a picture.
#include <catch2/catch.hpp>
#include <filesystem>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::run_plot_test {
namespace {

/// A small part of the scenario: vllm does not fit, three systems do.
ProgramResult run(const std::vector<std::string>& options) {
  std::vector<std::string> words = {"run",   "fluxmoe-mixtral",     "--set", "workload.output_tokens=40",
                                    "--set", "workload.requests=12"};
  words.insert(words.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, words);
}

}  // namespace

TEST_CASE("run: systems with pages are drawn over time, those that fit") {
  moelab::test::ScratchFolder folder;
  const std::string picture = (folder / "serving.svg").string();
  const ProgramResult result = run({"--plot", picture});
  CAPTURE(result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK(contains(result.out, "picture: " + picture + "\n"));
  CHECK(contains(result.out, "\nover time "));
  for (const char* row : {"tokens/s", "KV cache in use %", "residency %"}) CHECK(contains(result.out, row));

  const std::string svg = moelab::test::read_bytes(picture);
  const moelab::test::Element root = moelab::test::parse_xml(svg);
  CHECK(root.all("g", "series").size() == 6 * 3);  // panels and systems
  CHECK(contains(svg, "vllm does not fit"));
  for (const char* title : {"Throughput", "KV cache in use", "Experts in GPU memory", "Requests that run",
                            "Requests waiting or swapped", "KV cache to and from the host"})
    CHECK(contains(svg, title));

  const ProgramResult simgrid = run({"--system", "fluxmoe", "--executor", "simgrid", "--plot", picture});
  CAPTURE(simgrid.err);
  CHECK(simgrid.status == 0);
  CHECK(moelab::test::parse_xml(moelab::test::read_bytes(picture)).all("g", "series").size() == 6);
}

TEST_CASE("run: the series of a result add up to it") {
  const ProgramResult result = run({"--system", "fluxmoe", "--format", "json"});
  REQUIRE(result.status == 0);
  const auto json = nlohmann::json::parse(result.out);
  double tokens = 0, swapped = 0, begin = 0;
  for (const auto& sample : json["series"]) {
    CHECK(sample["begin_s"] == begin);
    const double end = sample["time_s"];
    tokens += sample["tokens_per_s"].get<double>() * (end - begin);
    swapped += sample["swap_in_bytes"].get<double>() + sample["swap_out_bytes"].get<double>();
    begin = end;
  }
  CHECK(begin == json["metrics"]["wall_s"]);
  CHECK(tokens == Approx(12 * 40));
  CHECK(swapped == Approx(json["serving"]["swap_in_bytes"].get<double>() +
                          json["serving"]["swap_out_bytes"].get<double>()));
}

TEST_CASE("run: a picture over time is of systems with pages, and has a place of its own") {
  moelab::test::ScratchFolder folder;
  const std::string picture = (folder / "serving.svg").string();
  const ProgramResult other = run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--plot", picture});
  CHECK(other.status == 2);
  CHECK(contains(other.err,
                 "--plot: draws serving from a paged KV cache over time; no system of scenario "
                 "'zipmoe-orin'"));
  CHECK_FALSE(std::filesystem::exists(picture));
  CHECK(run({"--plot", "/dev/null/no/a.svg"}).status == 2);
  const ProgramResult twice = run({"--plot", picture, "--out", picture});
  CHECK(twice.status == 2);
  CHECK(contains(twice.err, "is named for two outputs"));
}

TEST_CASE("run: where nothing fits there is a picture all the same, and a result") {
  moelab::test::ScratchFolder folder;
  const std::string picture = (folder / "serving.svg").string();
  const ProgramResult result = run({"--system", "vllm", "--plot", picture});
  CAPTURE(result.out, result.err);
  REQUIRE(result.status == 1);
  CHECK(contains(result.out, "picture: " + picture));
  CHECK(contains(result.out, "system 'vllm' does not fit"));
  CHECK_FALSE(contains(result.out, "over time"));
  CHECK(contains(moelab::test::read_bytes(picture), "vllm does not fit"));
}

}  // namespace moelab::run_plot_test
