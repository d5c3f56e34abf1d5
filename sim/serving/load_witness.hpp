// Who may say what an execution policy hears of the loads over the link of a discrete GPU.
#pragma once

#include <functional>

namespace moelab {

/// Is told how long each load took, in the order in which the execution policy learns of them, and says what
/// the policy is to hear: what a run saw can be kept and told to another, which then decides alike.
using LoadWitness = std::function<double(double seconds)>;

}  // namespace moelab
