// What a token takes of machine and mains: by hand.
#include "sim/service_rates.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "models/json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/serving/metrics.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::service_rates_test {
namespace {

using namespace moelab::test;
using Settings = std::vector<std::pair<std::string, std::string>>;

Scenario chat(Settings more = {}) {
  return load_scenario("chat-and-code", more);
}

/// What is wrong with the shipped scenario under these settings.
std::string refusal_of(const Settings& settings) {
  try {
    (void)chat(settings);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a token's cost: by hand") {
  // 700 W at 100 tokens/s out and 900 in: 7 J a token out, 0.7 J a token. 3.6 USD/h are 0.001 USD a second:
  // 10 USD a million tokens out, 1 USD a million tokens.
  const TokenCost cost = token_cost({.watts = 700, .price = Price{3.6, "USD"}}, 100, 900);
  CHECK(*cost.joules_out == Approx(7));
  CHECK(*cost.joules_all == Approx(0.7));
  CHECK(*cost.money_out == Approx(10));
  CHECK(*cost.money_all == Approx(1));
  // 3.6 J by a token are 1 Wh by a thousand, 1 kWh by a million.
  CHECK(kilowatt_hours_a_million(3.6) == Approx(1));
}

TEST_CASE("a token's cost: absent, not 0, where it is not known") {
  const TokenCost unknown = token_cost({}, 100, 900);
  CHECK_FALSE((unknown.joules_out || unknown.joules_all || unknown.money_out || unknown.money_all));
  const TokenCost no_price = token_cost({.watts = 1, .price = {}}, 100, 900);
  CHECK((no_price.joules_out && !no_price.money_out));
  const TokenCost no_token = token_cost({.watts = 1, .price = Price{1, "EUR"}}, 0, 0);
  CHECK_FALSE((no_token.joules_out || no_token.joules_all || no_token.money_out || no_token.money_all));
  const TokenCost prompts = token_cost({.watts = 1, .price = Price{1, "EUR"}}, 0, 10);
  CHECK_FALSE((prompts.joules_out || prompts.money_out));
  CHECK(*prompts.joules_all == Approx(0.1));
}

TEST_CASE("a token's cost: what a run of some time draws and is paid, over its tokens") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> some(0.1, 1e4);
  for (int i = 0; i < 2000; ++i) {
    const double watts = some(random), an_hour = some(random), seconds = some(random);
    const double out = std::ceil(some(random)), in = std::ceil(some(random));
    const TokenCost cost =
        token_cost({.watts = watts, .price = Price{an_hour, "USD"}}, out / seconds, in / seconds);
    const double joules = watts * seconds, money = an_hour * (seconds / 3600);
    CHECK(*cost.joules_out * out == Approx(joules));
    CHECK(*cost.joules_all * (out + in) == Approx(joules));
    CHECK(*cost.money_out * (out / 1e6) == Approx(money));
    CHECK(*cost.money_all * ((out + in) / 1e6) == Approx(money));
  }
}

TEST_CASE("service rates: estimated from the rated power of the parts that take part") {
  const Metrics nothing;
  // H100 SXM: 700 W.
  const ServiceRates one = service_rates(chat(), nothing);
  CHECK(*one.watts == Approx(0.57 * 700));
  CHECK(one.estimated);
  CHECK_FALSE(one.price);
  const Settings two = {{"machine", "{gpu: h100-80gb, gpus: 2}"}, {"tensor_parallel", "2"}};
  CHECK(*service_rates(chat(), nothing, 3).watts == Approx(3 * 0.57 * 700));
  CHECK(service_rates(chat({{"price", "2.5 USD/h"}}), nothing, 4).price == Price{10, "USD"});
  CHECK(*service_rates(chat(two), nothing).watts == Approx(2 * 0.57 * 700));
  // The CPU is counted whole where it computes experts, and only there. EPYC 9654: 360 W.
  const Settings with_cpu = {{"machine", "{gpu: h100-80gb, cpu: EPYC 9654, sockets: 2}"}};
  CHECK(*service_rates(chat(with_cpu), nothing).watts == Approx(0.57 * 700));
  Metrics on_cpu;
  on_cpu.execution.on_cpu = 1;
  CHECK(*service_rates(chat(with_cpu), on_cpu).watts == Approx(0.57 * 700 + 2 * 360));
  CHECK_FALSE(service_rates(chat(), on_cpu).watts);  // a CPU that is not named has no rated power
  const Settings custom = {
      {"machine.gpu",
       "{name: mine, maker: nvidia, generation: hopper, memory: 80 GB, bandwidth: 3 TB/s, "
       "peak: 900 TFLOP/s, link: pcie5-x16}"}};
  CHECK_FALSE(service_rates(chat(custom), nothing).watts);  // nor has this GPU
}

TEST_CASE("service rates: what the scenario says is taken as it is") {
  const Metrics nothing;
  const ServiceRates said = service_rates(chat({{"power", "1.1 kW"}, {"price", "2.5 USD/h"}}), nothing);
  CHECK(*said.watts == 1100);
  CHECK_FALSE(said.estimated);
  CHECK(*said.price == Price{2.5, "USD"});
  // Of each GPU: of all that the machine has, whether they take part or not.
  const Settings each = {{"machine", "{gpu: h100-80gb, gpus: 4}"}, {"price", "2.5 USD/GPU/h"}};
  CHECK(*service_rates(chat(each), nothing).price == Price{10, "USD"});
  // A device of a profile has no rated power.
  const Files files;
  CHECK_FALSE(service_rates(files.load({{"workload.arrivals_per_s", "1"}}), nothing).any());
  CHECK(*service_rates(files.load({{"power", "60 W"}}), nothing).watts == 60);
}

TEST_CASE("service rates: none is estimated where nothing says when requests come") {
  Scenario s = chat();
  s.workload.arrivals_per_s = 0;
  CHECK_FALSE(service_rates(s, {}).any());
}

TEST_CASE("service rates: what is wrong is said where it stands") {
  CHECK(refusal_of({{"power", "700 w"}})
            .find("'700 w' for power; expected a power with its unit, such as "
                  "'700 W' (did you mean '700 W'?)") != std::string::npos);
  CHECK(refusal_of({{"price", "2.5 USD"}}).find("'2.5 USD' for price; expected a price an hour") !=
        std::string::npos);
  const std::string none = refusal_of(
      {{"machine", "{cpu: EPYC 9654, ram: 256 GiB}"}, {"runtime", "bare"}, {"price", "2.5 USD/GPU/h"}});
  CHECK(none.find("is of each GPU, and the scenario's machine has none") != std::string::npos);
}

TEST_CASE("service rates: between processes they stay what they are") {
  RunResult r;
  for (const ServiceRates& rates :
       {ServiceRates{}, ServiceRates{.watts = 0.1, .estimated = true, .price = {}},
        ServiceRates{.watts = 399, .estimated = false, .price = Price{2.5, "EUR"}}}) {
    r.service = rates;
    const ServiceRates back = unpack_result(pack_result(r)).service;
    CHECK(back.watts == rates.watts);
    CHECK(back.estimated == rates.estimated);
    CHECK(back.price == rates.price);
  }
}

}  // namespace moelab::service_rates_test
