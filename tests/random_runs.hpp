// How many random instances a property is tested on.
#pragma once

namespace moelab::testing {

/// `all` of them; a fifth under sanitizers, which look for other mistakes than wrong results and take their
/// time.
template <class Count>
constexpr Count random_runs(Count all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all / 5;
#else
  return all;
#endif
}

}  // namespace moelab::testing
