// The engine whose operations are really done: on threads, by the wall's clock.
//
// The dispatcher is that of the simulators. Each slot of each resource is a thread; the engine's own thread
// is the one that calls run(): it decides, starts operations on free threads and waits for what ends or for a
// moment that a process wants to be woken at. So an operation's time, from start to end, holds what a device
// profile calls dispatch: being handed to its thread and back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "hw/executor/machine.hpp"
#include "sim/engine/engine.hpp"

namespace moelab {

/// What the operations of one resource took, in seconds of the wall's clock, summed.
struct HandOffTimes {
  std::uint64_t operations = 0;
  double out_s = 0;   // from being started until a thread had it
  double work_s = 0;  // in Machine::run()
  double back_s = 0;  // from there until the engine's thread knew
};

struct HardwareOptions {
  /// How long a thread that waits stays awake before it sleeps. Every waiting thread takes a core meanwhile:
  /// worth it only where there are more cores than threads.
  std::chrono::nanoseconds spin{0};
  /// By resource, of all runs; it outlives the engine. nullptr: not recorded.
  std::vector<HandOffTimes>* times = nullptr;
};

/// A waiting time that suits an engine of so many threads on this machine: 20 us where every thread has a
/// core of its own and one is left, else 0.
std::chrono::nanoseconds spin_for(std::size_t threads);

/// Resources have a bounded number of slots (std::invalid_argument from run() otherwise). Capacities and
/// interference are the machine's own: what is said of them is not used. An error of the machine, or of a
/// process, ends run(): operations that were running are over when it does, no others are started. All
/// threads are gone when the engine is.
std::unique_ptr<engine::Engine> make_hardware_engine(std::unique_ptr<Machine> machine,
                                                     const HardwareOptions& options = {});

}  // namespace moelab
