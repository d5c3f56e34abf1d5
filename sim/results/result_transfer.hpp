// A whole result as text and back, exactly: how a child process hands its run to its parent.
#pragma once

#include <string>

#include "sim/run_result.hpp"

namespace moelab {

std::string pack_result(const RunResult& result);
/// The result that pack_result made this text from.
RunResult unpack_result(const std::string& text);

}  // namespace moelab
