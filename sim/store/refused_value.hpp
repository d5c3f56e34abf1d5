// What a store does not take.
#pragma once

#include "models/input_error.hpp"

namespace moelab {

/// A value is too large, or is none that its column may hold. The store is as it was, and takes others.
class RefusedValue : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace moelab
