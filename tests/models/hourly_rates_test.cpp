// What serving draws and costs by the hour, as people write it.
#include "models/hourly_rates.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "models/part.hpp"
#include "models/units.hpp"

namespace moelab::hourly_rates_test {
namespace {

std::string power_refusal(const std::string& text) {
  double watts = -1;
  std::string expected;
  if (parse_power(text, watts, expected)) return "accepted";
  CHECK(watts == -1);
  return expected;
}

std::string price_refusal(const std::string& text) {
  Price price;
  std::string expected;
  if (parse_price(text, price, expected)) return "accepted";
  CHECK(price == Price{});
  return expected;
}

}  // namespace

TEST_CASE("power: watts with their unit, by SI") {
  for (const auto& [text, due] : std::map<std::string, double>{
           {"700 W", 700}, {"5.6 kW", 5600}, {"0.5W", 0.5}, {" 1e3 W ", 1000}, {"1.2 MW", 1.2e6}}) {
    double watts = 0;
    std::string expected;
    REQUIRE(parse_power(text, watts, expected));
    CHECK(watts == Approx(due).epsilon(1e-15));
  }
}

TEST_CASE("power: what is none is refused with the nearest text") {
  const std::string power = "a power with its unit, such as '700 W'";
  for (const char* text : {"", "W", "700", "watts", "700 J/s", "nan W", "1e400 W"})
    CHECK(power_refusal(text) == power);
  CHECK(power_refusal("700 w") == power + " (did you mean '700 W'?)");
  CHECK(power_refusal("5.6 KW") == power + " (did you mean '5.6 kW'?)");
  for (const char* text : {"700 mW", "700 mw"})  // a thousandth is no million times as much
    CHECK(power_refusal(text) == power + " (did you mean '700 W'?)");
  for (const char* text : {"0 W", "-700 W", "2e6 MW"})
    CHECK(power_refusal(text) == "a power above 0 and up to 1e6 MW");
}

TEST_CASE("price: an hour, of the machine or of each GPU") {
  Price price;
  std::string expected;
  REQUIRE(parse_price("2.5 USD/h", price, expected));
  CHECK(price == Price{2.5, "USD", false});
  REQUIRE(parse_price("1.99EUR/GPU/h", price, expected));
  CHECK(price == Price{1.99, "EUR", true});
}

TEST_CASE("price: what is none is refused with the nearest text") {
  const std::string due =
      "a price an hour with its currency, such as '2.5 USD/h', or '2.5 USD/GPU/h' of each GPU";
  for (const char* text : {"", "2.5", "USD/h", "$2.5/h", "inf USD/h", "2.5 USD", "2.5 bananas an hour"})
    CHECK(price_refusal(text).starts_with(due));
  CHECK(price_refusal("2.5 usd/h") == due + " (did you mean '2.5 USD/h'?)");
  CHECK(price_refusal("2.5 USD/gpu/h") == due + " (did you mean '2.5 USD/GPU/h'?)");
  CHECK(price_refusal("3 EUR/hr") == due + " (did you mean '3 EUR/h'?)");
  CHECK(price_refusal("0 USD/h") == "a price above 0 and up to 1e9 an hour");
  CHECK(price_refusal("-1 USD/h") == "a price above 0 and up to 1e9 an hour");
}

TEST_CASE("power and price: any number reads back") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-8, 8);
  for (int i = 0; i < 2000; ++i) {
    const double number = std::pow(10, exponent(random));
    double watts = 0;
    Price price;
    std::string expected;
    REQUIRE(parse_power(shortest_text(number) + " W", watts, expected));
    CHECK(watts == number);
    REQUIRE(parse_price(shortest_text(number) + " JPY/h", price, expected));
    CHECK(price.per_hour == number);
  }
}

// NVIDIA's, AMD's and Intel's data sheets.
TEST_CASE("parts: rated powers are those of data sheets") {
  for (const auto& [name, watts] : std::map<std::string, double>{{"h100-80gb", 700},
                                                                 {"h100-80gb-pcie", 350},
                                                                 {"h200-141gb", 700},
                                                                 {"a100-80gb", 400},
                                                                 {"a100-40gb", 400},
                                                                 {"l40s-48gb", 350},
                                                                 {"l4-24gb", 72},
                                                                 {"a10-24gb", 150},
                                                                 {"rtx-3090-24gb", 350},
                                                                 {"rtx-4090-24gb", 450},
                                                                 {"rtx-5090-32gb", 575},
                                                                 {"b200-192gb", 1000},
                                                                 {"mi300x-192gb", 750}}) {
    INFO(name);
    CHECK(find_gpu(name).watts == watts);
  }
  for (const auto& [name, watts] : std::map<std::string, double>{{"EPYC 9654", 360},
                                                                 {"EPYC 7763", 280},
                                                                 {"Ryzen 9 7950X", 170},
                                                                 {"i9-14900K", 125},
                                                                 {"Xeon Platinum 8480+", 350},
                                                                 {"Xeon Gold 6454S", 270}}) {
    INFO(name);
    CHECK(find_cpu(name).watts == watts);
  }
  for (const GpuPart& gpu : gpu_parts()) CHECK((gpu.watts > 0 || gpu.maker == "apple"));
}

}  // namespace moelab::hourly_rates_test
