// What is wrong is said once, however many systems or files it is of.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/results/problem_lines.hpp"

namespace moelab::problem_lines_test {

using Lines = std::vector<std::string>;

TEST_CASE("problems that differ in their system alone are one line, which names all") {
  CHECK(problem_lines({{"a.yaml", 3, 5, "system 'x' is too large"},
                       {"a.yaml", 4, 5, "system 'y' is too large"},
                       {"a.yaml", 5, 5, "system 'z' is too small"},
                       {"a.yaml", 6, 5, "system 'w' is too large"}}) ==
        Lines{"a.yaml:3:5: system 'x' is too large (the same of y:4, w:6)",
              "a.yaml:5:5: system 'z' is too small"});
}

TEST_CASE("problems that differ in their file alone are one line") {
  CHECK(problem_lines({{"configs/a.yaml (with k='v')", 0, 0, "'v' is unknown"},
                       {"configs/b.yaml (with k='v')", 0, 0, "'v' is unknown"},
                       {"c.yaml", 7, 1, "'v' is unknown"}}) ==
        Lines{"configs/a.yaml (with k='v'): 'v' is unknown (the same of b.yaml, c.yaml:7)"});
}

TEST_CASE("what is wrong in two places of a file, or of no file, is said twice") {
  CHECK(problem_lines({{"a.yaml", 3, 1, "missing key 'name'"}, {"a.yaml", 9, 1, "missing key 'name'"}}) ==
        Lines{"a.yaml:3:1: missing key 'name'", "a.yaml:9:1: missing key 'name'"});
  CHECK(problem_lines({{"", 0, 0, "no"}, {"", 0, 0, "no"}}) == Lines{"no", "no"});
  CHECK(problem_lines({{"a", 0, 0, "system 'x"}}) == Lines{"a: system 'x"});  // a quote that does not end
  CHECK(problem_lines({}).empty());
}

}  // namespace moelab::problem_lines_test
