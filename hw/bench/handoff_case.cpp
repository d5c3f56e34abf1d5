// An operation handed to a thread that waits for it, by condition variable and by spinning: the time from
// handing over until the thread has begun with it.
#include "hw/bench/bench_workspace.hpp"
#include "hw/bench/handoff_team.hpp"

namespace moelab {

namespace {

struct Kind {
  bool spin;
  unsigned threads;
  double idle;  // seconds that threads have waited before each operation
};

constexpr Kind kKinds[] = {{false, 1, 0}, {false, 2, 0}, {false, 1, kHandoffIdle}, {false, 2, kHandoffIdle},
                           {true, 1, 0},  {true, 2, 0}};

class HandoffCase final : public BenchCase {
 public:
  explicit HandoffCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::vector<BenchPoint> points() const override {
    std::vector<BenchPoint> points;
    for (const auto& [spin, threads, idle] : kKinds) {
      BenchPoint point{{{"kind", spin ? "spin" : "condition_variable"},
                        {"threads", std::uint64_t{threads}},
                        {"idle_us", static_cast<std::uint64_t>(idle * 1e6 + 0.5)}}};
      if (spin && threads >= workspace_.cores())
        point.skip = "spinning threads and the one that hands over need " + std::to_string(threads + 1) +
                     " cores, there are " + std::to_string(workspace_.cores());
      points.push_back(std::move(point));
    }
    return points;
  }

  std::string check(std::size_t point) override {
    const auto& [spin, threads, idle] = kKinds[point];
    HandoffTeam team(threads, spin);
    for (int i = 0; i < 100; ++i) team.hand_over(idle);
    return team.handled() == std::uint64_t{100} * threads ? "" : "operations were lost";
  }

  double run(std::size_t point, std::size_t operations) override {
    const auto& [spin, threads, idle] = kKinds[point];
    HandoffTeam team(threads, spin);
    team.hand_over(idle);
    double seconds = 0;
    for (std::size_t i = 0; i < operations; ++i) seconds += team.hand_over(idle);
    return seconds;
  }

 private:
  BenchWorkspace& workspace_;
};

}  // namespace

BenchRow handoff_case() {
  return {.name = "handoff",
          .help = "An operation handed to a waiting thread, until it begins",
          .parameters =
              "kind (condition_variable, spin), threads (handed to at a time), idle_us (that "
              "they have waited: cores with nothing to do are dear to wake)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<HandoffCase>(workspace);
          }};
}

}  // namespace moelab
