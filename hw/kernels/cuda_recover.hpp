// The kernels' launches: planes, Huffman streams and fixed3 chunks in GPU memory into BF16 tensors in GPU
// memory. All return at once, the work is done in the stream's order, and throw CudaError where the launch
// fails. README.md says what each kernel moves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hw/kernels/cuda_memory.hpp"
#include "hw/kernels/cuda_stream.hpp"
#include "hw/kernels/kernel_jobs.hpp"

namespace moelab {

/// Joins two planes. Any addresses; vectors where all three are multiples of 16.
void cuda_recover(const kernels::RecoveryJob& job, cudaStream_t stream);

/// Whether the decoders found their chunks sound, as a word in GPU memory that they set where not.
class DecodeStatus {
 public:
  DecodeStatus();
  /// Forgets what was found, in the stream's order.
  void reset(const CudaStream& stream);
  /// Waits for the stream. Throws CodecError, with `what` in front, if a decoder of it found its chunk
  /// damaged since the reset: the outputs since then are not to be used.
  void check(const CudaStream& stream, const char* what);
  std::uint32_t* word() const { return device_.as<std::uint32_t>(); }

 private:
  DeviceMemory device_;
  PinnedMemory host_;
};

/// A Huffman stream in GPU memory, parsed and ready: the table of its code beside it.
class CudaHuffmanStream {
 public:
  /// Parses `stored` (throws CodecError) and copies it, in the stream's order; it is done when it returns.
  CudaHuffmanStream(std::span<const std::byte> stored, const CudaStream& stream);

  std::uint64_t symbols() const { return job_.symbols; }
  /// Bytes of GPU memory.
  std::size_t size() const { return stored_.size() + sizeof(HuffmanRuns); }
  /// Decodes and joins all symbols(). Throws std::invalid_argument unless the addresses are multiples of 16.
  void recover(const kernels::JoinTarget& target, const DecodeStatus& status, cudaStream_t stream) const;

  // What a launch takes.
  const kernels::HuffmanJob& job() const { return job_; }
  const HuffmanRuns* table() const { return runs_.as<HuffmanRuns>(); }
  unsigned window() const { return window_; }

 private:
  DeviceMemory stored_, runs_;
  kernels::HuffmanJob job_;
  std::uint32_t window_;
};

/// A fixed3 chunk in GPU memory, parsed and ready.
class CudaFixed3Chunk {
 public:
  /// Parses `chunk` (throws CodecError) and copies it, in the stream's order; it is done when it returns.
  CudaFixed3Chunk(std::span<const std::byte> chunk, const CudaStream& stream);

  std::uint64_t symbols() const { return symbols_; }
  /// Bytes of GPU memory.
  std::size_t size() const { return chunk_.size(); }
  /// Decodes and joins all symbols(). Throws std::invalid_argument unless the addresses are multiples of 16.
  void recover(const kernels::JoinTarget& target, const DecodeStatus& status, cudaStream_t stream) const;

  // What a launch takes: of a chunk whose symbols are coded, and of one that has them as they are.
  bool raw() const { return raw_; }
  const kernels::Fixed3Job& job() const { return job_; }
  static const HuffmanRuns* table() { return nullptr; }
  static unsigned window() { return 0; }
  kernels::RecoveryJob plane(const kernels::JoinTarget& target) const {
    return {chunk_.data() + fixed3::kHeaderBytes, target.sign_mantissas, target.bf16, symbols_};
  }

 private:
  DeviceMemory chunk_;
  std::uint64_t symbols_;
  bool raw_;
  kernels::Fixed3Job job_;
};

/// A chunk and where it is decoded to.
struct HuffmanDecoding {
  const CudaHuffmanStream* chunk;
  kernels::JoinTarget target;
};
struct Fixed3Decoding {
  const CudaFixed3Chunk* chunk;
  kernels::JoinTarget target;
};

// Many chunks, in as few launches as they fit: a GPU that decodes small chunks one after the other is mostly
// idle. As their recover() otherwise.
void cuda_recover(std::span<const HuffmanDecoding> all, const DecodeStatus& status, cudaStream_t stream);
void cuda_recover(std::span<const Fixed3Decoding> all, const DecodeStatus& status, cudaStream_t stream);

}  // namespace moelab
