// What tests of guards share: policies that a library might bring, and what the guard says of them.
#pragma once

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

#include "policies/guard/guarded_policies.hpp"
#include "policies/guard/policy_error.hpp"

namespace moelab::guard_cases {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

inline PolicyInfo from_library() {
  return {.name = "mine", .help = "", .source = "", .parameters = {}, .library = "broken.so"};
}

/// What the guard says of what `work` has a policy do; "" where it says nothing.
template <class Work>
std::string complaint(const Work& work) {
  try {
    work();
  } catch (const PolicyError& error) {
    return error.what();
  }
  return "";
}

/// How a policy can fail that breaks no rule: it throws, something of the standard's or something else.
enum class Failure { standard, input, foreign };

[[noreturn]] inline void fail_by(Failure failure) {
  if (failure == Failure::standard) throw std::out_of_range("no expert 12");
  if (failure == Failure::input) throw InputError("", "alpha is 2");
  throw 7;
}

}  // namespace moelab::guard_cases
