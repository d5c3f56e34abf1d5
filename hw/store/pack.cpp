#include "hw/store/pack.hpp"

#include <vector>

#include "hw/store/chunk_store_writer.hpp"
#include "hw/store/ordered_work.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

/// What one thread works with and has made.
struct Worker {
  std::unique_ptr<Codec> codec;
  std::vector<std::uint16_t> weights;
  TensorChunks chunks;
  ByteCounts exponents{};
};

ByteCounts count_exponents(std::span<const std::uint16_t> weights) {
  ByteCounts counts{};
  for (const std::uint16_t weight : weights) ++counts[weight >> 7 & 0xff];
  return counts;
}

std::uint64_t elements_at(const ExpertWeights& weights, std::uint64_t ordinal) {
  return weights.kinds[place_of(weights, ordinal).kind].elements();
}

}  // namespace

std::uint64_t pack(const WeightSource& source, const std::filesystem::path& store,
                   const PackOptions& options) {
  const ExpertWeights& what = source.weights();
  ChunkStoreWriter writer(store, {what, find_codec(options.codec)->name(), options.shards},
                          source.identity());
  std::vector<Worker> workers(options.threads);
  for (Worker& worker : workers) worker.codec = find_codec(options.codec);
  const std::uint64_t done = writer.tensors_done();
  work_in_order(
      done, what.tensors(), options.threads,
      [&](unsigned thread, std::uint64_t item) {
        Worker& worker = workers[thread];
        worker.weights.resize(elements_at(what, item));
        source.read(place_of(what, item), worker.weights);
        worker.exponents = count_exponents(worker.weights);
        worker.chunks = make_tensor_chunks(*worker.codec, worker.weights, options.shards);
      },
      [&](unsigned thread, std::uint64_t item) {
        writer.add(workers[thread].chunks, workers[thread].exponents);
        if (options.progress) options.progress(item + 1, what.tensors());
      });
  writer.finish();
  return done;
}

void verify_store(const ChunkStoreReader& store, const WeightSource& source, unsigned threads,
                  const PackProgress& progress) {
  const ExpertWeights& what = source.weights();
  if (store.weights() != what)
    throw InputError(store.data_path().parent_path().string(),
                     "is not a store of " + what.model + " from " + what.source);
  struct Pair {
    ChunkDecoder decoder;
    std::vector<std::uint16_t> stored, due;
  };
  std::vector<Pair> pairs(threads);
  work_in_order(
      0, what.tensors(), threads,
      [&](unsigned thread, std::uint64_t item) {
        auto& [decoder, stored, due] = pairs[thread];
        const TensorPlace place = place_of(what, item);
        stored.resize(elements_at(what, item));
        due.resize(stored.size());
        store.read_tensor(decoder, place, stored);
        source.read(place, due);
        if (stored == due) return;
        throw InputError(store.data_path().string(),
                         to_string(what, place) + " is not, bit for bit, what the source holds");
      },
      [&](unsigned, std::uint64_t item) {
        if (progress) progress(item + 1, what.tensors());
      });
}

}  // namespace moelab
