// The operations of a layer as works of threads: for the case that times one, and for those that time it
// beside others. Each goes round its data, so that what it reads is not what it has just read, and what it
// writes (`to`: BenchWorkspace::output of its thread) has left the nearer caches.
#pragma once

#include <memory>

#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"

namespace moelab {

class BenchOperation {
 public:
  virtual ~BenchOperation() = default;
  virtual void run() = 0;
  /// Whether what the last run() wrote is right; after at least one.
  virtual bool right() const = 0;
};

/// Decodes one shard into `to`. `shards` outlives it, as do all that follow; `of` is its whole exponent
/// plane.
std::unique_ptr<BenchOperation> decompress_operation(const BenchShards& shards, std::span<const std::byte> of,
                                                     std::span<std::byte> to);
/// Joins planes of so many elements (no more than the tensor's).
std::unique_ptr<BenchOperation> join_operation(const BenchTensor& tensor, std::size_t elements,
                                               std::span<std::byte> to);
/// Decodes a fixed3 shard and joins it with its sign-mantissa bytes, in one go.
std::unique_ptr<BenchOperation> recover_operation(const BenchShards& shards, const BenchTensor& tensor,
                                                  std::span<std::byte> to);
/// Copies so many bytes of `from` into `to`, at least as many in either.
std::unique_ptr<BenchOperation> copy_operation(const AlignedMemory& from, std::size_t bytes,
                                               std::span<std::byte> to);
/// One expert, for so many tokens; of those that lie in `ones` (BenchWorkspace::ones), `first` begins.
std::unique_ptr<BenchOperation> expert_operation(const AlignedMemory& ones, const ExpertShape& shape,
                                                 std::size_t tokens, std::size_t first = 0);

/// One operation a thread.
using BenchOperations = std::vector<std::unique_ptr<BenchOperation>>;
std::vector<BenchWork> works_of(const BenchOperations& operations);
/// Runs each once; empty, or what is wrong.
std::string check_operations(const BenchOperations& operations);

}  // namespace moelab
