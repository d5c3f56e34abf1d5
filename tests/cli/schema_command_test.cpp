// moelab schema: kinds, files and libraries; tests/python/schema_test.py holds what it prints against files
// and the reader.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::schema_command_test {
namespace {

using Json = nlohmann::json;

ProgramResult schema(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "schema");
  return run_program(MOELAB_PROGRAM, arguments);
}

}  // namespace

TEST_CASE("schema lists its kinds, prints one, and writes it to a file") {
  CHECK(contains(schema({}).out, "\nscenario  what is simulated"));
  const ProgramResult printed = schema({"system"});
  CHECK(Json::parse(printed.out)["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  const test::ScratchFolder folder;
  const std::string file = (folder / "system.json").string();
  CHECK(schema({"system", "--out", file}).status == 0);
  CHECK(test::read_bytes(file) == printed.out);
  check_refusal(schema({"sistem"}), "no kind of files 'sistem' (did you mean 'system'?)");
  CHECK(schema({"--out", (folder / "all").string()}).status == 0);
  CHECK(test::read_bytes((folder / "all/system.schema.json").string()) == printed.out);
  CHECK(std::filesystem::exists(folder / "all/sweep.schema.json"));
  check_refusal(schema({"--out", file}), "cannot be made");  // a file, not a folder
}

TEST_CASE("keys of a schema are those of the table, with what they mean, their range and their default") {
  const Json workload = Json::parse(schema({"scenario"}).out)["properties"]["workload"];
  CHECK(workload["additionalProperties"] == false);
  const Json& batch = workload["properties"]["batch"];
  CHECK(batch["type"] == "integer");
  CHECK(batch["minimum"] == 1);
  CHECK(batch["maximum"] == 4096);
  CHECK(batch["default"] == 1);
  for (const Json& row :
       Json::parse(run_program(MOELAB_PROGRAM, {"keys", "workload.batch", "--format", "json"}).out))
    CHECK(contains(batch["description"].get<std::string>(), row["meaning"].get<std::string>()));
}

TEST_CASE("in a scenario's schema a part of one's own has the keys of a table's row") {
  const Json machine = Json::parse(schema({"scenario"}).out)["properties"]["machine"]["properties"];
  const struct {
    const char *part, *key;
  } parts[] = {{"gpu", "bandwidth"}, {"cpu", "cores"}, {"ssd", "latency"}};
  for (const auto& [part, key] : parts) {
    CAPTURE(part, machine[part]);
    const Json& map = machine[part]["anyOf"].back();
    CHECK(map["type"] == "object");
    CHECK(map["properties"].contains(key));
    const auto needed = map["required"].get<std::vector<std::string>>();
    CHECK(std::count(needed.begin(), needed.end(), key) == 1);
    CHECK(std::count(needed.begin(), needed.end(), "source") == 0);
  }
}

TEST_CASE("a schema knows the policies of a library that it is given") {
  const auto policies = [](const ProgramResult& printed) {
    return Json::parse(printed.out)["properties"]["cache"]["properties"]["policy"]["enum"].dump();
  };
  const std::string library = MOELAB_LIBRARIES "/libsame_policies.so";
  const ProgramResult with = schema({"system", "--policy-library", library});
  CAPTURE(with.err);
  REQUIRE(with.status == 0);
  CHECK(contains(policies(with), "\"my-lru\""));
  CHECK_FALSE(contains(policies(schema({"system"})), "\"my-lru\""));
}

}  // namespace moelab::schema_command_test
