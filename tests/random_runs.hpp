// How many random instances a property is tested on.
#pragma once

namespace moelab::test {

/// Whether each instance takes its time: under sanitizers, which look for other mistakes than wrong results,
/// and on an emulated processor. Tests with the tag [long], whose finding needs many draws or much memory,
/// are not run there.
#ifdef MOELAB_FEWER_RANDOM_RUNS
constexpr bool kFewerRuns = true;
#else
constexpr bool kFewerRuns = false;
#endif

/// `all` of them, or `few` where each takes its time.
template <class Count>
consteval Count random_runs(Count all, Count few) {
  return kFewerRuns ? few : all;
}
template <class Count>
consteval Count random_runs(Count all) {
  return random_runs(all, all / 5);
}

}  // namespace moelab::test
