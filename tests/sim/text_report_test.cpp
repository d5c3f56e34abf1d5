// Reports as plain text and as Markdown: what is dropped, marked, escaped; digits that count.
#include "sim/results/text_report.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace moelab::text_report_test {

TEST_CASE("text report: digits are as many as count, three at least") {
  // Of 8.301 one digit behind the point shows two that count; three take two behind it. And so on by size.
  CHECK(three_digits(8609.21, 1) == "8609.2");
  CHECK(three_digits(117.12, 1) == "117.1");
  CHECK(three_digits(66.8, 1) == "66.8");
  CHECK(three_digits(8.301, 1) == "8.30");
  CHECK(three_digits(0.7214, 1) == "0.721");
  CHECK(three_digits(-0.7214, 1) == "-0.721");
  CHECK(three_digits(0.0721, 2) == "0.0721");
  CHECK(three_digits(2.29, 2) == "2.29");
  CHECK(three_digits(0, 1) == "0.0");
  CHECK(three_digits(1e-30, 1) == "0.000000000000");  // a column has an end
  for (double value = 1e-9; value < 1e4; value *= 1.37)
    CHECK(std::abs(std::stod(three_digits(value, 0)) - value) <= 0.005 * value + 1e-12);
}

TEST_CASE("text report: tables without rows and columns without values are left out") {
  TextReport report(TextForm::plain, {"b"});
  report.add_lines("first\n");
  report.add_table({{{"system", "x"}}});
  report.add_table({{{"system", "x"}, {"a", "-"}}});
  report.add_table({{{"system", "x", "y", "z"}, {"a", "-", "1", ""}, {"b", "-", "-", ""}}});
  report.join_next();
  report.add_lines("joined\n");
  report.join_next();
  report.add_lines("");  // nothing, and what follows is not joined to what was before
  report.add_lines("apart\n");
  CHECK(report.text() == "first\n\nsystem  y\na       1\nb*      -\njoined\n\napart\n");
}

TEST_CASE("text report: Markdown, in which nothing of a text is markup") {
  TextReport report(TextForm::markdown, {"b"});
  report.add_lines("a *b* <c>\n  second\n");
  report.add_table({{{"sys|tem", "x"}, {"a\nb", "1"}, {"b", "-"}}});
  report.add_picture("``` |\n");
  report.join_next();
  report.add_lines("last\n");
  CHECK(report.text() ==
        "a \\*b\\* \\<c\\>\\\nsecond\n\n"
        "| sys\\|tem | x |\n| :-- | --: |\n| a b | 1 |\n| b\\* | - |\n\n"
        "````text\n``` |\n````\n\nlast\n");
}

}  // namespace moelab::text_report_test
