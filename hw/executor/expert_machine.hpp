// The machine that serves experts from a chunk store: what the serving loop's operations are on hardware.
//
//   read_sm, read_e   the chunk, by a Reader, into memory
//   read_tensor       the whole tensor (whole_tensors.hpp), by a Reader, into the device's memory
//   decompress        an E-chunk into its part of the plain exponent plane, by the chunk's codec
//   recover           both planes joined into the tensor, on the device
//   execute           the expert's network for its tokens, on the device
//
// With a discrete GPU experts lie in the host's memory (linked_experts.hpp), and
//
//   read_tensor       the whole tensor, copied over the link
//   cpu_execute       the expert's network for its tokens, by the CPU, from where it lies
//   send, receive     the activations of so many tokens, copied over the link
//
// What else a step does is in step_operations.hpp.
//
// What a cache holds from the start is loaded before the run, by the same ways (expert_preload.cpp).
//
// Before an expert is computed, its tensors are compared with the checksums they were packed with: whatever
// went wrong on the way, in a file, a buffer or a policy's bookkeeping, no wrong tensor is used.
//
// A read whose label says `page_cache` is served by a second reader, whatever the simulator assumed of the
// kernel's page cache: buffered reads, which may hit or miss there, or reads paced as the profile says.
// Without one such reads are refused: run the scenario with page_cache: false.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "hw/executor/compute_device.hpp"
#include "hw/executor/expert_memory.hpp"
#include "hw/executor/lease_pool.hpp"
#include "hw/executor/linked_experts.hpp"
#include "hw/executor/machine.hpp"
#include "hw/executor/step_operations.hpp"
#include "hw/io/reader.hpp"
#include "hw/store/chunk_store_reader.hpp"
#include "models/architecture.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

struct ExpertMachineOptions {
  using OpenReader = std::function<std::unique_ptr<Reader>()>;
  /// Opens what reads of tier ssd go through, once for each thread that reads: of the store's data, or with
  /// `shards` 0 of its whole tensors.
  OpenReader storage = {};
  OpenReader page_cache = {};  // of tier page_cache; empty: these are refused
  /// With a discrete GPU: what reads of tier host are of, in place of storage, and who computes what stays
  /// there. Both outlive the machine.
  const HostExperts* host_experts = nullptr;
  ComputeDevice* cpu = nullptr;
  KvSwapRoom swaps = {};            // with a discrete GPU, for requests that are swapped
  std::size_t reading_threads = 1;  // 1, and with worker_reads one more for each decompression thread
  std::uint32_t shards = 0;         // of the system, K; 0: whole tensors
  std::uint64_t memory_limit = 0;   // bytes of experts in memory, from the plan; 0: none
  bool verify = true;               // checksums of chunks and tensors; off to time what is left
  bool dense = true;                // off: dense and shared parts take no time
};

class ExpertMachine final : public Machine, public engine::ExpertMirror {
 public:
  /// Store and device outlive it. Throws InputError where the store is of another model or has another number
  /// of shards, and what opening the readers throws.
  ExpertMachine(const ChunkStoreReader& store, const Architecture& model, ComputeDevice& device,
                ExpertMachineOptions options);

  void begin(const engine::Graph& graph, engine::OpIndex op) override;
  void run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) override;
  void end(const engine::Graph& graph, engine::OpIndex op) override;

  // What the serving loop tells of states.
  void preload(engine::ExpertPlace expert, engine::Kept as) override;
  void use(engine::ExpertPlace expert) override { memory_.use(expert); }
  void keep(engine::ExpertPlace expert, engine::Kept from, engine::Kept to) override {
    memory_.keep(expert, from, to);
  }
  void release(engine::ExpertPlace expert) override { memory_.release(expert); }

  /// What is in memory.
  ExpertMemory& memory() { return memory_; }
  /// Bytes that were really read in the run, without those before it and what alignment adds: those of the
  /// chunks as they are stored, where the simulator counts a profile's ratio.
  std::uint64_t bytes_read(Tier tier) const { return bytes_read_[static_cast<std::size_t>(tier)]; }
  /// nullptr: nothing swaps.
  const KvSwaps* swaps() const { return step_.swaps(); }

 private:
  void open_readers();
  TensorPlace place_of(const LabelledGraph& graph, const OpLabel& label) const;
  void begin_execution(const LabelledGraph& graph, const OpLabel& label);
  // These return how many bytes they have read.
  std::uint64_t read(Tier tier, std::uint64_t offset, std::uint64_t bytes, const Buffer& into);
  std::uint64_t read_sign_mantissas(Tier tier, TensorPlace place);
  std::uint64_t read_exponent_chunk(Tier tier, TensorPlace place, std::uint32_t chunk);
  std::uint64_t read_tensor(Tier tier, TensorPlace place);
  void take_exponent_chunk(TensorPlace place, std::uint32_t chunk);
  void preload_tensor(TensorPlace place, engine::Kept as);
  void preload_joined(TensorPlace place);
  void decompress(TensorPlace place, std::uint32_t chunk);
  void recover(TensorPlace place);
  void execute(const LabelledGraph& graph, const OpLabel& label);
  void verify(TensorPlace place, std::span<const std::uint16_t> tensor, ComputeDevice& device) const;
  void compute_on_cpu(engine::ExpertPlace expert, std::uint32_t tokens);
  LinkedExperts& linked();
  void run_expert_part(const LabelledGraph& graph, const OpLabel& label);
  [[noreturn]] void fail(TensorPlace place, const std::string& what) const;

  const ChunkStoreReader& store_;
  const ExpertWeights& weights_;
  ComputeDevice& device_;
  ExpertMachineOptions options_;
  ExpertMemory memory_;
  StepOperations step_;
  std::optional<LinkedExperts> linked_;
  LeasePool<Reader> storage_, page_cache_;
  LeasePool<ChunkDecoder> decoders_;
  LeasePool<AlignedMemory> landings_;     // where whole tensors are read to that lie in a device's memory
  std::vector<std::uint64_t> checksums_;  // of tensors, by ordinal
  std::array<std::atomic<std::uint64_t>, kTiers> bytes_read_{};
};

}  // namespace moelab
