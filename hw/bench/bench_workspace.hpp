// What benchmark cases share: data that are dear to make, made once and when they are asked for.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "hw/bench/bench_case.hpp"
#include "hw/bench/scratch_file.hpp"
#include "hw/io/aligned_memory.hpp"

namespace moelab {

/// Weights that compress as trained ones do, and their planes.
struct BenchTensor {
  AlignedMemory weights, exponents, sign_mantissas;  // as many elements in each; BF16 in the first
};

/// The exponent plane, or its beginning, in shards of one size, encoded by one codec.
struct BenchShards {
  std::string codec;
  std::size_t bytes;                           // of plane, each
  std::vector<std::vector<std::byte>> stored;  // encoded, one after the other as the plane has them
};

class BenchWorkspace {
 public:
  /// Throws InputError for a codec that is not known.
  explicit BenchWorkspace(BenchOptions options);

  const BenchOptions& options() const { return options_; }
  unsigned cores() const { return options_.cores; }
  /// 1, 2, 4, ... and the number of cores.
  std::vector<unsigned> thread_counts() const;
  /// Bytes of reads and shards, rising.
  const std::vector<std::size_t>& sizes() const { return options_.sizes; }
  const std::vector<ExpertShape>& experts() const { return options_.experts; }
  const std::vector<std::string>& codecs() const { return options_.codecs; }

  /// Bytes of memory that all that follows may take in all.
  std::uint64_t memory_due() const;
  /// Why so many bytes are more than the memory that can be had; empty where they are not.
  std::string why_no_memory(std::uint64_t due) const;
  std::string why_no_memory() const { return why_no_memory(memory_due()); }
  const BenchTensor& tensor();
  const BenchShards& shards(const std::string& codec, std::size_t bytes);
  /// Where a thread writes what is read soon and written over again, as planes are: at least two results of
  /// any size, which the last cache may hold.
  std::span<std::byte> near_output(unsigned thread);
  /// Where one of so many threads writes what stays, as joined tensors do: at least two results of any size,
  /// and all threads together more than the caches hold.
  std::span<std::byte> far_output(unsigned thread, unsigned threads);
  /// fixed3 where it is among the codecs, else their last.
  const std::string& usual_codec() const;
  /// BF16 ones, room for the largest expert and more than the caches hold.
  const AlignedMemory& ones();
  const ScratchFile& file();
  std::uint64_t file_bytes() const;

 private:
  std::size_t tensor_elements() const;
  std::size_t near_bytes() const;
  std::size_t far_bytes() const;
  std::size_t ones_bytes() const;
  /// Threads that write at a time (sharing_case.cpp).
  unsigned most_writers() const { return cores() + 2; }

  BenchOptions options_;
  std::unique_ptr<BenchTensor> tensor_;
  std::map<std::pair<std::string, std::size_t>, BenchShards> shards_;
  std::map<unsigned, AlignedMemory> near_;
  AlignedMemory far_;
  AlignedMemory ones_;
  std::unique_ptr<ScratchFile> file_;
};

/// Bytes, more than the last cache of the processor holds (as far as that is within reason): memory that is
/// gone round has left the cache when it comes again.
std::size_t beyond_caches(bool quick);

}  // namespace moelab
