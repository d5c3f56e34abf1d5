// moelab show: configurations as they are, and scenarios with everything filled in.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::show_command_test {
namespace {

using Json = nlohmann::json;

ProgramResult show(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "show");
  return run_program(MOELAB_PROGRAM, arguments);
}

std::string text_of_file(const std::string& path) {
  return test::read_bytes(MOELAB_SOURCE_DIR "/" + path);
}

}  // namespace

TEST_CASE("show prints every configuration as its file is, behind a line that says what it is", "[plain]") {
  std::size_t number = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(MOELAB_SOURCE_DIR "/configs")) {
    if (file.path().extension() != ".yaml") continue;
    if (++number % test::random_runs(std::size_t{1}, std::size_t{5}) != 0) continue;
    const std::string kind = file.path().parent_path().filename(), name = file.path().stem();
    const std::string path = "configs/" + kind + "/" + name + ".yaml";
    const ProgramResult shown = show({name, "--kind", kind});
    CAPTURE(path, shown.err);
    CHECK(shown.status == 0);
    const std::string one = kind.substr(0, kind.size() - (kind.back() == 's' ? 1 : 0));
    CHECK((shown.out ==
           "# A " + one + ", from " + path + ", as built into this program\n" + text_of_file(path)));
  }
  CHECK(number > 150);
}

TEST_CASE("show finds a name among all kinds, and files by their path") {
  CHECK(contains(show({"zipmoe-orin"}).out, "# A scenario, from configs/scenarios/zipmoe-orin.yaml"));
  CHECK(contains(show({"jetson-agx-orin-64gb"}).out, "# A device, from "));
  CHECK(contains(show({"configs/systems/zipmoe.yaml"}).out, "# A system, from "));
  const test::ScratchFolder folder;
  const std::string path = (folder / "mine.yaml").string();
  for (const auto& [kind, file] :
       std::vector<std::pair<std::string, std::string>>{{"scenario", "scenarios/zipmoe-orin"},
                                                        {"sweep", "sweeps/orin-budgets"},
                                                        {"system", "systems/zipmoe"},
                                                        {"device", "devices/a100-40gb"},
                                                        {"cluster", "clusters/edge-a100-3"},
                                                        {"model", "models/gpt-oss-20b"},
                                                        {"law", "laws/gpt-oss-20b"},
                                                        {"runtime", "runtimes/vllm"}}) {
    const std::string text = text_of_file("configs/" + file + ".yaml");
    std::ofstream(path) << text;
    CHECK(show({path}).out == "# A " + kind + ", from " + path + "\n" + text);
  }
}

TEST_CASE("show says what a name could mean") {
  check_refusal(show({"vllm"}), "'vllm' is a runtime and a system; expected --kind runtime or --kind system");
  check_refusal(show({"zipmo-orin"}), "no configuration is named 'zipmo-orin' (did you mean 'zipmoe-orin'?)");
  check_refusal(show({"vlm", "--kind", "system"}), "unknown system 'vlm' (did you mean 'vllm'?)");
  check_refusal(show({"vllm", "--kind", "sistem"}), "no such kind (did you mean 'system'?)");
  check_refusal(show({"no-such.yaml"}), "there is no such file");
  check_refusal(show({"jetson-agx-orin-64gb", "--resolved"}), "only scenarios name other files");
  check_refusal(show({"zipmoe-orin", "--set", "seed=2"}), "expected --resolved with it");
}

TEST_CASE(
    "show --resolved prints a scenario that runs to the same result and names no model, device or system") {
  const test::ScratchFolder folder;
  const std::string path = (folder / "whole.yaml").string();
  const std::vector<std::string> settings = {
      "--set", "workload.requests=1",      "--set", "workload.output_tokens=3",
      "--set", "workload.prompt_tokens=4", "--set", "overrides.system.page_cache=false"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return run_program(MOELAB_PROGRAM, arguments);
  };
  const ProgramResult resolved = with({"show", "zipmoe-orin", "--resolved"});
  REQUIRE(resolved.status == 0);
  std::ofstream(path) << resolved.out;
  const Json document = Json::parse(show({path, "--format", "json"}).out);
  for (const char* key : {"model", "device"}) CHECK(document[key].is_object());
  for (const Json& system : document["systems"]) CHECK(system.is_object());
  CHECK(document == Json::parse(with({"show", "zipmoe-orin", "--resolved", "--format", "json"}).out));

  const Json there = Json::parse(with({"run", "zipmoe-orin", "--system", "zipmoe", "--format", "json"}).out);
  const ProgramResult run =
      run_program(MOELAB_PROGRAM, {"run", path, "--system", "zipmoe", "--format", "json"});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  const Json here = Json::parse(run.out);
  for (const char* key : {"metrics", "hits", "bytes", "busy_s"}) CHECK(here[key] == there[key]);
}

TEST_CASE("every scenario can be resolved, and reads back as the same", "[long]") {
  const test::ScratchFolder folder;
  const std::string path = (folder / "whole.yaml").string();
  for (const auto& file : std::filesystem::directory_iterator(MOELAB_SOURCE_DIR "/configs/scenarios")) {
    const std::string name = file.path().stem();
    CAPTURE(name);
    std::ofstream(path) << show({name, "--kind", "scenario", "--resolved"}).out;
    CHECK(show({path, "--kind", "scenario", "--resolved", "--format", "json"}).out ==
          show({name, "--kind", "scenario", "--resolved", "--format", "json"}).out);
  }
}

}  // namespace moelab::show_command_test
