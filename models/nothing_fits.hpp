// What has no result for want of memory alone.
#pragma once

#include "models/input_error.hpp"

namespace moelab {

/// Thrown where all that is asked for needs more memory than there is. The input is not wrong: the command
/// line turns it into exit status 1.
class NothingFits : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace moelab
