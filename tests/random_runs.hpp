// How many random instances a property is tested on.
#pragma once

namespace moelab::test {

/// Whether fewer will do: under sanitizers, which look for other mistakes than wrong results, on an emulated
/// processor, and in the loop of daily work (preset quick). Tests with the tag [long] are not run there: what
/// they find takes many draws, much memory or a whole program's minutes, and shorter tests take nearly the
/// same paths. Those with [plain] are not run under sanitizers: they look at what comes out of code that
/// other tests run there, and would take several seconds each.
#ifdef MOELAB_FEWER_RANDOM_RUNS
constexpr bool kFewerRuns = true;
#else
constexpr bool kFewerRuns = false;
#endif

/// `all` of them, or `few`: where each takes its time, or where a tenth would not meet all that the test says
/// it met.
template <class Count>
consteval Count random_runs(Count all, Count few) {
  return kFewerRuns ? few : all;
}
template <class Count>
consteval Count random_runs(Count all) {
  return random_runs(all, all < 10 ? 1 : all / 10);
}

}  // namespace moelab::test
