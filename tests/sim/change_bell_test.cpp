// When a process looks that sleeps until something changes: at the instants at which one looks that never
// sleeps.
#include "sim/engine/change_bell.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>

#include "tests/random_runs.hpp"

namespace moelab::change_bell_test {

TEST_CASE("looks: the next is where one that looks every step would look") {
  const std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  ChangeBell bell(*engine);
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < test::random_runs(5000); ++i) {
    const double step = std::pow(10, -4 + 6 * share(random)), last = 100 * share(random);
    const double now = last + 2000 * step * share(random);
    double look = last;  // the definition, step by step
    do look += step;
    while (look < now);
    CHECK(SteppedLooks(bell, step).next_after(last, now) == look);
  }
}

TEST_CASE("looks: many steps are counted at once, and one that time is too coarse for ends") {
  const std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  ChangeBell bell(*engine);
  // 1e9 steps and a half: the look after them.
  CHECK(SteppedLooks(bell, 1e-3).next_after(50, 50 + 1e6 + 0.5e-3) == Approx(50 + 1e6 + 1e-3).epsilon(1e-15));
  // 1e-14 s added to 200 s are nothing; so are a million such.
  const double now = std::nextafter(200.0, 201.0);
  CHECK(SteppedLooks(bell, 1e-14).next_after(200, now) == now);
}

}  // namespace moelab::change_bell_test
