// A text that is read again: as if it were read for the first time.
#include <catch2/catch.hpp>
#include <string>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::yaml_again_test {

constexpr const char* kText = "name: a\nssd: {bandwidth: 3, queues: [1, 2]}\n";

TEST_CASE("YAML: what is set in a document is not in the next one of the same text") {
  Problems problems;
  const std::string before = YamlDocument::from_text("first", kText, problems).node().json();
  YamlDocument changed = YamlDocument::from_text("second", kText, problems);
  changed.set("ssd.queues.1", "7");
  changed.set("ssd.more", "8");
  CHECK(changed.node().json() != before);
  CHECK(YamlDocument::from_text("third", kText, problems).node().json() == before);
  CHECK(problems.empty());
}

TEST_CASE("YAML: problems of a text that was read before name this document and their lines") {
  for (const std::string name : {"first", "second"}) {
    Problems problems;
    const YamlDocument document = YamlDocument::from_text(name, kText, problems);
    document.root().map("ssd").number("queues", {0, 10});
    REQUIRE(problems.all().size() == 1);
    CHECK(problems.all().front().file == name);
    CHECK(problems.all().front().line == 2);
  }
}

TEST_CASE("YAML: a text with a problem has it each time") {
  for (int time = 0; time < 3; ++time)
    for (const char* text : {"a: 1\na: 2\n", "a: [1\n"}) {
      Problems problems;
      YamlDocument::from_text("file", text, problems);
      CHECK(problems.all().size() == 1);
    }
  // Also where the list of problems is full, so that one more does not make it longer.
  Problems full;
  for (std::size_t i = 0; i < Problems::kMost; ++i) full.add({"other", 1, 1, "wrong"});
  YamlDocument::from_text("file", "b: 1\nb: 2\n", full);
  Problems problems;
  YamlDocument::from_text("file", "b: 1\nb: 2\n", problems);
  CHECK(problems.all().size() == 1);
}

}  // namespace moelab::yaml_again_test
