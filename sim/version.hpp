// The program's version, which results carry and which decides whether a stored run is still good.
#pragma once

#include <string>

namespace moelab {

/// The project's version and a hash over the sources of models/, traces/, policies/ and sim/, as in
/// "0.1.0+3fa9c1d2": programs that say the same give the same results for the same scenario and data. Written
/// by the build (write_version.cmake).
const std::string& program_version();

}  // namespace moelab
