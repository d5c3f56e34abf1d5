// moelab.Trace: routing traces as NumPy arrays that lie in the mapped file.
#pragma once

#include <nanobind/nanobind.h>

namespace moelab {

void add_trace(nanobind::module_& module);

}  // namespace moelab
