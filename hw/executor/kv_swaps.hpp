// Blocks of the KV cache on their way between a GPU's memory and the host's. Policies count blocks without
// naming them, and what kernels compute is not looked at (compute_device.hpp). So there are two regions of as
// many bytes as the blocks take, and each copy goes on where the one before has ended, around and around.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hw/executor/compute_device.hpp"

namespace moelab {

/// Bytes of the KV cache at both ends of a link.
struct KvSwapRoom {
  std::uint64_t gpu_bytes = 0;   // of all blocks
  std::uint64_t host_bytes = 0;  // that are swapped at once at most; 0: nothing swaps
};

class KvSwaps {
 public:
  /// Takes the memory of both. The GPU outlives this. Throws std::invalid_argument where it has no memory of
  /// its own, std::bad_alloc.
  KvSwaps(ComputeDevice& gpu, const KvSwapRoom& room);
  ~KvSwaps();
  KvSwaps(const KvSwaps&) = delete;
  KvSwaps& operator=(const KvSwaps&) = delete;

  // On the engine's thread, before the copy. std::logic_error for more than there is room for, or than is
  // there.
  void begin_out(double bytes);
  void begin_in(double bytes);
  // The copies, of whole bytes, one at a time.
  void out(double bytes);
  void in(double bytes);

  double in_host() const { return in_host_; }             // bytes, now
  std::uint64_t bytes_out() const { return bytes_out_; }  // copied so far
  std::uint64_t bytes_in() const { return bytes_in_; }

 private:
  struct Region {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0, at = 0;  // the next copy begins there
    /// The next piece, to the region's end at most.
    std::uint64_t piece(std::uint64_t wanted) const { return wanted < bytes - at ? wanted : bytes - at; }
    void pass(std::uint64_t copied) { at = (at + copied) % bytes; }
  };
  template <class Copy>
  std::uint64_t copy(double bytes, Copy one_piece);

  ComputeDevice& gpu_device_;
  HostMemory host_memory_;
  Region gpu_, host_;
  PinnedRange pinned_;  // of host_
  double in_host_ = 0;  // of a format whose blocks may have parts of bytes
  std::uint64_t bytes_out_ = 0, bytes_in_ = 0;
};

}  // namespace moelab
