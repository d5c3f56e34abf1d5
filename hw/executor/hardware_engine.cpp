#include "hw/executor/hardware_engine.hpp"

#include <thread>

#include "hw/executor/hardware_executor.hpp"
#include "sim/engine/dispatcher.hpp"

namespace moelab {

std::chrono::nanoseconds spin_for(std::size_t threads) {
  constexpr std::chrono::microseconds kAwake{20};  // a few times what a hand-over takes while both are awake
  return threads < std::thread::hardware_concurrency() ? kAwake : std::chrono::nanoseconds(0);
}

std::unique_ptr<engine::Engine> make_hardware_engine(std::unique_ptr<Machine> machine,
                                                     const HardwareOptions& options) {
  return std::make_unique<engine::Dispatcher<HardwareExecutor>>(std::move(machine), options);
}

}  // namespace moelab
