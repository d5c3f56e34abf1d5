// How many random instances a property is tested on.
#pragma once

namespace moelab::test {

/// `all` of them; a fifth where each takes its time: under sanitizers, which look for other mistakes than
/// wrong results, and on an emulated processor.
template <class Count>
constexpr Count random_runs(Count all) {
#ifdef MOELAB_FEWER_RANDOM_RUNS
  return all / 5;
#else
  return all;
#endif
}

}  // namespace moelab::test
