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
  };
  return kTable;
}

}  // namespace moelab
