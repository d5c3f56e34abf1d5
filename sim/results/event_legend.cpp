#include "sim/results/event_legend.hpp"

namespace moelab {

std::string_view meaning_of(OpKind kind) {
  switch (kind) {
    case OpKind::read_sm:
      return "read of a sign-and-mantissa plane, of one tensor of an expert";
    case OpKind::read_e:
      return "read of a chunk of compressed exponents, of one tensor of an expert";
    case OpKind::read_tensor:
      return "read of a tensor of an expert that is not compressed";
    case OpKind::decompress:
      return "a chunk of exponents is decompressed";
    case OpKind::recover:
      return "planes are joined to a tensor's weights";
    case OpKind::execute:
      return "an expert is computed by the GPU";
    case OpKind::dense:
      return "attention, norms, router and dense layers, or the head";
    case OpKind::shared_expert:
      return "experts that every token uses";
    case OpKind::host:
      return "the runtime's own time on the host";
    case OpKind::cpu_execute:
      return "an expert is computed by the CPU, in the host's memory";
    case OpKind::send:
      return "hidden states go to where experts are computed";
    case OpKind::receive:
      return "what the experts made of them comes back";
    case OpKind::predict:
      return "gates of a later layer are computed ahead";
    case OpKind::wait:
      return "a layer ends with fetches that were on their way";
    case OpKind::grouped_experts:
      return "all experts of a layer in one product";
    case OpKind::all_reduce:
      return "hidden states are summed up over the GPUs";
    case OpKind::remap:
      return "addresses of a layer's experts are backed by the window's memory";
    case OpKind::decode:
      return "experts that lie compressed in the GPU's memory are decoded into the window";
    case OpKind::load:
      return "experts come to the GPU from the host's memory or the SSD";
    case OpKind::swap_in:
      return "blocks of the KV cache come from the host's memory";
    case OpKind::swap_out:
      return "blocks of the KV cache go to the host's memory";
    case OpKind::promote:
      return "experts come that stay in the GPU's memory from now on";
    case OpKind::message:
      return "hidden states go from one server to another";
    case OpKind::remote_experts:
      return "experts that another GPU computes";
    case OpKind::migrate:
      return "an expert moves to where it is to be from now on";
    case OpKind::dispatch:
      return "rows go to all GPUs";
    case OpKind::combine:
      return "what the experts made of rows goes back to whose rows they are";
    case OpKind::draft:
      return "tokens are drafted that the step verifies";
  }
  return {};
}

}  // namespace moelab
