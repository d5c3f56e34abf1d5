// What a device does beside computing for experts that are paged, whole layers at a time: pages of its memory
// that move between addresses, and tensors that lie compressed in its memory and are decoded there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hw/codec/chunk.hpp"
#include "hw/executor/compute_device.hpp"

namespace moelab {

/// Pieces of memory, each shown at one address at most. As RemappedMemory says, with one difference: a frame
/// is where a piece begins, and no more bytes than the piece has are mapped.
class PagedMemory {
 public:
  virtual ~PagedMemory() = default;
  virtual void map(std::size_t address, std::size_t frame, std::size_t bytes) = 0;
  virtual void unmap(std::size_t address, std::size_t frame, std::size_t bytes) = 0;
  /// Addresses; only what is mapped may be touched, by the device.
  virtual std::span<std::byte> at(std::size_t address, std::size_t bytes) const = 0;
};

/// A tensor as a store has it, in this machine's memory: K chunks of exponents, then that of the signs and
/// mantissas, and the records of all.
struct StoredTensor {
  std::size_t elements;
  std::span<const ChunkRecord> records;
  std::span<const std::span<const std::byte>> chunks;
};

/// A tensor that lies compressed in a device's memory.
class CompressedTensor {
 public:
  virtual ~CompressedTensor() = default;
  /// Decodes it into the device's memory and returns when that is done. One thread. Throws CodecError for
  /// damaged chunks.
  virtual void decode(std::span<std::uint16_t> into) = 0;
};

/// A tensor and where it is decoded to.
struct TensorDecoding {
  CompressedTensor* tensor;
  std::span<std::uint16_t> into;
};

/// An expert of a layer's, and the tokens that use it.
struct ExpertRun {
  ExpertOperands operands;
  std::uint32_t tokens;
};

class PagingDevice {
 public:
  virtual ~PagingDevice() = default;
  /// Mappings begin and end at multiples of this many bytes.
  virtual std::size_t page_bytes() const = 0;
  /// Addresses for so many bytes, and pieces one after the other; all are multiples of page_bytes(). Each
  /// address is mapped to nothing, and has behind it as many as the largest piece that is mapped there.
  /// Throws std::bad_alloc, InputError or CudaError where the system cannot.
  virtual std::unique_ptr<PagedMemory> make_paged(std::size_t addresses,
                                                  std::span<const std::size_t> pieces) = 0;
  /// Copies the chunks. `verify`: they are compared with their checksums. Throws CodecError for damaged ones,
  /// InputError for a codec that the device does not decode.
  virtual std::unique_ptr<CompressedTensor> keep(const StoredTensor& tensor, bool verify) = 0;
  /// Decodes tensors that it keeps, many at a time where the device can. Throws CodecError where one is
  /// damaged.
  virtual void decode_all(std::span<const TensorDecoding> tensors) = 0;
  /// Computes a layer's experts.
  virtual void execute_all(std::span<const ExpertRun> experts) = 0;
  /// Computes the expert for so many tokens. A checksum of what comes out: the same for the same weights,
  /// wherever they lie.
  virtual std::uint64_t outcome_of(const ExpertOperands& expert, std::uint32_t tokens) = 0;
  /// The same of operands in this machine's memory.
  virtual std::uint64_t outcome_of_host(const ExpertOperands& expert, std::uint32_t tokens) = 0;
};

}  // namespace moelab
