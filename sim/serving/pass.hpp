// One forward pass: the rows of a trace that run together.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/architecture.hpp"
#include "sim/serving/attended.hpp"

namespace moelab {

struct Pass {
  Stack stack = Stack::decoder;
  bool prompt = false;              // all rows are of prompts, in an encoder or not
  std::uint32_t tokens = 0;         // rows that run
  std::uint32_t prompt_tokens = 0;  // of these, rows of prompts
  std::uint32_t produces = 0;       // requests that get a token from it
  std::uint32_t drafts = 0;         // of the rows, drafted tokens that it verifies
  std::uint32_t refused = 0;        // of these, that turn out to be others than the target's
  /// Whose cross-attention keys and values this pass makes: those of requests that decode their first row.
  std::uint32_t new_encoder_tokens = 0;
  /// Of prompts that ran elsewhere, whose keys and values requests bring that begin with this pass.
  std::uint32_t brought_tokens = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows;  // [begin, end) of the trace
  std::vector<RowRun> runs;                                   // what the same rows attend to
  /// Where data-parallel ranks have requests of their own: what each has of this pass, but for `rows`; of a
  /// rank without any, nothing.
  std::vector<Pass> of_ranks;
};

}  // namespace moelab
