// Speculative decoding as a scenario states it: how many tokens are drafted, how often they are accepted, and
// what drafting costs.
//
//   speculation:
//     tokens: 4          # drafted for each decode step of a request (vLLM: num_speculative_tokens)
//     acceptance: 0.7    # of a drafted token, those before it accepted
//     draft: ngram       # or {model: qwen3-8b}, {bytes: 420 MB, source: ...}, {time: 2 ms, source: ...}
//
// Drafts by n-gram (prompt look-up; vLLM's "ngram", llama.cpp's "ngram-simple") are looked up in the
// request's own tokens: nothing on the GPU. A draft model (Leviathan and others, ICML 2023; vLLM's
// "draft_model", llama.cpp's -md) runs once for each token, one after the other, beside the target in GPU
// memory, and has keys and values of its own. A head (EAGLE, multi-token prediction) is given by what it
// reads for a token and keeps in GPU memory, or by its time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/architecture.hpp"
#include "models/units.hpp"

namespace moelab {

class YamlMap;
struct Scenario;
struct SystemConfig;

struct SpeculationConfig {
  std::uint32_t tokens = 0;  // drafted for a decode step of a request, at most; 0: no speculation
  double acceptance = 0;     // probability, of a drafted token whose forerunners in the step are accepted
  // What drafts. None of them: look-up of n-grams, which takes no time.
  std::optional<Architecture> model;  // dense; one on each GPU
  Bytes head;                         // read for a drafted token and kept in GPU memory, of each GPU
  std::optional<Seconds> time;        // of drafting one token for each request of a step; given, it counts
  std::string source;                 // of these two

  bool any() const { return tokens > 0; }
};

/// Reads a scenario's section `speculation`, which is there, once its `target` is read and still whole.
/// `draft`: what its draft.model names, where it does and that could be read. Problems go to the document's.
SpeculationConfig read_speculation(const YamlMap& section, const Architecture& target,
                                   const std::optional<Architecture>& draft);
/// Whether `speculation` has a draft.model.
bool has_draft_model(const YamlMap& section);

/// Why a system cannot speculate, as a sentence; "" where it can.
std::string cannot_speculate(const SystemConfig& system, const Scenario& scenario);

/// "n-gram look-up", "draft model Qwen3-8B", ...
std::string draft_title(const SpeculationConfig& speculation);

// What a request keeps and what all have: those of the target and of what drafts for it.
Bytes draft_bytes(const SpeculationConfig& speculation);  // weights in GPU memory
Bytes kv_bytes_per_token(const Scenario& scenario);
/// States of linear attention and Mamba-2: as many copies as a step has rows of a request, since what a
/// refused row made of a state cannot be taken back (vLLM: num_speculative_blocks of MambaSpec).
Bytes state_bytes_per_request(const Scenario& scenario);
/// Rows of a decode step of one request, at most.
inline std::uint32_t decode_rows(const SpeculationConfig& speculation) {
  return 1 + speculation.tokens;
}

}  // namespace moelab
