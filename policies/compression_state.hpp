// The compression states of an expert (ZipMoE, section 3.2): which of its parts are in memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace moelab {

enum class State : std::uint8_t {
  F,  // full tensors, ready to use
  C,  // both planes, exponents compressed
  S,  // sign-mantissa planes only
  E,  // compressed exponent planes only
  M   // nothing
};
inline constexpr int kStates = 5;
inline constexpr std::array<State, kStates> kAllStates = {State::F, State::C, State::S, State::E, State::M};
inline constexpr std::array<std::string_view, kStates> kStateNames = {"F", "C", "S", "E", "M"};

constexpr std::size_t index(State s) {
  return static_cast<std::size_t>(s);
}
constexpr bool has_sm(State s) {
  return s == State::F || s == State::C || s == State::S;
}  // no SM-chunk to read
constexpr bool has_e(State s) {
  return s == State::F || s == State::C || s == State::E;
}  // no E-chunks to read

}  // namespace moelab
