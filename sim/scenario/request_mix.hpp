// How long a workload's requests are: numbers of tokens drawn from distributions or from a log, for all
// requests or by classes of them.
#pragma once

#include <cstdint>
#include <optional>
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

/// Users who go on when they are answered: each prompt of a conversation is all prompts and answers before
/// it, and new words behind them.
struct Conversations {
  TokenLaw turns = {};       // requests of a conversation
  double think_s = 0;        // from an answer to the next prompt, its mean
  bool exponential = false;  // think times; else all are the same
  std::uint32_t most = 0;    // tokens of a prompt and its answer; it ends before more. 0: no limit
};

/// A share of the requests; of those that begin a conversation, where there are any.
struct RequestClass {
  std::string name;  // "": of a workload without classes
  double share = 1;
  TokenLaw prompt, output;             // each at least 1; of output the first token is one
  std::string lengths_file;            // "": drawn from the two laws
  std::vector<RequestRecord> lengths;  // of the file's requests, of which pairs of lengths are drawn
  std::uint32_t shared_prefix = 0;     // tokens before each prompt (a system prompt), the same in all
  std::optional<Conversations> conversations = {};
  std::int32_t priority = 0;  // lower goes first, to batching policies that go by it
};

/// Whether a workload's section says more of its requests than one number for each length.
bool draws_lengths(const YamlMap& section);

/// Reads them: the classes of `classes`, or one without a name of prompt_tokens and output_tokens, or of
/// lengths_of. Files are relative to `base`, or to the working folder.
std::vector<RequestClass> read_request_mix(const YamlMap& section, const std::string& base,
                                           Problems& problems);

}  // namespace moelab
