// moelab tune alpha: what it says to bad options.
#include <catch2/catch.hpp>

#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"

namespace moelab::tune_command_test {
namespace {

ProgramResult tune(std::vector<std::string> options) {
  std::vector<std::string> arguments = {"tune", "alpha", "zipmoe-orin"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, arguments);
}

}  // namespace

TEST_CASE("tune alpha: help ends with an example") {
  for (const auto& [words, example] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"tune", "--help"}, "budget"}, {{"tune", "alpha", "--help"}, "alpha"}}) {
    const ProgramResult help = run_program(MOELAB_PROGRAM, words);
    CHECK(help.status == 0);
    CHECK(help.out.find("Example:\n  moelab tune " + example + " ") != std::string::npos);
  }
}

TEST_CASE("tune alpha: a system without a threshold, an unknown one, a missing one") {
  check_refusal(
      tune({"--system", "zipmoe", "--tpot", "40ms"}),
      "moelab: --system zipmoe: its routing policy, 'model', has no alpha; expected a system with one "
      "that has: 'smoe'\n");
  check_refusal(tune({"--system", "zipmo", "--tpot", "40ms"}),
                "scenario 'zipmoe-orin' has no such system (did you mean 'zipmoe'?)");
  CHECK(tune({"--tpot", "40ms"}).status == 2);
  CHECK(tune({"--system", "zipmoe"}).status == 2);
}

TEST_CASE("tune alpha: a budget is a time above 0") {
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40"}), "--tpot 40: expected a time with a unit");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "0ms"}), "--tpot 0ms: expected a time above 0");
  check_refusal(tune({"--system", "zipmoe", "--tpot=-1ms"}), "--tpot -1ms: expected a time above 0");
}

TEST_CASE("tune alpha: as many points as the polynomial takes, alphas below 1, a place for the picture") {
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--points", "2"}),
                "--points 2: a polynomial of degree 2 takes 3 points at least");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--points", "1"}), "--points");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--max", "1"}), "--max");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--max", "nan"}), "--max");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--degree", "0"}), "--degree");
  check_refusal(tune({"--system", "zipmoe", "--tpot", "40ms", "--plot", "/dev/null/no/a.svg"}),
                "/dev/null is no folder");
}

}  // namespace moelab::tune_command_test
