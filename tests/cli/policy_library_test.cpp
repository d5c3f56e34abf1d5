// Libraries of policies from outside: what they bring does the same as what moelab has, and one that cannot
// be used is refused before anything runs.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "policies/policy_library.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"

namespace moelab::policy_library_test {
namespace {

using Json = nlohmann::ordered_json;

std::string library(const std::string& name) {
  return MOELAB_LIBRARIES "/lib" + name + ".so";
}

ProgramResult moelab(std::vector<std::string> arguments, const std::string& with) {
  if (!with.empty()) arguments.insert(arguments.end(), {"--policy-library", library(with)});
  return run_program(MOELAB_PROGRAM, arguments);
}

/// A small run, its policy chosen by `setting`, without what says where the policy came from.
Json run(const std::vector<std::string>& what, const std::string& setting, const std::string& policy,
         const std::string& with) {
  std::vector<std::string> arguments = {"run", "--format", "json"};
  arguments.insert(arguments.end(), what.begin(), what.end());
  arguments.insert(arguments.end(), {"--set", setting + "=" + policy});
  const ProgramResult result = moelab(arguments, with);
  CAPTURE(result.err, policy);
  REQUIRE(result.status == 0);
  Json json = Json::parse(result.out);
  json.erase("inputs");
  std::string text = json.dump();
  if (!with.empty())
    for (std::size_t at = 0; (at = text.find(policy, at)) != std::string::npos;)
      text.erase(at, std::string_view("my-").size());
  return Json::parse(text);
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("moelab_library_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

const std::vector<std::string> kSmall = {"--set", "workload.requests=2", "--set",
                                         "workload.output_tokens=16"};

std::vector<std::string> small(std::vector<std::string> what) {
  what.insert(what.end(), kSmall.begin(), kSmall.end());
  return what;
}

}  // namespace

TEST_CASE("policy library: a policy does the same whether it is moelab's or a library's") {
  struct Case {
    std::vector<std::string> what;
    std::string setting, policy;
  };
  const std::vector<Case> cases = {
      {small({"zipmoe-orin", "--system", "zipmoe-lru"}), "overrides.system.cache.policy", "lru"},
      {small({"zipmoe-orin", "--system", "zipmoe-lru"}), "overrides.system.cache.policy", "lfu"},
      {small({"zipmoe-orin", "--system", "zipmoe"}), "overrides.system.cache.policy", "zipmoe"},
      {small({"smoe-deepseek-3080ti", "--system", "smoe"}), "overrides.system.routing.policy", "smoe"},
      {small({"zipmoe-orin", "--system", "zipmoe", "--set", "workload.arrivals_per_s=0.1"}),
       "overrides.system.batching.policy", "vllm-v1"},
      {{"prism-deepseek-bigbench", "--system", "uniform", "--executor", "fast", "--set",
        "workload.servers=[{server: server1, tasks: {abstract-narrative: 1}, requests: 4, arrivals_per_s: "
        "1}, "
        "{server: server2, tasks: {arithmetic: 1}, requests: 4, arrivals_per_s: 1}]"},
       "overrides.system.placement.policy",
       "uniform"}};
  for (const Case& c : cases) {
    CAPTURE(c.setting, c.policy);
    const Json shipped = run(c.what, c.setting, c.policy, "");
    CHECK(run(c.what, c.setting, "my-" + c.policy, "same_policies") == shipped);
  }
}

TEST_CASE("policy library: named in a scenario, beside it, or by the environment") {
  const Folder folder;
  std::filesystem::copy_file(library("same_policies"), folder.file("same.so"));
  const ProgramResult plain =
      run_program(MOELAB_PROGRAM, small({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--format", "json",
                                         "--set", "overrides.system.cache.policy=my-lru", "--set",
                                         "policy_libraries=[" + folder.file("same.so") + "]"}));
  CAPTURE(plain.err);
  REQUIRE(plain.status == 0);
  const Json result = Json::parse(plain.out);
  SECTION("its digest and path stand in the result, which can be explained from them") {
    CHECK(result["inputs"]["scenario"]["policy_libraries"] == Json{folder.file("same.so")});
    std::size_t found = 0;
    for (const Json& data : result["inputs"]["data"]) found += data["file"] == folder.file("same.so") ? 1 : 0;
    CHECK(found == 1);
    std::ofstream(folder.file("result.json")) << plain.out;
    const ProgramResult explained = run_program(MOELAB_PROGRAM, {"explain", folder.file("result.json")});
    CAPTURE(explained.err);
    CHECK(explained.status == 0);
  }
  SECTION("a library that no system uses is not of the run") {
    const ProgramResult unused =
        run_program(MOELAB_PROGRAM, small({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--format", "json",
                                           "--set", "policy_libraries=[" + folder.file("same.so") + "]"}));
    CAPTURE(unused.err);
    REQUIRE(unused.status == 0);
    CHECK(!Json::parse(unused.out)["inputs"]["scenario"].contains("policy_libraries"));
  }
  SECTION("the environment names folders and files") {
    for (const std::string& path : {folder.file(""), "::" + folder.file("same.so")}) {
      setenv("MOELAB_POLICY_PATH", path.c_str(), 1);
      const ProgramResult listed = run_program(MOELAB_PROGRAM, {"policies", "--format", "json"});
      const ProgramResult help = run_program(MOELAB_PROGRAM, {"policies", "--help"});
      unsetenv("MOELAB_POLICY_PATH");
      REQUIRE(listed.status == 0);
      std::size_t found = 0;
      for (const Json& policy : Json::parse(listed.out))
        if (policy.contains("library")) {
          CHECK(policy["library"] == folder.file("same.so"));
          ++found;
        }
      CHECK(found == 6);
      CHECK(help.status == 0);
    }
    setenv("MOELAB_POLICY_PATH", "/nowhere/at/all.so", 1);
    const ProgramResult missing = run_program(MOELAB_PROGRAM, {"policies"});
    const ProgramResult version = run_program(MOELAB_PROGRAM, {"--version"});
    unsetenv("MOELAB_POLICY_PATH");
    check_refusal(
        missing,
        "/nowhere/at/all.so: cannot be opened: No such file or directory (named by MOELAB_POLICY_PATH)");
    CHECK(version.status == 0);
  }
}

TEST_CASE("policy library: `compare`, `sweep` and `check` know its policies", "[plain]") {
  const ProgramResult compared = moelab(small({"compare", "zipmoe-orin", "--system", "zipmoe-lru", "--cache",
                                               "lru,my-lru,my-lfu", "--format", "json"}),
                                        "same_policies");
  CAPTURE(compared.err);
  REQUIRE(compared.status == 0);
  CHECK(contains(compared.out, "my-lfu"));
  CHECK(moelab({"check", "zipmoe-orin", "--set", "systems=[zipmoe-lru]", "--set",
                "overrides.system.cache.policy=my-lru"},
               "same_policies")
            .status == 0);
  check_refusal(moelab({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                        "overrides.system.cache.policy=my-lur"},
                       "same_policies"),
                "did you mean 'my-lru'?");

  const Folder folder;
  std::ofstream(folder.file("sweep.yaml"))
      << "name: libraries\nquestion: Same?\nscenario: zipmoe-orin\nset: {workload.requests: 1, "
         "workload.output_tokens: 4}\n"
         "systems: [zipmoe-lru]\naxes:\n  overrides.system.cache.policy: [lru, my-lru]\n";
  const ProgramResult swept = moelab(
      {"sweep", folder.file("sweep.yaml"), "--db", folder.file("r.db"), "--format", "json"}, "same_policies");
  CAPTURE(swept.err);
  REQUIRE(swept.status == 0);
  CHECK(Json::parse(swept.out)["done"] == 2);
}

TEST_CASE("policy library: one that cannot be used is refused with the reason") {
  const auto refused = [](const std::string& file, const std::string& reason) {
    check_refusal(run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--policy-library", file}), reason);
  };
  refused(library("future"), "was compiled for interface " + std::to_string(kPolicyInterface + 1) +
                                 " of policies, and this is " + std::to_string(kPolicyInterface));
  refused(library("other_layout"), "was compiled with another standard library");
  refused(library("empty"), "has no policies");
  refused(library("no_library"), "is no library of policies: it has no moelab_policy_interface");
  refused(library("taken"), "policy 'lru' of family cache is there already, as one of moelab's own");
  for (const std::string reason :
       {"policy 'Not A Name' of family cache has no name of small letters",
        "has no help: a line that says what it does", "has no function that makes it",
        "has a parameter 'policy' that has the name of another key of systems",
        "has a parameter 'high' that has a default outside its range",
        "has a parameter 'mute' that has no help", "has control characters in its help or source",
        "policy 'twice' of family cache is there twice"})
    refused(library("bad_entries"), reason);

  const Folder folder;
  refused(folder.file("none.so"), "cannot be opened: No such file or directory");
  refused(folder.file(""), "is not a regular file, expected a shared library");
  std::ofstream(folder.file("text.so")) << "no library";
  refused(folder.file("text.so"), "cannot be loaded: ");
  std::filesystem::copy_file(library("same_policies"), folder.file("open.so"));
  REQUIRE(chmod(folder.file("open.so").c_str(), 0666) == 0);
  refused(folder.file("open.so"), "can be written, or put into its folder, by other users");
  REQUIRE(mkfifo(folder.file("pipe.so").c_str(), 0600) == 0);
  refused(folder.file("pipe.so"), "is not a regular file");
}

TEST_CASE("policy library: what a refused one brings beside its faults is not there") {
  check_refusal(moelab({"run", "zipmoe-orin", "--set", "overrides.system.cache.policy=good"}, "taken"),
                "is there already");
}

TEST_CASE("policy library: a policy that breaks a rule ends the run, with the rule and the step") {
  const auto broken = [](const std::string& name, const std::string& rule) {
    const ProgramResult result = moelab(small({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                                               "overrides.system.cache.policy=faulty"}),
                                        name);
    check_refusal(result, rule);
    CHECK(contains(result.err, "policy 'faulty'"));
    CHECK(contains(result.err, "lib" + name + ".so"));
    CHECK(contains(result.err, "step"));
  };
  broken("throws", "no idea what to keep");
  broken("too_much", "its memory is");
}

TEST_CASE("policy library: a policy that ends the process leaves no run that looks done") {
  for (const std::string name : {"crashes", "exits"}) {
    const ProgramResult result = moelab(small({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                                               "overrides.system.cache.policy=faulty"}),
                                        name);
    check_refusal(result, "lib" + name + ".so: its policies ended the run: ");
  }
}

TEST_CASE("policy library: an answer that the loop counts on is looked at when it is given") {
  const ProgramResult result = moelab(small({"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                                             "overrides.system.cache.policy=faulty"}),
                                      "pretends");
  check_refusal(result, "which was neither used nor prefetched");
}

TEST_CASE("policy library: a file by two names is loaded once, a copy is another library") {
  const Folder folder;
  std::filesystem::copy_file(library("same_policies"), folder.file("same.so"));
  std::filesystem::copy_file(library("same_policies"), folder.file("later.so"));
  std::filesystem::create_symlink(folder.file("same.so"), folder.file("link.so"));
  const ProgramResult twice =
      run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--policy-library", folder.file("same.so"),
                                   "--policy-library", folder.file("link.so")});
  CAPTURE(twice.err);
  CHECK(twice.status == 0);
  check_refusal(
      run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--policy-library", folder.file("same.so"),
                                   "--policy-library", folder.file("later.so")}),
      "is there already, from " + folder.file("same.so"));
}

TEST_CASE("policy library: what is not asked for policies does without") {
  setenv("MOELAB_POLICY_PATH", "/nowhere/at/all.so", 1);
  CHECK(run_program(MOELAB_PROGRAM, {"models"}).status == 0);
  CHECK(run_program(MOELAB_PROGRAM, {"keys", "system.cache"}).status == 0);
  unsetenv("MOELAB_POLICY_PATH");
}

TEST_CASE("policy library: a policy that crashes or hangs is found by `check-policy`") {
  const auto found = [](const std::string& name, std::vector<std::string> more, const std::string& rule) {
    std::vector<std::string> arguments = {"check-policy", "faulty"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = moelab(arguments, name);
    CAPTURE(result.out, result.err);
    CHECK(result.status == 1);
    CHECK(contains(result.out, rule));
  };
  found("throws", {}, "no idea what to keep");
  found("too_much", {}, "its memory is");
  found("crashes", {}, "signal 6");
  found("hangs", {"--time-limit", "1"}, "it is still at it after 1.0 s");
}

}  // namespace moelab::policy_library_test
