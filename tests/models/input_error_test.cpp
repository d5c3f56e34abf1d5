#include "models/input_error.hpp"

#include <catch2/catch.hpp>

namespace moelab::input_error_test {

TEST_CASE("of a thousand problems all are named, of more how many there are") {
  Problems problems;
  for (int i = 0; i < 1234; ++i) problems.add({"f", i + 1, 0, "wrong"});
  try {
    problems.throw_if_any();
    FAIL("nothing thrown");
  } catch (const InputError& error) {
    CHECK(error.problems().size() == 1001);
    CHECK(error.problems()[999].line == 1000);
    CHECK(error.problems().back().what == "and 234 problems more");
  }
}

}  // namespace moelab::input_error_test
