#include "hw/store/chunk_store_index.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "hw/store/index_columns.hpp"
#include "models/input_error.hpp"
#include "traces/portable_math.hpp"

namespace moelab {

namespace {

constexpr std::size_t kExponents = std::tuple_size_v<ByteCounts>;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace

double entropy_bits(const ByteCounts& counts) {
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  double bits = 0;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(all);
    bits -= share * portable_log(share) / 0.6931471805599453;
  }
  return bits;
}

ChunkStoreIndex::ChunkStoreIndex(ChunkStoreDescription description)
    : description_(std::move(description)),
      exponent_counts_(description_.weights.layers.size() * kExponents) {}

std::uint64_t ChunkStoreIndex::plane_bytes(std::uint64_t tensor, std::uint64_t number) const {
  const ExpertWeights& weights = description_.weights;
  const std::uint64_t elements = weights.kinds[tensor % weights.kinds.size()].elements();
  return number == description_.shards ? elements : shard_range(elements, description_.shards, number).size;
}

void ChunkStoreIndex::add(const std::vector<ChunkRecord>& chunks, std::uint64_t checksum,
                          const ByteCounts& exponents) {
  const std::uint64_t ordinal = tensors();
  require(!is_whole(), "a store that is whole takes no more tensors");
  require(chunks.size() == description_.chunks_per_tensor(), "a tensor has K + 1 chunks");
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const ChunkRecord& chunk = chunks[c];
    require(chunk.plane_bytes == plane_bytes(ordinal, c), "a chunk's plane is its shard of the tensor's");
    const bool coded = chunk.codec != "none";
    require(!coded || (chunk.codec == description_.codec && c < description_.shards),
            "E-chunks are by the store's codec, the SM-chunk is stored as it is");
    require(coded ? chunk.stored_bytes < chunk.plane_bytes : chunk.stored_bytes == chunk.plane_bytes,
            "a chunk is smaller than its plane, or as it is");
  }
  for (const ChunkRecord& chunk : chunks) {
    offsets_.push_back(data_bytes_);
    stored_bytes_.push_back(chunk.stored_bytes);
    checksums_.push_back(chunk.checksum);
    codecs_.push_back(chunk.codec != "none");
    data_bytes_ += aligned_chunk_bytes(chunk.stored_bytes);
  }
  tensor_checksums_.push_back(checksum);
  exponent_entropy_.push_back(entropy_bits(exponents));
  const std::size_t layer = place_of(description_.weights, ordinal).layer;
  for (std::size_t e = 0; e < kExponents; ++e) exponent_counts_[layer * kExponents + e] += exponents[e];
}

StoredChunk ChunkStoreIndex::chunk(std::uint64_t tensor, std::uint64_t number) const {
  const std::uint64_t at = tensor * description_.chunks_per_tensor() + number;
  return {{codecs_[at] != 0 ? description_.codec : "none", plane_bytes(tensor, number), stored_bytes_[at],
           checksums_[at]},
          offsets_[at]};
}

IndexedTensor ChunkStoreIndex::tensor(std::uint64_t ordinal) const {
  IndexedTensor tensor{{}, tensor_checksums_[ordinal], exponent_entropy_[ordinal]};
  for (std::uint64_t c = 0; c < description_.chunks_per_tensor(); ++c)
    tensor.chunks.push_back(chunk(ordinal, c));
  return tensor;
}

ByteCounts ChunkStoreIndex::exponent_counts(std::uint32_t layer) const {
  ByteCounts counts;
  std::memcpy(counts.data(), exponent_counts_.data() + layer * kExponents, sizeof counts);
  return counts;
}

void ChunkStoreIndex::write(const std::filesystem::path& path) const {
  require(is_whole(), "only an index that is whole is written");
  const ExpertWeights& weights = description_.weights;
  std::vector<std::uint64_t> shapes;
  for (const ExpertTensorKind& kind : weights.kinds) shapes.insert(shapes.end(), {kind.rows, kind.columns});
  const IndexShapes due(weights.layers.size(), weights.experts, weights.kinds.size(),
                        description_.chunks_per_tensor());
  write_index_columns(
      path, description_, data_bytes_,
      {index_column("layers", due.layers, weights.layers), index_column("shapes", due.kinds, shapes),
       index_column("offsets", due.chunks, offsets_), index_column("stored_bytes", due.chunks, stored_bytes_),
       index_column("checksums", due.chunks, checksums_), index_column("codecs", due.chunks, codecs_),
       index_column("tensor_checksums", due.tensors, tensor_checksums_),
       index_column("exponent_counts", due.counts, exponent_counts_),
       index_column("exponent_entropy", due.tensors, exponent_entropy_)});
}

