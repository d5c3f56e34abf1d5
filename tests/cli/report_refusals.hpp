// What `moelab report` says of a file that it does not read.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "cli/report/result_files.hpp"
#include "models/input_error.hpp"

namespace moelab {

/// Of one problem, which names the file; "accepted": there is none.
inline std::string refusal_of(const std::string& file) {
  try {
    read_result_files({file});
  } catch (const InputError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems().front().file == file);
    return error.problems().front().what;
  }
  return "accepted";
}

}  // namespace moelab
