// How long a workload's requests are: numbers of tokens drawn from distributions or from a log, for all
// requests or by classes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/requests.hpp"

namespace moelab {

class Problems;
class YamlMap;

/// The class of a request in a workload without classes.
inline constexpr std::uint16_t kNoClass = 0xffff;

/// The distribution of a number of tokens.
struct TokenLaw {
  enum class Kind : std::uint8_t { uniform, lognormal };
  Kind kind = Kind::uniform;
  double median = 0;  // of lognormal, without the limits: tokens
  double sigma = 0;   // of lognormal: the standard deviation of the logarithm
  /// Of uniform the range, both ends in it. Of lognormal limits: a number beyond one is that limit.
  std::uint32_t least = 1, most = 1;
};

/// A share of the requests.
struct RequestClass {
  std::string name;  // "": of a workload without classes
  double share = 1;
  TokenLaw prompt, output;             // each at least 1; of output the first token is one
  std::string lengths_file;            // "": drawn from the two laws
  std::vector<RequestRecord> lengths;  // of the file's requests, of which pairs of lengths are drawn
};

/// Whether a workload's section says more of lengths than one number for each.
bool draws_lengths(const YamlMap& section);

/// Reads them: the classes of `classes`, or one without a name of prompt_tokens and output_tokens, or of
/// lengths_of. Files are relative to `base`, or to the working folder.
std::vector<RequestClass> read_request_mix(const YamlMap& section, const std::string& base,
                                           Problems& problems);

}  // namespace moelab