ChunkStoreIndex ChunkStoreIndex::read(const std::filesystem::path& path) {
  const IndexColumns columns(path);
  const std::string& file = columns.file();
  const IndexShapes due = columns.shapes();
  ChunkStoreDescription description = columns.description();
  ExpertWeights& weights = description.weights;
  weights.layers = columns.take<std::uint32_t>("layers", due.layers);
  weights.experts = static_cast<std::uint32_t>(due.tensors[1]);
  description.shards = static_cast<std::uint32_t>(due.chunks[3] - 1);
  const auto shapes = columns.take<std::uint64_t>("shapes", due.kinds);
  for (std::size_t k = 0; k < weights.kinds.size(); ++k) {
    weights.kinds[k].rows = shapes[2 * k];
    weights.kinds[k].columns = shapes[2 * k + 1];
  }
  require_sound(description, file);
  ChunkStoreIndex index(std::move(description));
  index.data_bytes_ = columns.data_bytes();
  index.offsets_ = columns.take<std::uint64_t>("offsets", due.chunks);
  index.stored_bytes_ = columns.take<std::uint64_t>("stored_bytes", due.chunks);
  index.checksums_ = columns.take<std::uint64_t>("checksums", due.chunks);
  index.codecs_ = columns.take<std::uint8_t>("codecs", due.chunks);
  index.tensor_checksums_ = columns.take<std::uint64_t>("tensor_checksums", due.tensors);
  index.exponent_counts_ = columns.take<std::uint64_t>("exponent_counts", due.counts);
  index.exponent_entropy_ = columns.take<double>("exponent_entropy", due.tensors);
  index.check_layout(file);
  index.check_statistics(file);
  return index;
}

/// Sizes and offsets leave no choice: each chunk starts where the one before it ends, up to the alignment.
void ChunkStoreIndex::check_layout(const std::string& file) const {
  std::uint64_t end = 0;
  for (std::size_t at = 0; at < offsets_.size(); ++at) {
    const std::uint64_t tensor = at / description_.chunks_per_tensor();
    const std::uint64_t number = at % description_.chunks_per_tensor();
    const std::uint64_t plane = plane_bytes(tensor, number), stored = stored_bytes_[at];
    const auto fail = [&](const std::string& what) {
      throw InputError(file, to_string(description_.weights, place_of(description_.weights, tensor)) +
                                 ", chunk " + std::to_string(number) + ": " + what);
    };
    if (codecs_[at] > (number < description_.shards ? 1 : 0))
      fail("codec " + std::to_string(codecs_[at]) + ", which this chunk cannot have");
    if (codecs_[at] != 0 ? stored >= plane : stored != plane)
      fail(std::to_string(stored) + " stored bytes, for a plane of " + std::to_string(plane));
    if (offsets_[at] != end)
      fail("offset " + std::to_string(offsets_[at]) + ", expected " + std::to_string(end));
    end += aligned_chunk_bytes(stored);
  }
  if (data_bytes_ != end)
    throw InputError(file,
                     "data_bytes is " + std::to_string(data_bytes_) + ", expected " + std::to_string(end));
}

void ChunkStoreIndex::check_statistics(const std::string& file) const {
  const std::uint64_t due = description_.weights.weights() / description_.weights.layers.size();
  for (std::size_t layer = 0; layer < description_.weights.layers.size(); ++layer) {
    std::uint64_t left = due;
    for (std::size_t e = 0; e < kExponents; ++e) {
      const std::uint64_t count = exponent_counts_[layer * kExponents + e];
      if (count > left) throw InputError(file, "exponent_counts has more exponents than there are weights");
      left -= count;
    }
    if (left != 0) throw InputError(file, "exponent_counts has fewer exponents than there are weights");
  }
  for (const double bits : exponent_entropy_)
    if (!(bits >= 0 && bits <= 8.000001))
      throw InputError(file, "exponent_entropy holds " + std::to_string(bits) + ", expected 0 to 8 bits");
}

}  // namespace moelab
