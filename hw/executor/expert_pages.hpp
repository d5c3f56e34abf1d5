// The window that experts are streamed into, as pages: FluxMoE's paged tensors (Liu et al. 2026,
// section 4.1).
//
//   Every layer has addresses of its own for its streamed experts, one range a tensor type (gate with up;
//   down). There is memory for two layers only. Remapping takes the half's pages from the layer that had them
//   before and shows them at the addresses of the layer that comes; what was there is a fault from then on.
//
// Rules of the protocol that hold here whatever the caller does (std::logic_error where one is broken):
//   WAR  no half is remapped or written while a kernel reads it
//   RAW  a kernel reads only what was loaded for its layer: each writer leaves the layer's number, without a
//   lock,
//        for the protocol is to order those that write and those that read
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hw/executor/paging_device.hpp"
#include "hw/store/chunk_store_reader.hpp"
#include "sim/engine/window_mirror.hpp"

namespace moelab {

class ExpertPages {
 public:
  static constexpr std::uint32_t kHalves = 2, kTypes = 2;
  static constexpr std::uint32_t kNoLayer = 0xffffffff;

  /// `streamed`: by backend, whether its experts pass through the window. `gpu` and `weights` outlive it.
  /// Takes all memory. Throws as PagingDevice::make_paged does.
  ExpertPages(PagingDevice& gpu, const ExpertWeights& weights, const engine::StoredExperts& stored,
              const std::vector<bool>& streamed);

  /// Bytes of two halves: tensors', without what pages add.
  std::uint64_t bytes() const;
  /// The tensor type of a kind: the last kind is one of its own.
  std::uint16_t type_of(std::uint32_t kind) const { return kind + 1 < weights_.kinds.size() ? 0 : 1; }
  bool streams(std::uint32_t layer, std::uint32_t expert) const { return slot_of(layer, expert) != kNoSlot; }

  // On one thread.
  /// The type's pages of a half from whatever layer had them to this one.
  void remap(std::uint32_t layer, std::uint16_t type, std::uint32_t half);

  // On any thread.
  /// Where a streamed expert's tensor is shown while its layer has a half.
  std::span<std::uint16_t> tensor(TensorPlace place) const;
  /// A backend is about to write, or has written, what it brings of the layer's type.
  void begin_write(std::uint32_t layer, std::uint16_t type, std::uint32_t half, std::size_t backend);
  /// A kernel reads the half from here on, until the object goes; all of `backends` have written for the
  /// layer.
  class Reading {
   public:
    Reading(ExpertPages& pages, std::uint32_t layer, std::uint32_t half,
            std::span<const std::size_t> backends);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    ExpertPages& pages_;
    std::uint32_t half_;
  };

 private:
  static constexpr std::uint32_t kNoSlot = 0xffffffff;
  std::uint32_t slot_of(std::uint32_t layer, std::uint32_t expert) const {
    return slots_[std::size_t{layer} * experts_ + expert];
  }
  std::uint64_t tensor_bytes(std::uint16_t type) const;
  std::uint32_t& writer(std::uint32_t half, std::uint16_t type, std::size_t backend) {
    return writers_[(std::size_t{half} * kTypes + type) * backends_ + backend];
  }
  void number_experts(const engine::StoredExperts& stored, const std::vector<bool>& streamed);
  void require_unread(std::uint32_t half, const char* doing) const;

  std::size_t whole_range(std::size_t bytes) const;

  const ExpertWeights& weights_;
  std::size_t page_;
  std::uint32_t experts_;
  std::size_t backends_;
  std::vector<std::uint32_t> slots_;                  // [layers, experts], of the layer's range
  std::vector<std::uint32_t> counts_;                 // streamed experts, by layer
  std::uint32_t most_ = 0;                            // of these
  std::vector<std::size_t> in_slot_;                  // by kind: where it begins in its type's slot
  std::array<std::size_t, kTypes> slot_bytes_{};      // by type
  std::vector<std::size_t> ranges_;                   // [layers, types]: where its addresses begin
  std::array<std::size_t, kTypes> frames_of_type_{};  // of a half: where its frames begin
  std::size_t half_bytes_ = 0;
  std::unique_ptr<PagedMemory> memory_;
  std::array<std::array<std::uint32_t, kTypes>, kHalves> mapped_;  // to which layer
  std::array<std::atomic<std::uint32_t>, kHalves> readers_{};
  std::vector<std::uint32_t> writers_;  // [halves, types, backends]: the layer that was last written for
};

}  // namespace moelab
