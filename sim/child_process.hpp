// Work in a process of its own: SimGrid allows one engine a process, and a crash there must not take the
// caller with it.
#pragma once

#include <functional>
#include <string>

namespace moelab {

/// Runs `work` in a forked child and returns its text. An InputError or another exception of the child is
/// thrown here again (others as std::runtime_error). The child ends without running the parent's destructors
/// or flushing its streams.
std::string run_in_child(const std::function<std::string()>& work);

}  // namespace moelab
