// What tests of commands ask of their output.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/cli/run_program.hpp"

namespace moelab {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A message with the reason, the exit status of bad input, and nothing that looks like a result.
inline void check_refusal(const ProgramResult& result, const std::string& reason) {
  CAPTURE(result.err, reason);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(contains(result.err, reason));
}

}  // namespace moelab
