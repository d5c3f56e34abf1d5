#include <array>

#include "hw/bench/bench_case_makers.hpp"

namespace moelab {

std::span<const BenchRow> bench_table() {
  static constexpr std::array kTable = {
      BenchRow{.name = "read",
               .help = "One read of a file, from storage or from the page cache",
               .parameters = "mode (buffered: cold, cached: page cache hits, direct: O_DIRECT, io_uring), "
                             "bytes, depth (reads under way)",
               .make = make_read_case},
      BenchRow{.name = "memory",
               .help = "Reading and copying memory beyond the caches: what all threads together may expect",
               .parameters = "work (read, copy), threads",
               .make = make_memory_case},
      BenchRow{.name = "copy",
               .help = "One copy between two regions of memory on one thread: a stand-in GPU's link",
               .parameters = "bytes",
               .make = make_copy_case},
      BenchRow{.name = "decompress",
               .help = "One shard of an exponent plane decoded",
               .parameters = "codec, bytes (of plane), threads (each with shards of its own)",
               .make = make_decompress_case},
      BenchRow{.name = "interference",
               .help = "Reads beside decompression, and decompression beside reads, and both alone",
               .parameters = "timed (read, decompress), beside (nothing, decompress, read), codec, mode, "
                             "bytes, threads (that decompress)",
               .make = make_interference_case},
      BenchRow{.name = "join",
               .help = "Exponent and sign-mantissa planes joined to BF16 on the CPU",
               .parameters = "elements, threads",
               .make = make_join_case},
      BenchRow{.name = "recover",
               .help = "A fixed3 shard decoded and joined to BF16 in one go",
               .parameters = "codec, bytes (of plane), threads",
               .make = make_recover_case},
      BenchRow{.name = "checksum",
               .help = "The checksum of a chunk or tensor",
               .parameters = "bytes",
               .make = make_checksum_case},
      BenchRow{.name = "expert",
               .help = "One expert's feed-forward network in BF16 on one core",
               .parameters = "hidden, width, matrices, tokens",
               .make = make_expert_case},
      BenchRow{.name = "dense",
               .help = "Dense layers' products in BF16 on one core: memory bound at one token",
               .parameters = "bytes (of weights), tokens",
               .make = make_dense_case},
      BenchRow{.name = "sharing",
               .help = "One operation while so many threads are busy with all kinds of them",
               .parameters = "work (decompress, join, expert), busy (threads, the timed one with them)",
               .make = make_sharing_case},
      BenchRow{.name = "handoff",
               .help = "An operation handed to a waiting thread, until it begins",
               .parameters = "kind (condition_variable, spin), threads (handed to at a time), idle_us (that "
                             "they have waited: cores with nothing to do are dear to wake)",
               .make = make_handoff_case},
      BenchRow{.name = "cuda-link",
               .help = "One copy between host and GPU",
               .parameters =
                   "direction (to_device, to_host), memory (pinned, pageable, mapped: by a kernel), "
                   "bytes",
               .make = make_cuda_link_case},
      BenchRow{.name = "cuda-copy",
               .help = "One copy within the GPU's memory: what no kernel that reads and writes beats",
               .parameters = "bytes (read, and as many written)",
               .make = make_cuda_copy_case},
      BenchRow{.name = "cuda-recover",
               .help = "A tensor's planes, or its chunk and a plane, to BF16 on the GPU",
               .parameters = "codec (none: planes), bytes (of BF16)",
               .make = make_cuda_recover_case},
      BenchRow{.name = "cuda-expert",
               .help = "One expert's feed-forward network in BF16 on the GPU, weights from its memory",
               .parameters = "hidden, width, matrices, tokens",
               .make = make_cuda_expert_case},
      BenchRow{.name = "cuda-launch",
               .help = "One launch of a kernel that does next to nothing",
               .parameters = "until (queued: the launch returns, completed: the host knows it is done)",
               .make = make_cuda_launch_case},
      BenchRow{.name = "cuda-remap",
               .help = "GPU memory mapped to, or unmapped from, addresses that stay",
               .parameters = "step (map, unmap), bytes",
               .make = make_cuda_remap_case},
      BenchRow{.name = "cuda-overlap",
               .help = "A copy to the GPU beside computing, and computing beside copies",
               .parameters = "timed (copy, expert), bytes (of a copy), hidden, width, matrices",
               .make = make_cuda_overlap_case},
  };
  return kTable;
}

}  // namespace moelab
