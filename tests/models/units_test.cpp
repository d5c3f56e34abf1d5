#include "models/units.hpp"
#include "models/unit_names.hpp"
#include "tests/random_runs.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace moelab::units_test {
namespace {

template <class Q>
double read(const std::string& text) {
  Q out(-1);
  std::string expected;
  INFO("text: '" << text << "'");
  REQUIRE(parse(text, out, expected));
  return out.value();
}

template <class Q>
std::string refusal(const std::string& text) {
  Q out(-77);
  std::string expected;
  INFO("text: '" << text << "'");
  CHECK_FALSE(parse(text, out, expected));
  CHECK(out.value() == -77);  // untouched
  return expected;
}

/// Log-uniform between 10^low and 10^high, either sign.
double random_magnitude(std::mt19937_64& random, double low, double high) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  const double value = std::pow(10.0, low + (high - low) * unit);
  return random() % 4 == 0 ? -value : value;
}

/// Digits of the number at the head of a text, without leading and trailing zeros.
std::size_t significant_digits(const std::string& text) {
  std::string digits;
  for (const char c : text.substr(0, text.find_first_of(" e"))) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return 0;
  return digits.find_last_not_of('0') - first + 1;
}

template <class Q>
void check_round_trip(double low, double high) {
  std::mt19937_64 random(20240711);
  for (int i = 0; i < moelab::test::random_runs(20000); ++i) {
    const double value = random_magnitude(random, low, high);
    const std::string text = to_string(Q(value));
    INFO("value " << value << " text '" << text << "'");
    // Four significant digits: half a unit of the fourth is at most 0.5e-3 of the value.
    REQUIRE(std::abs(read<Q>(text) - value) <= 0.5e-3 * (1 + 1e-9) * std::abs(value));
    REQUIRE(significant_digits(text) <= 4);
    REQUIRE(text.find('e') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("units mean what SI and IEC define") {
  // Each expected value is the number times the unit's definition, worked out by hand.
  struct Row {
    const char* text;
    double expected;
  };
  for (const Row& row : std::vector<Row>{{"1 s", 1},
                                         {"900 us", 900e-6},
                                         {"900us", 900e-6},
                                         {"0.1 ms", 0.0001},
                                         {"7 ns", 7e-9},
                                         {"2 min", 120},
                                         {"1.5 h", 5400},
                                         {"0 s", 0},
                                         {"-3 ms", -0.003},
                                         {"1e-3 s", 0.001},
                                         {"  12.5\tms ", 0.0125}}) {
    CHECK(read<Seconds>(row.text) == row.expected);
  }
  for (const Row& row : std::vector<Row>{{"1 B", 1},
                                         {"3 kB", 3000},
                                         {"2.5 MB", 2500000},
                                         {"64 GB", 64e9},
                                         {"1 TB", 1e12},
                                         {"1 KiB", 1024},
                                         {"1 MiB", 1048576},
                                         {"64GiB", 68719476736},
                                         {"2 TiB", 2199023255552},
                                         {"0.5 KiB", 512},
                                         {"1e3 B", 1000}}) {
    CHECK(read<Bytes>(row.text) == row.expected);
  }
  for (const Row& row : std::vector<Row>{{"3.5 GB/s", 3500000000},
                                         {"1 B/s", 1},
                                         {"8 kB/s", 8000},
                                         {"8 MB/s", 8e6},
                                         {"2 TB/s", 2e12},
                                         {"1 KiB/s", 1024},
                                         {"1 MiB/s", 1048576},
                                         {"1 GiB/s", 1073741824},
                                         {"1 TiB/s", 1099511627776},
                                         {"100 Mbit/s", 12500000},
                                         {"10 Gbit/s", 1250000000}}) {
    CHECK(read<BytesPerSecond>(row.text) == row.expected);
  }
  for (const Row& row : std::vector<Row>{{"5 FLOP", 5},
                                         {"5 kFLOP", 5e3},
                                         {"5 MFLOP", 5e6},
                                         {"2 GFLOP", 2e9},
                                         {"2 TFLOP", 2e12},
                                         {"3 PFLOP", 3e15}}) {
    CHECK(read<Flops>(row.text) == row.expected);
  }
  for (const Row& row : std::vector<Row>{{"5 FLOP/s", 5},
                                         {"5 kFLOP/s", 5e3},
                                         {"5 MFLOP/s", 5e6},
                                         {"5 GFLOP/s", 5e9},
                                         {"42.5 TFLOP/s", 42.5e12},
                                         {"1 PFLOP/s", 1e15}}) {
    CHECK(read<FlopsPerSecond>(row.text) == row.expected);
  }
}

TEST_CASE("a unit in the wrong case is refused with the right one") {
  const std::string size = "a size with a unit, such as '64 GiB'";
  for (const auto& [text, meant] : std::map<std::string, std::string>{{"64 Gb", "64 GB"},
                                                                      {"12gb", "12 GB"},
                                                                      {"64 GIB", "64 GiB"},
                                                                      {"3 KB", "3 kB"},
                                                                      {" 1.5e3 mib", "1.5e3 MiB"}})
    CHECK(refusal<Bytes>(text) == size + " (did you mean '" + meant + "'?)");
  CHECK(refusal<Seconds>("900 Us") == "a time with a unit, such as '900 us' (did you mean '900 us'?)");
  CHECK(refusal<BytesPerSecond>("7gb/s") ==
        "a rate with a unit, such as '3.5 GB/s' (did you mean '7 GB/s'?)");
  CHECK(refusal<Flops>("2 Gflop") ==
        "a number of operations with a unit, such as '2 GFLOP' (did you mean '2 GFLOP'?)");
}

TEST_CASE("what is not a finite quantity of the dimension is refused, with what was expected") {
  for (const char* text : {"",          " ",        "s",      "900",   "0",     "900 uss",    "900 u s",
                           "900 us us", "900 us x", "9 GB",   "inf s", "nan s", "infinity s", "1e400 s",
                           "1e308 h",   "+5 s",     "0x10 s", "1,5 s", "--5 s", "1 m"}) {
    CHECK(refusal<Seconds>(text) == "a time with a unit, such as '900 us'");
  }
  for (const char* text : {"64", "64 Gi", "64 G", "64 GB/s", "1 EB", "1e", "1e308 tib", "nan gb"}) {
    CHECK(refusal<Bytes>(text) == "a size with a unit, such as '64 GiB'");
  }
  for (const char* text : {"3.5", "3.5 GB", "3.5 GBs", "3.5 GB / s", "3.5 Gbps", "5 bit/s", "1e300 TB/sec"}) {
    CHECK(refusal<BytesPerSecond>(text) == "a rate with a unit, such as '3.5 GB/s'");
  }
  for (const char* text : {"2", "2 FLOPS", "2 GFLOP/s", "2 EFLOP"}) {
    CHECK(refusal<Flops>(text) == "a number of operations with a unit, such as '2 GFLOP'");
  }
  for (const char* text : {"2", "2 FLOPS", "2 GFLOP", "2 TFLOPs", "2 TOPS"}) {
    CHECK(refusal<FlopsPerSecond>(text) == "a compute rate with a unit, such as '42.5 TFLOP/s'");
  }
  CHECK(refusal<Bytes>(std::string("1\0 B", 4)) == "a size with a unit, such as '64 GiB'");
}

TEST_CASE("quantities show four digits and the unit a person would choose") {
  // By definition of the units; the boundaries follow from rounding to four digits first.
  CHECK(to_string(Seconds(0.012345)) == "12.35 ms");
  CHECK(to_string(Seconds(0)) == "0 s");
  CHECK(to_string(Seconds(-0.0)) == "0 s");
  CHECK(to_string(Seconds(900e-6)) == "900 us");
  CHECK(to_string(Seconds(999.96e-6)) == "1 ms");
  CHECK(to_string(Seconds(999.94e-6)) == "999.9 us");
  CHECK(to_string(Seconds(-1.5)) == "-1.5 s");
  CHECK(to_string(Seconds(90)) == "90 s");
  CHECK(to_string(Seconds(150)) == "2.5 min");
  CHECK(to_string(Seconds(3 * 3600)) == "3 h");
  CHECK(to_string(Seconds(0.25e-9)) == "0.25 ns");
  CHECK(to_string(Seconds(std::numeric_limits<double>::infinity())) == "inf s");
  CHECK(to_string(Bytes(17301504)) == "17.3 MB");  // 11 matrices of 2 * 768 * 1024
  CHECK(to_string(Bytes(64e9)) == "64 GB");
  CHECK(to_string(Bytes(1)) == "1 B");
  CHECK(to_string(Bytes(1024)) == "1.024 kB");
  CHECK(to_string(Bytes(2e15)) == "2000 TB");
  CHECK(to_string(BytesPerSecond(3.5e9)) == "3.5 GB/s");
  CHECK(to_string(BytesPerSecond(125e6)) == "125 MB/s");
  CHECK(to_string(Flops(2.5e9)) == "2.5 GFLOP");
  CHECK(to_string(FlopsPerSecond(42.5e12)) == "42.5 TFLOP/s");
}

TEST_CASE("what is shown reads back within four digits") {
  check_round_trip<Seconds>(-12, 7);
  check_round_trip<Bytes>(-3, 15);
  check_round_trip<BytesPerSecond>(-3, 15);
  check_round_trip<Flops>(-3, 18);
  check_round_trip<FlopsPerSecond>(-3, 18);
}

TEST_CASE("dimensions combine as in physics") {
  CHECK((Bytes(7e9) / BytesPerSecond(3.5e9)).value() == 2);
  CHECK((Flops(1e12) / FlopsPerSecond(4e12)).value() == 0.25);
  CHECK((Bytes(10) / Seconds(4)).value() == 2.5);
  CHECK(Seconds(3) / Seconds(2) == 1.5);
  CHECK(2.0 * Seconds(3) - Seconds(1) + Seconds(0.5) == Seconds(5.5));
  CHECK(Seconds(1) < Seconds(2));
  Seconds sum(1);
  sum += Seconds(2);
  sum -= Seconds(0.5);
  CHECK(sum == Seconds(2.5));
  static_assert(!std::is_convertible_v<double, Seconds>);
  static_assert(!std::is_constructible_v<Seconds, Bytes>);
}

TEST_CASE("the names of units are those that the readers take, each of one dimension") {
  const std::vector<std::string> names = unit_names();
  std::string expected;
  for (const std::string& name : names) {
    Seconds seconds;
    Bytes bytes;
    BytesPerSecond rate;
    Flops flops;
    FlopsPerSecond flop_rate;
    const std::string text = "1 " + name;
    INFO(text);
    CHECK(int(parse(text, seconds, expected)) + int(parse(text, bytes, expected)) +
              int(parse(text, rate, expected)) + int(parse(text, flops, expected)) +
              int(parse(text, flop_rate, expected)) ==
          1);
  }
  // SI's and IEC's (ISO 80000): 6 times, 9 sizes, these a second and two in bits, 6 numbers of operations and
  // these a second.
  CHECK(names.size() == 6 + 9 + 11 + 6 + 6);
}

}  // namespace moelab::units_test
