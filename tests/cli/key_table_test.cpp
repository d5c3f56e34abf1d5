// The table of keys that the program has with it against the one that reading its files makes.
#include "cli/keys/key_table.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/keys/read_key_table.hpp"

namespace moelab::key_table_test {

TEST_CASE("the table of keys that was written while building is the one that is read", "[plain]") {
  const std::vector<cli::KeyRow> kept = cli::rows_of_key_document(cli::kept_key_document()),
                                 read = cli::read_key_table();
  REQUIRE(read.size() > 500);
  REQUIRE(kept.size() == read.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    INFO(read[i].path);
    CHECK((kept[i] == read[i]));
  }
  CHECK((cli::key_table() == kept));
}

TEST_CASE("a table of keys that was made with other policies is not taken") {
  const cli::KeyRow row{.path = "system.threads",
                        .forms = {{.path = "[]",
                                   .form = AskedKey::Form::integer,
                                   .bounds = " at least 1",
                                   .range = {1, std::numeric_limits<double>::infinity(), false, true},
                                   .choices = {"a", "b"},
                                   .fallback = ""},
                                  {}},
                        .sourced = true,
                        .needed = true,
                        .meaning = "\"threads\"",
                        .example = "4"};
  const std::string document = cli::key_document({row});
  CHECK((cli::rows_of_key_document(document) == std::vector<cli::KeyRow>{row}));
  nlohmann::ordered_json other = nlohmann::ordered_json::parse(document);
  other["policies"].erase(3);
  CHECK(cli::rows_of_key_document(other.dump()).empty());
}

}  // namespace moelab::key_table_test
