// moelab check-policy as a user meets it.
#include <catch2/catch.hpp>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"

namespace moelab::check_policy_command_test {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Json = nlohmann::json;

namespace {

ProgramResult check(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "check-policy");
  return run_program(MOELAB_PROGRAM, arguments);
}

}  // namespace

TEST_CASE("check-policy: a sentence for a policy that keeps the rules") {
  const ProgramResult r = check({"lru", "--instances", "1200"});
  CHECK(r.status == 0);
  CHECK(r.err.empty());
  CHECK(r.out == "policy lru of family cache: 1,200 instances, every rule held\n");
  CHECK(check({"lru", "--instances", "1200", "--family", "cache", "--seed", "9"}).out == r.out);
}

TEST_CASE("check-policy: a name that several families have is checked in each, or in the one asked for") {
  const ProgramResult all = check({"fifo", "--instances", "20"});
  CHECK(all.status == 0);
  CHECK(all.out ==
        "policy fifo of family cache: 20 instances, every rule held\n"
        "policy fifo of family schedule: 20 instances, every rule held\n");
  CHECK(check({"fifo", "--instances", "20", "--family", "schedule"}).out ==
        "policy fifo of family schedule: 20 instances, every rule held\n");
}

TEST_CASE("check-policy: instances that a policy does not take are counted") {
  const ProgramResult r =
      check({"uniform", "--family", "placement", "--instances", "100", "--format", "json"});
  REQUIRE(r.status == 0);
  const Json j = Json::parse(r.out);
  REQUIRE(j.size() == 1);
  CHECK(j[0]["policy"] == "uniform");
  CHECK(j[0]["family"] == "placement");
  CHECK(j[0]["instances"] == 100);
  CHECK(j[0]["held"] == true);
  CHECK(j[0]["broken"] == "");
  CHECK(j[0]["seed"] == 1);
  const int refused = j[0]["refused"];
  CHECK(refused > 0);
  CHECK_THAT(check({"uniform", "--instances", "100"}).out,
             Contains("100 instances (" + std::to_string(refused) + " it does not take), every rule held"));
}

TEST_CASE("check-policy: a policy that does not return in time is told as such, exit status 1") {
  const ProgramResult r = check({"lfu", "--instances", "100000000", "--time-limit", "0.2"});
  CHECK(r.status == 1);
  CHECK_THAT(r.out, StartsWith("policy lfu of family cache breaks a rule: instance ") &&
                        Contains(": it is still at it after 0.2 s (--time-limit)\n"));
}

TEST_CASE("check-policy: what it refuses") {
  check_refusal(check({"lruu"}), "no policy 'lruu' (did you mean 'lru'?)");
  check_refusal(check({"lru", "--family", "schedule"}), "no policy 'lru' of family schedule");
  check_refusal(check({"lru", "--family", "cach"}), "no family 'cach' (did you mean 'cache'?)");
  CHECK(check({}).status == 2);
  CHECK(check({"lru", "--instances", "0"}).status == 2);
  CHECK(check({"lru", "--seed", "-1"}).status == 2);
  CHECK(check({"lru", "--time-limit", "nan"}).status == 2);
}

}  // namespace moelab::check_policy_command_test
