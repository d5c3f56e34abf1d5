// Which runtime, weight format and split serves a model fastest on a machine, of those that runtimes offer:
// every combination is tried by the closed form of models/serving_estimate.hpp.
#pragma once

#include <string>
#include <vector>

#include "models/serving_estimate.hpp"

namespace moelab {

struct AdviceRequest {
  Architecture model;
  std::string gguf;  // path of the model's GGUF file, served as it is; empty: there is none
  MachineParts machine;
  std::vector<std::string> runtimes;  // empty: all for this machine's maker
  std::vector<std::string>
      weights;  // whole-model names; empty: the GGUF file's, else the usual ones of four bits and more
  double prompt = 512;    // tokens
  double context = 4096;  // tokens that the KV cache has room for, and decoding attends to
  double users = 1;       // who decode at once
};

struct Advice {
  std::string runtime, title, weights;
  Split split;
  double micro_batch = 0;
  double decode_s = 0;  // between tokens of one user
  double prompt_s = 0;  // a prompt alone
  SplitMemory memory;
  std::string bound;    // what takes most of a decoding step
  double error = 0;     // of decoding, as a share: kDecodeError in advice.cpp says of what
  std::string command;  // to type
};

/// The best split of each runtime and format, fastest decoding first; what does not fit is left out. Throws
/// InputError for unknown names, and where nothing fits: with what the smallest needs.
std::vector<Advice> advise(const AdviceRequest& request);

}  // namespace moelab
