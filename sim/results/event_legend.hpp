// What the operations of a timeline are, in words.
#pragma once

#include <string_view>

#include "sim/engine/labelled_graph.hpp"

namespace moelab {

/// "a sign-and-mantissa plane of an expert's tensor is read".
std::string_view meaning_of(OpKind kind);

}  // namespace moelab
