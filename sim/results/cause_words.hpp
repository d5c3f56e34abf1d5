// What the causes of a run's time (sim/serving/metrics.hpp) are called in sentences and tables.
#pragma once

#include <string>

namespace moelab {

/// "decompression" for "decompress"; "waiting for requests" for "idle", which is no cause of its own. One
/// that is not known is its own word.
std::string words_of_cause(const std::string& cause);

}  // namespace moelab
