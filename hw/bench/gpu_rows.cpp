// The rows of the GPU's cases, which a program without CUDA lists too. To add one: a row here, the case in
// cuda_cases.cpp, and its absence in no_cuda_cases.cpp.
#include "hw/bench/cuda_cases.hpp"

namespace moelab {

BenchRow cuda_link_case() {
  return {.name = "cuda-link",
          .help = "One copy between host and GPU",
          .parameters =
              "direction (to_device, to_host), memory (pinned, pageable, mapped: by a kernel), "
              "bytes",
          .make = make_cuda_link_case};
}

BenchRow cuda_copy_case() {
  return {.name = "cuda-copy",
          .help = "One copy within the GPU's memory: what no kernel that reads and writes beats",
          .parameters = "bytes (read, and as many written)",
          .make = make_cuda_copy_case};
}

BenchRow cuda_recover_case() {
  return {.name = "cuda-recover",
          .help = "A tensor's planes, or its chunk and a plane, to BF16 on the GPU",
          .parameters = "codec (none: planes), bytes (of BF16)",
          .make = make_cuda_recover_case};
}

BenchRow cuda_expert_case() {
  return {.name = "cuda-expert",
          .help = "One expert's feed-forward network in BF16 on the GPU, weights from its memory",
          .parameters = "hidden, width, matrices, tokens",
          .make = make_cuda_expert_case};
}

BenchRow cuda_launch_case() {
  return {.name = "cuda-launch",
          .help = "One launch of a kernel that does next to nothing",
          .parameters = "until (queued: the launch returns, completed: the host knows it is done)",
          .make = make_cuda_launch_case};
}

BenchRow cuda_remap_case() {
  return {.name = "cuda-remap",
          .help = "GPU memory mapped to, or unmapped from, addresses that stay",
          .parameters = "step (map, unmap), bytes",
          .make = make_cuda_remap_case};
}

BenchRow cuda_overlap_case() {
  return {.name = "cuda-overlap",
          .help = "A copy to the GPU beside computing, and computing beside copies",
          .parameters = "timed (copy, expert), bytes (of a copy), hidden, width, matrices",
          .make = make_cuda_overlap_case};
}

}  // namespace moelab
