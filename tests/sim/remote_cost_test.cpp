// What a remote call costs, as a scheduler estimates it, against sums over a list of all calls.
#include "sim/cluster/remote_cost.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::remote_cost_test {

using namespace moelab::test;

namespace {

using Costs = MigrationConfig::Costs;

MigrationConfig config_of(Costs costs, double computing_every_s) {
  MigrationConfig config;
  config.costs = costs;
  config.computing_every = Seconds(computing_every_s);
  return config;
}

struct Layer {
  double at, seconds, computing, activations;
};

/// The mean over the layers that `counts` says, of some of their seconds.
template <class Counts, class Value>
double mean_of(const std::vector<Layer>& layers, Counts counts, Value value) {
  double sum = 0, activations = 0;
  for (const Layer& layer : layers)
    if (counts(layer)) sum += value(layer), activations += layer.activations;
  return activations > 0 ? sum / activations : 0;
}

/// As the header says, from all layers there were; the placement changed at `changed_s` last.
double expected(const std::vector<Layer>& layers, const MigrationConfig& config, double changed_s,
                double now) {
  const auto counts = [&](const Layer& l) { return config.costs == Costs::since_start || l.at >= changed_s; };
  const auto seconds = [](const Layer& l) { return l.seconds; };
  const auto computing = [](const Layer& l) { return std::min(l.seconds, l.computing); };
  const double all = mean_of(layers, counts, seconds);
  const double every = config.computing_every.value();
  if (every == 0 || all == 0) return all;
  const double over = std::floor(now / every);
  double last = -1;  // interval with calls
  for (const Layer& l : layers)
    if (std::floor(l.at / every) < over) last = std::floor(l.at / every);
  if (last < 0) return all;
  const auto in_last = [&](const Layer& l) { return std::floor(l.at / every) == last; };
  return all - mean_of(layers, counts, computing) + mean_of(layers, in_last, computing);
}

}  // namespace

TEST_CASE("remote cost: seconds over activations, since the start or the last change") {
  for (const Costs costs : {Costs::since_start, Costs::since_change}) {
    RemoteCost cost(config_of(costs, 0));
    CHECK(cost.of_activation(0) == 0);
    cost.add(1, 2, 0, 4);
    cost.add(2, 3, 1, 1);
    CHECK(cost.of_activation(3) == Approx((2 + 3) / 5.0));
    cost.changed();
    CHECK(cost.of_activation(4) == (costs == Costs::since_start ? Approx(1.0) : Approx(0.0)));
    cost.add(5, 6, 0, 5);
    CHECK(cost.of_activation(6) == (costs == Costs::since_start ? Approx(11 / 10.0) : Approx(6 / 5.0)));
  }
}

TEST_CASE("remote cost: computing is that of the last interval with calls that is over") {
  RemoteCost cost(config_of(Costs::since_start, 10));
  cost.add(1, 2, 0.5, 4);
  cost.add(5, 1, 2, 1);  // all of its second is computing
  CHECK(cost.of_activation(9) == Approx(3 / 5.0));
  CHECK(cost.of_activation(10) == Approx(1.5 / 5 + 1.5 / 5));
  cost.add(12, 4, 3, 2);
  CHECK(cost.of_activation(19) == Approx(2.5 / 7 + 1.5 / 5));
  CHECK(cost.of_activation(20) == Approx(2.5 / 7 + 3 / 2.0));
  CHECK(cost.of_activation(35) == Approx(2.5 / 7 + 3 / 2.0));  // no call from 20 s on
}

TEST_CASE("remote cost: it is not counted where nothing migrates") {
  RemoteCost cost(std::nullopt);
  cost.add(1, 2, 0.5, 4);
  CHECK(cost.of_activation(2) == 0);
}

TEST_CASE("remote cost: random calls and changes, against a list of all of them") {
  for (std::uint64_t seed = 1; seed <= random_runs(200u); ++seed) {
    Random random(seed);
    const MigrationConfig config = config_of(coin(random) ? Costs::since_change : Costs::since_start,
                                             coin(random) ? 0 : 0.5 + random.uniform());
    RemoteCost cost(config);
    std::vector<Layer> layers;
    double now = 0, changed_s = 0;
    for (int i = 0; i < 60; ++i) {
      now += random.below(3) == 0 ? 2 * random.uniform() : 0.1 * random.uniform();
      if (random.below(8) == 0) {
        changed_s = now;
        cost.changed();
      } else if (coin(random)) {
        layers.push_back({now, random.uniform(), random.uniform(), static_cast<double>(from(random, 1, 9))});
        cost.add(now, layers.back().seconds, layers.back().computing, layers.back().activations);
      }
      INFO("seed " << seed << ", step " << i);
      REQUIRE(cost.of_activation(now) == Approx(expected(layers, config, changed_s, now)).margin(1e-12));
      now += 1e-9;  // a change and a call are never at one time
    }
  }
}

}  // namespace moelab::remote_cost_test
