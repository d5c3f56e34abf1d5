// Invariants of the engine's rules, checked while simulating in test builds.
#pragma once

#include <stdexcept>
#include <string>

namespace moelab::engine {

#ifdef MOELAB_CHECK_INVARIANTS
inline void check_invariant(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("engine invariant broken: ") + what);
}
#else
inline void check_invariant(bool, const char*) {}
#endif

}  // namespace moelab::engine
