#include "hw/executor/whole_tensors.hpp"

#include <cstring>

#include "traces/atomic_file.hpp"

namespace moelab {
namespace {

std::uint64_t bytes_of(const ExpertTensorKind& kind) {
  return aligned_chunk_bytes(2 * kind.elements());
}

std::uint64_t bytes_of_expert(const ExpertWeights& weights) {
  std::uint64_t bytes = 0;
  for (const ExpertTensorKind& kind : weights.kinds) bytes += bytes_of(kind);
  return bytes;
}

}  // namespace

std::uint64_t whole_tensor_offset(const ExpertWeights& weights, TensorPlace place) {
  std::uint64_t offset =
      (std::uint64_t{place.layer} * weights.experts + place.expert) * bytes_of_expert(weights);
  for (std::uint32_t kind = 0; kind < place.kind; ++kind) offset += bytes_of(weights.kinds[kind]);
  return offset;
}

std::uint64_t whole_tensors_bytes(const ExpertWeights& weights) {
  return weights.layers.size() * std::uint64_t{weights.experts} * bytes_of_expert(weights);
}

void write_whole_tensors(const ChunkStoreReader& store, const std::filesystem::path& file) {
  const ExpertWeights& weights = store.weights();
  AtomicFile out(file);
  ChunkDecoder decoder;
  std::vector<std::uint16_t> tensor;
  std::vector<std::byte> padded;
  for (std::uint64_t ordinal = 0; ordinal < weights.tensors(); ++ordinal) {
    const TensorPlace place = place_of(weights, ordinal);
    const ExpertTensorKind& kind = weights.kinds[place.kind];
    tensor.resize(kind.elements());
    store.read_tensor(decoder, place, tensor);
    padded.assign(bytes_of(kind), std::byte{0});
    std::memcpy(padded.data(), tensor.data(), 2 * tensor.size());
    out.write(padded);
  }
  out.commit();
}

}  // namespace moelab
