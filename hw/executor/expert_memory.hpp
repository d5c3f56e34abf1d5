// What is really in memory of every expert: buffers that follow the cache states.
//
// An expert's tensor may be there as up to four parts: its SM-chunk, its K E-chunks, its plain exponent plane
// (while it is being decompressed and joined) and the joined tensor. States keep F: the tensor; C: SM-chunk
// and E-chunks; S: the SM-chunk; E: the E-chunks. While the expert is in use all parts that were loaded for
// it stay, so that it can go to any state; with the last use goes what its state does not keep. An expert
// that was in F was not read, so it has no E-chunks and never goes to C or E; when it goes to S its SM-plane
// is taken out of the tensor, here and now, a cost the simulator does not know (conversion_seconds()).
//
// Everything here is called on the engine's thread. Parts of one tensor are filled by other threads, each
// buffer by one, between the calls before and after the operation.
#pragma once

#include <optional>
#include <vector>

#include "hw/executor/compute_device.hpp"
#include "hw/store/chunk_store_reader.hpp"
#include "sim/engine/expert_mirror.hpp"

namespace moelab {

struct TensorParts {
  Buffer sign_mantissas;                // the SM-chunk
  std::vector<Buffer> exponent_chunks;  // K of them
  Buffer exponents;                     // plain
  Buffer tensor;                        // joined, in the device's memory
};

class ExpertMemory {
 public:
  /// Where the parts come from: storage, or the host's memory, which gives whole tensors only.
  enum class From { storage, host };
  /// Everything by reference outlives it. `limit`: bytes that all parts together never exceed (InputError
  /// from whatever would); 0: none. With a limit memory for them is taken here and now, of the device for
  /// parts from the host, of the machine otherwise, unless tensors lie elsewhere (std::bad_alloc).
  ExpertMemory(const ChunkStoreReader& store, ComputeDevice& device, std::uint64_t limit,
               From from = From::storage);
  // As the mirror of a serving loop is told them (engine::ExpertMirror).
  void use(engine::ExpertPlace expert);
  void keep(engine::ExpertPlace expert, engine::Kept from, engine::Kept to);
  void release(engine::ExpertPlace expert);

  TensorParts& parts(TensorPlace place) { return parts_[ordinal_of(weights_, place)]; }
  // Before operations fill them. std::logic_error where they are there already: the simulator and we do not
  // agree about what is in memory.
  void take_sign_mantissas(TensorPlace place);
  void take_exponent_chunk(TensorPlace place, std::uint32_t chunk, std::uint64_t stored_bytes);
  void take_exponents(TensorPlace place);  // once for all chunks
  void take_tensor(TensorPlace place);
  /// The plain plane is not needed any more.
  void give_exponents(TensorPlace place);
  /// std::logic_error where this is not in memory: `what` is needed by an operation.
  void require(const Buffer& part, TensorPlace place, const char* what) const;

  const MemoryLedger& ledger() const { return ledger_; }
  double conversion_seconds() const { return conversion_s_; }

 private:
  struct Expert {
    engine::Kept kept = engine::Kept::nothing;
    std::uint32_t uses = 0;
  };
  Expert& expert(engine::ExpertPlace place);
  void require_kept_parts(engine::ExpertPlace place, engine::Kept kept) const;
  void trim(engine::ExpertPlace place, engine::Kept kept);
  void trim(TensorPlace place, engine::Kept kept);
  void take(Buffer& part, BufferPool& from, std::size_t bytes, TensorPlace place);

  const ExpertWeights& weights_;
  ComputeDevice& device_;
  MemoryLedger ledger_;
  HostMemory host_;
  BufferPool planes_;
  std::optional<BufferPool> device_tensors_;  // of a device with memory of its own
  BufferPool& tensors_;
  std::vector<Expert> experts_;     // by layer * experts + expert
  std::vector<TensorParts> parts_;  // by ordinal
  double conversion_s_ = 0;
};

}  // namespace moelab
