// Who may say which of a scenario's requests have come when a server asks.
#pragma once

#include <cstddef>
#include <functional>

namespace moelab {

/// Is told, each time a server asks, how many requests have come by its clock, all since the start, and says
/// how many it is to take for having come (at most all there are; fewer than before change nothing): what a
/// run met can be kept and told to another, which then forms the same steps.
using ArrivalWitness = std::function<std::size_t(std::size_t come)>;

}  // namespace moelab
