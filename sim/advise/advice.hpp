// Which runtime, weight format and split serves a model fastest on a machine, of those that runtimes offer:
// every combination is tried by the closed form of models/serving_estimate.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/serving_estimate.hpp"
#include "sim/advise/advice_error.hpp"

namespace moelab {

struct AdviceRequest {
  Architecture model;
  std::string gguf;  // path of the model's GGUF file, served as it is; empty: there is none
  MachineParts machine;
  std::vector<std::string> runtimes;  // empty: all for this machine's maker
  /// Whole-model names; empty: the GGUF file's, else the usual ones of four bits and more, and where no GPU
  /// holds four bits whole in a memory of its own, llama.cpp's of fewer (find_ways()).
  std::vector<std::string> weights;
  std::string kv;  // the KV cache's format (cache_formats()); empty: 16 bits
  /// What weights, caches and buffers may take of the memory that decodes, beside driver and libraries, as in
  /// a run: of each GPU's own, else of the host's; absent: all that the system leaves. More than what macOS
  /// lets a GPU take says that its limit is raised.
  std::optional<Bytes> budget;
  double prompt = 512;    // tokens
  double answer = 1024;   // tokens: splits and micro-batches are chosen by what prompt and answer take
  double context = 4096;  // tokens that the KV cache has room for, and decoding attends to
  double users = 1;       // who decode at once
};

/// "sudo sysctl iogpu.wired_limit_mb=N": what lets a GPU of Apple take so much of the memory.
std::string raised_limit_command(Bytes taken);
/// "ttm.pages_limit=N": what, on Linux's command line, lets a GPU of AMD take so much of the memory.
std::string raised_gtt_parameter(Bytes taken);

/// Tokens of context where none are asked for: room for the prompt and the answer, rounded up to whole 1024s,
/// and 4096 at least.
double default_context(double prompt, double answer);

struct Advice {
  std::string runtime, title, weights;
  double weight_bits = 0;  // a weight, the mean of all
  std::string family;      // the runtime that this project knows, where that is a file of one's own
  std::string asked;       // what load_runtime() takes: a name or a path
  int gpus = 0;            // of the machine's, those that take part
  Split split;
  double micro_batch = 0;
  double decode_s = 0;            // between tokens of one user
  double prompt_s = 0;            // a prompt alone: the time to its first token
  double request_s = 0;           // prompt_s, and the request's answer with all of the context filled
  SplitMemory memory;             // of all GPUs together, with what the micro-batch takes
  double gpu_most = 0;            // bytes on the GPU that has most of them
  std::vector<int> layers_a_gpu;  // llama.cpp's: of each, one more on the last for the head
  std::string bound, bound_word;  // what takes most of a decoding step
  std::string prompt_bound, prompt_bound_word;
  AdviceError error = kAdviceErrors.front();  // of its group
  std::string command;                        // to type
  std::string weights_from;                   // where such weights are had; empty: the command names them
  std::string caveat;  // an open fault of the runtime with this model and these weights; empty: none is known
  /// Fewer than four: in the mean, or by the name of a GGUF file's type, whatever its fall-backs weigh.
  bool few_bits() const;
};

/// What a search found.
struct AdviceList {
  /// Of four bits and more, the fastest decoding first; but one with a caveat comes behind the next without
  /// that is within its range. Then those of fewer bits: the most bits first, or the fastest where the
  /// request names its weights.
  std::vector<Advice> ways;
  std::string lacks;               // where there are none: what the nearest of all that was tried needs
  std::string lacks_of_four_bits;  // where the ways have fewer: what the nearest of four bits and more needs
  /// Where a runtime has room for fewer bits alone: the weights of four and more, the most bits of them, that
  /// it would have room for beside a KV cache of q8_0; empty: none.
  std::string four_bits_with_q8_0_cache;
  struct LeftOut {
    std::string runtime, why;
    std::string weights{};  // empty: in no format
    int gpus = 0;           // 0: on no number of them
  };
  std::vector<LeftOut> left_out;  // runtimes that serve it in no way, or in a format not on all GPUs
};
/// The best split of each runtime and format: that which serves a prompt and its answer soonest; what does
/// not fit is left out. Where no GPU holds four bits whole in a memory of its own, however much the host has,
/// fewer bits are faster, and of each runtime with such formats two are among the ways, those of the most
/// bits that have room and the fastest: so more memory makes no request's time longer. Throws InputError for
/// unknown names, and where no runtime that is asked for runs the weights that are asked for on this machine.
AdviceList find_ways(const AdviceRequest& request);
/// Throws InputError that says what is lacking where nothing fits.
[[noreturn]] void throw_nothing_fits(const AdviceRequest& request, const std::string& lacks);
/// Its ways; throws InputError where nothing fits.
std::vector<Advice> advise(const AdviceRequest& request);
/// Where nothing fits: the runtime and the weights that come nearest, and nothing else.
Advice nearest_to_fitting(const AdviceRequest& request);

/// Decoding over the GPU memory that experts are given: all splits of a runtime and format that fit.
struct AdviceCurve {
  struct Point {
    double gpu_expert_bytes, decode_s;
    int gpus;  // 0: the CPU alone
    Split split;
  };
  std::string runtime, weights;
  std::vector<Point> points;  // by gpu_expert_bytes; of several numbers of GPUs one after the other
};
/// A curve for each runtime of the list, with the format that it decodes fastest with.
std::vector<AdviceCurve> decode_curves(const AdviceRequest& request, const std::vector<Advice>& list);

}  // namespace moelab
