// What to type for a way of serving.
#pragma once

#include <string>

#include "sim/advise/advice.hpp"

namespace moelab {

/// A command line of a shell. `stored` is the request's model in the advice's weights.
std::string command_of(const Advice& advice, const AdviceRequest& request, const Architecture& stored);

}  // namespace moelab
