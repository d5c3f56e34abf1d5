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
  TextReport report(TextForm{}, {"b"});
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

TEST_CASE("text report: a table that is wider than the line goes on below it, by whole columns") {
  const TextTable table{
      {{"system", "TTFT", "TPOT", "tokens/s"}, {"a", "1.5", "20", "50"}, {"b", "2", "-", "7"}}};
  const auto at = [&](std::size_t width) {
    TextReport report(TextForm{.width = width});
    report.add_table(table);
    return report.text();
  };
  // 6 + 2 + 4 + 2 + 4 + 2 + 8 characters.
  const std::string whole =
      "system  TTFT  TPOT  tokens/s\na        1.5    20        50\nb          2     -         7\n";
  CHECK(at(0) == whole);
  CHECK(at(28) == whole);
  CHECK(at(27) ==
        "system  TTFT  TPOT\na        1.5    20\nb          2     -\n\n"
        "system  tokens/s\na             50\nb              7\n");
  CHECK(at(1) ==
        "system  TTFT\na        1.5\nb          2\n\nsystem  TPOT\na         20\nb          -\n\n"
        "system  tokens/s\na             50\nb              7\n");
}

TEST_CASE("text table: of names over several columns those are repeated that leave half of the line") {
  const std::vector<std::vector<std::string>> rows = {{"policy", "library", "x", "y"},
                                                      {"lru", "own", "1", "2"}};
  CHECK(align_columns(rows, 2, 19) == "policy  library  x\nlru     own      1\n\npolicy  y\nlru     2\n");
  CHECK(align_columns(rows, 2, 0) == "policy  library  x  y\nlru     own      1  2\n");
}

TEST_CASE("text lines: those longer than a line go on two columns further in, between words") {
  const std::string lines = "  one two three four\nshort\na-word-that-is-longer x\n";
  CHECK(wrapped_lines(lines, 0) == lines);
  CHECK(wrapped_lines(lines, 24) == lines);
  CHECK(wrapped_lines(lines, 12) == "  one two\n    three\n    four\nshort\na-word-that-is-longer\n  x\n");
  TextReport report(TextForm{.width = 12});
  report.add_lines("one two three four\n");
  CHECK(report.text() == "one two\n  three four\n");
}

TEST_CASE("text table: what goes on below has the name of its group") {
  const std::vector<std::vector<std::string>> rows = {
      {"system", "TTFT s p50", "p95", "p99", "tpot p95", "±", "mean", "p90"},
      {"a", "1", "2", "3", "4", "5", "6", "7"}};
  CHECK(align_columns(rows, 1, 24) ==
        "system  TTFT s p50  p95\na                1    2\n\n"
        "system  TTFT s p99\na                3\n\n"
        "system  tpot p95  ±\na              4  5\n\n"
        "system  mean  p90\na          6    7\n");
  CHECK(align_columns(rows, 1, 16) ==
        "system  TTFT s p50\na                1\n\n"
        "system  TTFT s p95\na                2\n\n"
        "system  TTFT s p99\na                3\n\n"
        "system  tpot p95\na              4\n\n"
        "system  tpot p95 ±\na                5\n\n"
        "system  mean\na          6\n\n"
        "system  p90\na         7\n");
}

TEST_CASE("text report: Markdown, in which nothing of a text is markup") {
  TextReport report(TextForm{.markdown = true}, {"b"});
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
