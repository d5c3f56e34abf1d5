// What a decoder throws when a chunk is not what an encoder writes.
#pragma once

#include <stdexcept>

namespace moelab {

/// A chunk that cannot be decoded (or a plane that a codec cannot hold); the text says what was found and
/// what was expected. The caller, who knows file and offset, adds them.
class CodecError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace moelab
