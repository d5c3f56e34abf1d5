#include "hw/store/chunk_store_report.hpp"

#include <algorithm>

namespace moelab {

namespace {

void add(CodecSize& size, const ChunkRecord& chunk) {
  size.exponent_plane_bytes += chunk.plane_bytes;
  size.exponent_stored_bytes += chunk.stored_bytes;
  ++size.chunks;
  size.plain_chunks += chunk.codec == "none" && size.codec != "none";
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double CodecSize::plane_ratio() const {
  return ratio(exponent_stored_bytes, exponent_plane_bytes);
}

double CodecSize::tensor_ratio() const {
  return ratio(exponent_stored_bytes + sign_mantissa_bytes, exponent_plane_bytes + sign_mantissa_bytes);
}

StoreReport report_on(const ChunkStoreReader& store) {
  const ChunkStoreIndex& index = store.index();
  const ExpertWeights& weights = store.weights();
  StoreReport report;
  report.size.codec = store.description().codec;
  report.data_bytes = index.data_bytes();
  ByteCounts all{};
  for (std::uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    const ByteCounts counts = index.exponent_counts(layer);
    for (std::size_t e = 0; e < all.size(); ++e) all[e] += counts[e];
  }
  report.exponent_entropy = entropy_bits(all);
  report.support =
      static_cast<std::uint32_t>(std::count_if(all.begin(), all.end(), [](auto n) { return n != 0; }));
  double bits = 0;
  for (std::uint64_t t = 0; t < index.tensors(); ++t) {
    const IndexedTensor tensor = index.tensor(t);
    for (std::size_t c = 0; c + 1 < tensor.chunks.size(); ++c) add(report.size, tensor.chunks[c].record);
    const std::uint64_t elements = tensor.chunks.back().record.plane_bytes;
    report.size.sign_mantissa_bytes += elements;
    bits += tensor.exponent_entropy * static_cast<double>(elements);
  }
  report.tensor_exponent_entropy = bits / static_cast<double>(weights.weights());
  return report;
}

std::vector<CodecSize> compare_codecs(const ChunkStoreReader& store, std::uint64_t tensors) {
  const ExpertWeights& weights = store.weights();
  tensors = std::min(tensors, weights.tensors());
  std::vector<CodecSize> sizes;
  for (const CodecRow& row : codec_table()) sizes.push_back({find_codec(row.name)->name()});
  ChunkDecoder decoder;
  std::vector<std::uint16_t> values;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const TensorPlace place = place_of(weights, i * weights.tensors() / tensors);
    values.resize(weights.kinds[place.kind].elements());
    store.read_tensor(decoder, place, values);
    for (CodecSize& size : sizes) {
      const TensorChunks chunks =
          make_tensor_chunks(*find_codec(size.codec), values, store.description().shards);
      for (const Chunk& chunk : chunks.exponents) add(size, chunk.record);
      size.sign_mantissa_bytes += chunks.sign_mantissas.record.stored_bytes;
    }
  }
  return sizes;
}

}  // namespace moelab
