// moelab records: the records of machines that the project has are good, and its page shows them as they are.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::records_command_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

const std::filesystem::path kMachines = std::filesystem::path(MOELAB_SOURCE_DIR) / "hw/machines";

ProgramResult records(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"records"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_program(MOELAB_PROGRAM, all);
}

/// Of the page: what stands between two of its lines.
std::string between(const std::string& page, const std::string& first, const std::string& last) {
  const std::size_t begin = page.find(first + "\n"), end = page.find(last + "\n");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  REQUIRE(begin < end);
  return page.substr(begin + first.size() + 1, end - begin - first.size() - 1);
}

std::string good_record() {
  for (const auto& entry : std::filesystem::directory_iterator(kMachines))
    if (entry.path().extension() == ".json") return read_bytes(entry.path());
  FAIL("hw/machines has no record");
  return "";
}

}  // namespace

TEST_CASE("records: the page of machines shows the records that lie beside it") {
  const ProgramResult result = records({kMachines.string(), "--format", "markdown"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  const std::string shown =
      between(read_bytes(kMachines / "README.md"), "<!-- records -->", "<!-- end of records -->");
  INFO(
      "hw/machines/README.md does not show what its records say; 'hw/machines/write_table.py PROGRAM', with "
      "the moelab that was built, writes its tables anew");
  CHECK(shown == "\n" + result.out + "\n");
}

TEST_CASE("records: files and folders, as tables and as JSON") {
  const ScratchFolder folder;
  const std::string text = good_record();
  write_bytes(folder / "one.json", text);
  write_bytes(folder / "two.json", text);
  write_bytes(folder / "notes.md", "no record");
  const ProgramResult json = records({folder.path().string(), "--format", "json"});
  REQUIRE(json.status == 0);
  const auto all = nlohmann::json::parse(json.out);
  CHECK(all.size() == 2);
  CHECK(all[0] == nlohmann::json::parse(text));
  const ProgramResult table = records({(folder / "one.json").string()});
  CHECK(table.status == 0);
  CHECK_THAT(table.out, Contains("layers off by") && Contains(all[0]["work"]["scenario"].get<std::string>()));
}

TEST_CASE("records: what is no record is refused with file and line") {
  const ScratchFolder folder;
  check_refusal(records({folder.path().string()}), "has no file that ends in .json");
  check_refusal(records({(folder / "none.json").string()}), "none.json");
  check_refusal(records({""}), "expected the name of a file");
  std::string text = good_record();
  text.insert(text.find("\"cores\""), "\"hostname\": \"box\",\n    ");
  write_bytes(folder / "one.json", text);
  check_refusal(records({folder.path().string()}), "unknown key 'hostname'");
  write_bytes(folder / "one.json", "{\"format\": \"moelab-validation\", \"format_version\": 1}");
  check_refusal(records({folder.path().string()}), "one.json:1");
}

}  // namespace moelab::records_command_test
