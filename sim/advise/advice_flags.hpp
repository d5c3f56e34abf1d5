// What to type for a way of serving.
#pragma once

#include <string>

#include "sim/advise/advice.hpp"

namespace moelab {

/// A command line of a shell. `stored` is the request's model in the advice's weights.
std::string command_of(const Advice& advice, const AdviceRequest& request, const Architecture& stored);

/// Where weights are had that no public repository of the model's owner is known to have: MLX's and AWQ's,
/// and GGUF files. Empty where the command itself names a repository or a file of the request's.
std::string weights_from(const Advice& advice, const AdviceRequest& request);

}  // namespace moelab
