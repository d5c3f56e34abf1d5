// What is wrong with a network's description, or too large for SimGrid, as InputErrors: here and not in the
// engine, which knows nothing of input files.
#pragma once

#include <span>
#include <string>

#include "sim/engine/network.hpp"

namespace moelab::engine {

/// Throws InputError with everything wrong that can be seen without SimGrid: no nodes, bandwidths that are
/// not above 0, hosts given twice.
void check_network(const NetworkLaw& law);
/// Throws InputError for a bandwidth that is not above 0.
void check_node(NodeId node, NetworkLaw::Node bandwidth);
/// Throws InputError; `file` is "" where there is none.
[[noreturn]] void refuse_network(const std::string& file, const std::string& what);
/// Throws InputError for an operation of more bytes, or longer, than the whole numbers of SimGrid hold.
[[noreturn]] void refuse_size();
/// The sentence, with what may have been meant.
std::string unknown_host(const std::string& name, std::span<const std::string> known);

}  // namespace moelab::engine
