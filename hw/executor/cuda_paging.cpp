#include "hw/executor/cuda_paging.hpp"

#include <string>
#include <variant>
#include <vector>

#include "hw/codec/codec_error.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

/// Addresses that the decoders take, in elements of a plane.
constexpr std::size_t kDecodedFrom = 16;

class CudaPages final : public PagedMemory {
 public:
  CudaPages(std::size_t addresses, std::span<const std::size_t> pieces) : memory_(addresses, pieces) {}
  void map(std::size_t address, std::size_t frame, std::size_t) override { memory_.map(address, frame); }
  void unmap(std::size_t address, std::size_t frame, std::size_t) override { memory_.unmap(address, frame); }
  std::span<std::byte> at(std::size_t address, std::size_t bytes) const override {
    return {reinterpret_cast<std::byte*>(memory_.at(address)), bytes};
  }

 private:
  CudaPagedMemory memory_;
};

/// Exponents that were not compressed.
struct PlainShard {
  DeviceMemory exponents;
  std::size_t elements;
};

class CudaTensor final : public CompressedTensor {
 public:
  CudaTensor(const StoredTensor& tensor, bool verify, LeasePool<CudaDecoding>& decodings)
      : decodings_(decodings) {
    const auto decoding = decodings_.lease();
    const CudaStream& stream = decoding->stream;
    const std::size_t shards = tensor.records.size() - 1;
    for (std::size_t i = 0; i <= shards && verify; ++i)
      if (checksum(tensor.chunks[i]) != tensor.records[i].checksum)
        throw CodecError("a chunk's checksum is not the one it was packed with");
    for (std::size_t i = 0; i < shards; ++i) {
      const ShardRange range = shard_range(tensor.elements, shards, i);
      if (range.first % kDecodedFrom != 0)
        throw InputError("shards of " + std::to_string(range.size) + " weights",
                         "a GPU decodes from multiples of " + std::to_string(kDecodedFrom) + " on");
      if (range.size > 0) add_shard(range, tensor.records[i], tensor.chunks[i], stream);
    }
    if (tensor.chunks.back().size() != tensor.elements)
      throw CodecError("the SM-chunk has not the size that its tensor has");
    sign_mantissas_ = copied(tensor.chunks.back(), stream);
  }

  void decode(std::span<std::uint16_t> into) override {
    const TensorDecoding alone = {this, into};
    decode_on_cuda(std::span(&alone, 1), decodings_);
  }

  /// Adds what there is to launch; plain shards are launched at once.
  void add_to(std::vector<HuffmanDecoding>& huffman, std::vector<Fixed3Decoding>& fixed3,
              std::span<std::uint16_t> into, const CudaStream& stream) const {
    for (const Shard& shard : shards_) {
      const kernels::JoinTarget target = {sign_mantissas_.data() + shard.range.first,
                                          into.data() + shard.range.first};
      if (const auto* const coded = std::get_if<CudaHuffmanStream>(&shard.chunk))
        huffman.push_back({coded, target});
      else if (const auto* const chunk = std::get_if<CudaFixed3Chunk>(&shard.chunk))
        fixed3.push_back({chunk, target});
      else
        cuda_recover({std::get<PlainShard>(shard.chunk).exponents.data(), target.sign_mantissas, target.bf16,
                      shard.range.size},
                     stream.get());
    }
  }

 private:
  using ShardChunk = std::variant<PlainShard, CudaHuffmanStream, CudaFixed3Chunk>;
  struct Shard {
    ShardRange range;
    ShardChunk chunk;
  };

  static DeviceMemory copied(std::span<const std::byte> from, const CudaStream& stream) {
    DeviceMemory to(from.size());
    stream.copy(to.data(), from.data(), from.size());
    stream.wait();
    return to;
  }

  void add_shard(const ShardRange& range, const ChunkRecord& record, std::span<const std::byte> stored,
                 const CudaStream& stream) {
    if (record.plane_bytes != range.size || record.stored_bytes != stored.size())
      throw CodecError("a chunk has not the size that its tensor has");
    if (record.codec.starts_with("huffman-"))
      shards_.push_back({range, CudaHuffmanStream(stored, stream)});
    else if (record.codec == "fixed3")
      shards_.push_back({range, CudaFixed3Chunk(stored, stream)});
    else if (record.codec == "none" && stored.size() == range.size)
      shards_.push_back({range, PlainShard{copied(stored, stream), range.size}});
    else
      throw InputError("codec '" + record.codec + "'", "no kernel decodes it: expected huffman or fixed3");
    const std::uint64_t symbols =
        std::visit([](const auto& chunk) { return symbols_of(chunk); }, shards_.back().chunk);
    if (symbols != range.size) throw CodecError("a chunk has not the weights that its tensor has");
  }

  static std::uint64_t symbols_of(const PlainShard& shard) { return shard.elements; }
  template <class Chunk>
  static std::uint64_t symbols_of(const Chunk& chunk) {
    return chunk.symbols();
  }
  LeasePool<CudaDecoding>& decodings_;
  std::vector<Shard> shards_;
  DeviceMemory sign_mantissas_;
};

}  // namespace

void decode_on_cuda(std::span<const TensorDecoding> tensors, LeasePool<CudaDecoding>& decodings) {
  const auto decoding = decodings.lease();
  decoding->status.reset(decoding->stream);
  std::vector<HuffmanDecoding> huffman;
  std::vector<Fixed3Decoding> fixed3;
  for (const TensorDecoding& tensor : tensors)  // all that such a device keeps are of this class
    static_cast<const CudaTensor&>(*tensor.tensor).add_to(huffman, fixed3, tensor.into, decoding->stream);
  cuda_recover(huffman, decoding->status, decoding->stream.get());
  cuda_recover(fixed3, decoding->status, decoding->stream.get());
  decoding->status.check(decoding->stream, "decoded on the GPU");
}

std::unique_ptr<PagedMemory> make_cuda_paged(std::size_t addresses, std::span<const std::size_t> pieces) {
  return std::make_unique<CudaPages>(addresses, pieces);
}

std::unique_ptr<CompressedTensor> make_cuda_compressed(const StoredTensor& tensor, bool verify,
                                                       LeasePool<CudaDecoding>& decodings) {
  return std::make_unique<CudaTensor>(tensor, verify, decodings);
}

}  // namespace moelab
