// A GPU's memory in pieces that are shown at addresses of one's choice and moved to others: CUDA's virtual
// memory management. No byte is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace moelab {

/// Why the current GPU has no such memory; empty: it has. Throws CudaError where there is no GPU.
std::string cuda_paging_missing();

class CudaPagedMemory {
 public:
  /// Mappings begin and end at multiples of this many bytes.
  static std::size_t granularity();

  /// Reserves so many bytes of addresses and takes memory for the pieces (bytes each), which lie one after
  /// the other: a piece is named by its frame, the bytes before it. All are multiples of granularity().
  /// Throws CudaError, std::runtime_error with the driver's error.
  CudaPagedMemory(std::size_t addresses, std::span<const std::size_t> pieces);
  CudaPagedMemory(const CudaPagedMemory&) = delete;
  CudaPagedMemory& operator=(const CudaPagedMemory&) = delete;
  ~CudaPagedMemory();

  // One thread at a time. The whole piece is mapped. Throw std::invalid_argument where no piece begins, it is
  // mapped already or it is not, or there are not so many addresses.
  void map(std::size_t address, std::size_t frame);
  void unmap(std::size_t address, std::size_t frame);

  std::uint8_t* at(std::size_t address) const { return reinterpret_cast<std::uint8_t*>(begin_) + address; }
  /// Of all pieces.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Piece {
    unsigned long long handle;
    std::size_t bytes;
    bool mapped;
    std::size_t address;  // where it is mapped
  };
  Piece& piece_at(std::size_t frame);
  void release();

  int device_;
  std::size_t addresses_, bytes_ = 0;
  unsigned long long begin_ = 0;
  std::map<std::size_t, Piece> pieces_;  // by frame
};

}  // namespace moelab
