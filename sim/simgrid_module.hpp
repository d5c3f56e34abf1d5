// The executor that uses SimGrid is a module of its own (sim/simgrid), loaded by the first run that asks for
// it: SimGrid's libraries take 31 of the 38 ms that the program would take to start with them (with
// sanitizers 130 of 220, both measured), and most commands do not need them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/engine/engine.hpp"

namespace moelab::engine {

/// SimGrid resolves what shares a capacity. One in the life of a process: make it in run_in_simgrid_child().
/// Throws as load_simgrid().
std::unique_ptr<Engine> make_simgrid_engine();

/// Loads it, once for this process and the children that it forks from then on. Throws InputError where it is
/// not installed, or of another version.
void load_simgrid();

/// run_in_child() of work that makes an engine of SimGrid, which is loaded for all such children. Throws as
/// both.
std::string run_in_simgrid_child(const std::function<std::string()>& work);

}  // namespace moelab::engine

// The module's entries.
extern "C" {
/// Never null, and the caller's. Throws what the executor's constructor throws.
[[gnu::visibility("default")]] moelab::engine::Engine* moelab_make_simgrid_engine();
/// program_version() of the sources that it was built from.
[[gnu::visibility("default")]] const char* moelab_simgrid_version();
}
