#include "sim/engine/dispatcher.hpp"
#include "sim/engine/fast_executor.hpp"

namespace moelab::engine {

std::unique_ptr<Engine> make_fast_engine() {
  return std::make_unique<Dispatcher<FastExecutor>>();
}

}  // namespace moelab::engine
