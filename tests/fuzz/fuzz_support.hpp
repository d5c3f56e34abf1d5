// What the fuzz targets share: bytes as a file, what a reader may answer, and touching all that it gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/input_error.hpp"
#include "traces/import/token_assembler.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::fuzz {

/// The input that libFuzzer made, read from the front: a few bytes choose among forms, the rest is the file.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  /// The next byte; 0 where there is none left.
  std::uint8_t byte();
  std::string_view rest() const { return rest_; }
  /// The rest as pairs of a byte and a text, each written as the byte, two bytes of length (little-endian)
  /// and so many bytes; the last one is cut where the input ends.
  std::vector<std::pair<std::uint8_t, std::string_view>> parts();

 private:
  std::string_view rest_;
};

/// A file in memory with these bytes; its path is good until the next call with the same number (0 to 3).
std::filesystem::path memory_file(std::string_view bytes, std::size_t number = 0);

/// A path for what a target writes, in a folder for temporary files that goes away at the end.
std::filesystem::path output_path(const std::string& name = "out");

/// What all importers are told: 8 experts, the output at output_path().
ImportTarget small_target();

/// A refusal says something; it is printed where the environment has MOELAB_FUZZ_SAY.
void check_refusal(const InputError& error);

/// Runs a reader. It may refuse the input with an InputError that says something, and nothing else may leave
/// it: other exceptions, and so crashes, reach libFuzzer. Returns whether the input was accepted.
template <typename Reader>
bool accepted(Reader reader) {
  try {
    reader();
    return true;
  } catch (const InputError& error) {
    check_refusal(error);
    return false;
  }
}

/// Ends the run, as a finding, unless the condition holds.
inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

/// Reads every byte, so that a sanitizer sees what is not there.
void touch(const void* data, std::size_t bytes);
template <typename Range>
void touch(const Range& range) {
  touch(std::data(range), std::size(range) * sizeof(*std::data(range)));
}

/// Reads all that a trace gives, and holds it against what routing_trace.hpp promises.
void touch_trace(const RoutingTrace& trace);

/// An import wrote output_path(): what it wrote must be readable.
void touch_imported();

}  // namespace moelab::fuzz
