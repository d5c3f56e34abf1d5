// Paging by the CPU: the process's pages, and chunks that this machine's codecs decode.
#include <algorithm>
#include <numeric>
#include <vector>

#include "hw/codec/codec_error.hpp"
#include "hw/codec/planes.hpp"
#include "hw/executor/cpu_device.hpp"
#include "hw/io/remapped_memory.hpp"

namespace moelab {
namespace {

class ProcessPages final : public PagedMemory {
 public:
  ProcessPages(std::size_t addresses, std::size_t frames) : memory_(addresses, frames) {}
  void map(std::size_t address, std::size_t frame, std::size_t bytes) override {
    memory_.map(address, frame, bytes);
  }
  void unmap(std::size_t address, std::size_t frame, std::size_t bytes) override {
    memory_.unmap(address, frame, bytes);
  }
  std::span<std::byte> at(std::size_t address, std::size_t bytes) const override {
    return memory_.at(address, bytes);
  }

 private:
  RemappedMemory memory_;
};

/// What a thread decodes with, made once: fresh pages would cost as much again.
struct Scratch {
  ChunkDecoder verifies{ChunkDecoder::Checksums::verify}, skips{ChunkDecoder::Checksums::skip};
  std::vector<std::byte> exponents;
};

class ProcessTensor final : public CompressedTensor {
 public:
  ProcessTensor(const StoredTensor& tensor, bool verify)
      : records_(tensor.records.begin(), tensor.records.end()), verify_(verify) {
    for (const std::span<const std::byte> chunk : tensor.chunks) {
      chunks_.emplace_back(chunk.size());
      std::ranges::copy(chunk, chunks_.back().bytes().begin());
    }
  }

  void decode(std::span<std::uint16_t> into) override {
    thread_local Scratch scratch;
    scratch.exponents.resize(std::max(scratch.exponents.size(), into.size()));
    const std::span<std::byte> plane = std::span(scratch.exponents).first(into.size());
    ChunkDecoder& decoder = verify_ ? scratch.verifies : scratch.skips;
    const std::size_t shards = chunks_.size() - 1;
    for (std::size_t i = 0; i < shards; ++i) {
      const ShardRange range = shard_range(into.size(), shards, i);
      decoder.decode(records_[i], chunks_[i].bytes(), plane.subspan(range.first, range.size));
    }
    const std::span<const std::byte> signs = chunks_.back().bytes();
    if (verify_ && checksum(signs) != records_.back().checksum)
      throw CodecError("SM-chunk: its checksum is not the one it was packed with");
    join_planes(plane, signs, into);
  }

 private:
  std::vector<ChunkRecord> records_;
  std::vector<AlignedMemory> chunks_;
  bool verify_;
};

}  // namespace

std::size_t CpuDevice::page_bytes() const {
  return RemappedMemory::page();
}

std::unique_ptr<PagedMemory> CpuDevice::make_paged(std::size_t addresses,
                                                   std::span<const std::size_t> pieces) {
  return std::make_unique<ProcessPages>(addresses,
                                        std::accumulate(pieces.begin(), pieces.end(), std::size_t{0}));
}

std::unique_ptr<CompressedTensor> CpuDevice::keep(const StoredTensor& tensor, bool verify) {
  return std::make_unique<ProcessTensor>(tensor, verify);
}

void CpuDevice::decode_all(std::span<const TensorDecoding> tensors) {
  for (const TensorDecoding& decoding : tensors) decoding.tensor->decode(decoding.into);
}

void CpuDevice::execute_all(std::span<const ExpertRun> experts) {
  for (const ExpertRun& run : experts) execute(run.operands, run.tokens);
}

}  // namespace moelab
