// What a policy that came from outside the project did wrong.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {

/// A policy broke a rule of its family, or threw where its family does not let it refuse. An InputError, so
/// that the program ends with status 2; but not a refusal of the input that another input would mend.
class PolicyError : public InputError {
 public:
  /// `what`: the policy, its library, the step and the rule.
  explicit PolicyError(std::string what) : InputError("", std::move(what)) {}
};

/// What a policy answered is no answer at all; `what`: a sentence's end, as the guards' own rules. For code
/// that stands between a policy and its family.
class UnusableAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace moelab
