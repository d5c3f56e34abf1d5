// What tests of commands ask of their output.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/cli/run_program.hpp"

namespace moelab {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A message with the reason, the exit status (2: bad input, 1: nothing fits), and nothing that looks like a
/// result.
inline void check_refusal(const ProgramResult& result, const std::string& reason, int status = 2) {
  CAPTURE(result.err, reason);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(contains(result.err, reason));
}

}  // namespace moelab
