// The bounds of each kind of quantity, and that all readers of files keep to them.
#include "models/physical_bounds.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "models/yaml_reader.hpp"

namespace moelab::physical_bounds_test {
namespace {

template <class Q>
void check_ends() {
  const PhysicalBounds bounds = physical_bounds(Q());
  for (const double end : {bounds.least, bounds.most}) {
    INFO("end " << end);
    CHECK(beyond_physical(Q(end)).empty());
    CHECK(beyond_physical(Q(-end)).empty());
    const double outside = std::nextafter(end, end == bounds.least ? 0 : 2 * end);
    CHECK(!beyond_physical(Q(outside)).empty());
    CHECK(!beyond_physical(Q(-outside)).empty());
  }
  CHECK(beyond_physical(Q(0)).empty());
  for (const double none : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::denorm_min()})
    CHECK(!beyond_physical(Q(none)).empty());
  // Squares of what passes neither overflow nor vanish: products of two are normal numbers.
  CHECK(std::isnormal(bounds.most * bounds.most));
  CHECK(std::isnormal(bounds.least * bounds.least));
}

/// The bounds as a message shows them read back as those of the table.
template <class Q>
void check_shown() {
  const PhysicalBounds bounds = physical_bounds(Q());
  const std::string said = beyond_physical(Q(2 * bounds.most)), mark = "; expected ";
  const std::string shown = said.substr(said.find(mark) + mark.size());
  const std::size_t middle = shown.find(" to ");
  Q least, most;
  std::string expected;
  REQUIRE(parse(shown.substr(0, middle), least, expected));
  REQUIRE(parse(shown.substr(middle + 4), most, expected));
  CHECK(least.value() == Approx(bounds.least).epsilon(1e-15));
  CHECK(most.value() == Approx(bounds.most).epsilon(1e-15));
}

template <class Q>
std::string said_of(const std::string& text, Range<Q> range) {
  Problems problems;
  YamlDocument::from_text("in.yaml", "a: 1\nkey: " + text + "\n", problems).root().quantity<Q>("key", range);
  return problems.empty() ? "" : to_string(problems.all().front());
}

std::string said_of_number(const std::string& text) {
  Problems problems;
  YamlDocument::from_text("in.yaml", "a: 1\nkey: " + text + "\n", problems)
      .root()
      .number("key", {-1e300, 1e300});
  return problems.empty() ? "" : to_string(problems.all().front());
}

}  // namespace

TEST_CASE("physical bounds: the ends pass and what is next to them does not") {
  check_ends<Seconds>();
  check_ends<Bytes>();
  check_ends<BytesPerSecond>();
  check_ends<Flops>();
  check_ends<FlopsPerSecond>();
  check_ends<double>();
  check_shown<Seconds>();
  check_shown<Bytes>();
  check_shown<BytesPerSecond>();
  check_shown<Flops>();
  check_shown<FlopsPerSecond>();
}

TEST_CASE("physical bounds: what real and planned machines have passes") {
  CHECK(beyond_physical(BytesPerSecond(2.1e16)).empty());  // WSE-3: 21 PB/s of memory on the wafer
  CHECK(beyond_physical(Bytes(1e5 * 288e9)).empty());      // 100,000 GPUs of 288 GB
  CHECK(beyond_physical(FlopsPerSecond(1e5 * 1e16)).empty());
  CHECK(beyond_physical(Seconds(30e-12)).empty());              // a cycle at 33 GHz
  CHECK(beyond_physical(Seconds(20 * 365 * 86400.0)).empty());  // twenty years
}

TEST_CASE("physical bounds: a file's error names place, value and bounds") {
  CHECK(said_of("1e15 GB/s", above(BytesPerSecond(0))) ==
        "in.yaml:2:6: '1e15 GB/s' for key is more than any machine has; expected 1 B/s to 1e6 TB/s");
  CHECK(said_of("5e-324 GB", above(Bytes(0))) ==
        "in.yaml:2:6: '5e-324 GB' for key is less than a byte; expected 1 B to 1e6 TB");
  // 5e-324 us are no double of seconds but 0, which the range has: it is not nothing all the same.
  CHECK(said_of("5e-324 us", at_least(Seconds(0))).find("less than any machine can tell apart") !=
        std::string::npos);
  CHECK(said_of("0 us", at_least(Seconds(0))).empty());
  CHECK(said_of("0 us", above(Seconds(0))).find("out of range") != std::string::npos);
  // Where 0 may stand a number that is nearer to it than anything is 0: the tail of a distribution.
  CHECK(said_of_number("5e-324").empty());
  CHECK(said_of_number("-3e-17").empty());
  Problems problems;
  const YamlDocument tail = YamlDocument::from_text("in.yaml", "key: 9e-13\n", problems);
  CHECK(tail.root().number("key", {0, 1}) == 0);
  YamlDocument::from_text("in.yaml", "key: 9e-13\n", problems).root().number("key", above(0.0));
  REQUIRE(problems.all().size() == 1);
  CHECK(problems.all().front().what.find("nearer to 0") != std::string::npos);
  CHECK(said_of_number("-2e18").find("more than anything it could count") != std::string::npos);
  CHECK(said_of_number("0").empty());
  for (const char* const none : {"nan", ".nan", "inf", "-inf", ".inf", "1e999"}) {
    CHECK(!said_of_number(none).empty());
    CHECK(!said_of(std::string(none) + " s", at_least(Seconds(0))).empty());
  }
}

}  // namespace moelab::physical_bounds_test
