#include "policies/residency/residency_step.hpp"

#include <algorithm>

namespace moelab {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

/// The backend of one side that is best by `better(k, best)`, of those for which `fits(k)`.
template <class Fits, class Better>
std::size_t best_backend(const StorageShape& shape, bool on_gpu, Fits fits, Better better) {
  std::size_t best = kNone;
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if ((shape.backends[k].gpu_bytes_per_byte > 0) == on_gpu && fits(k) && (best == kNone || better(k, best)))
      best = k;
  return best;
}

bool move_one(StorageSplit& split, std::uint32_t layer, ResidencyDirection direction) {
  const StorageShape& shape = split.shape();
  const auto leaner = [&shape](std::size_t a, std::size_t b) {
    return shape.backends[a].gpu_bytes_per_byte < shape.backends[b].gpu_bytes_per_byte;
  };
  const bool from_gpu = direction == ResidencyDirection::off_gpu;
  const std::size_t from = best_backend(
      shape, from_gpu, [&](std::size_t k) { return split.experts(layer, k) > 0; },
      [&](std::size_t k, std::size_t best) {
        const double done = split.load_seconds(layer, k), last = split.load_seconds(layer, best);
        return done != last ? done > last : leaner(k, best);
      });
  const auto done_with_it = [&](std::size_t k) {
    return load_seconds(shape, k, split.experts(layer, k) + 1.0);
  };
  const std::size_t to = best_backend(
      shape, !from_gpu, [&](std::size_t k) { return split.room(k) > 0; },
      [&](std::size_t k, std::size_t best) {
        const double done = done_with_it(k), first = done_with_it(best);
        return done != first ? done < first : leaner(k, best);
      });
  if (from == kNone || to == kNone) return false;
  split.move(layer, from, to, 1);
  return true;
}

/// Moves up to `most` experts of a layer; how many moved.
std::uint64_t move_of_layer(StorageSplit& split, std::uint32_t layer, ResidencyDirection direction,
                            std::uint64_t most) {
  std::uint64_t moved = 0;
  while (moved < most && move_one(split, layer, direction)) ++moved;
  return moved;
}

}  // namespace

std::uint64_t ResidencyStep::take(StorageSplit& split, ResidencyDirection direction) {
  return staggered_ ? take_staggered(split, direction) : take_single(split, direction);
}

std::uint64_t ResidencyStep::take_staggered(StorageSplit& split, ResidencyDirection direction) const {
  const std::uint32_t layers = split.shape().layers;
  const std::uint64_t wanted = std::uint64_t{layers} * experts_;
  std::uint64_t moved = 0, before_round = 0;
  do {
    before_round = moved;
    for (std::uint32_t layer = 0; layer < layers && moved < wanted; ++layer)
      moved += move_of_layer(split, layer, direction, std::min<std::uint64_t>(experts_, wanted - moved));
  } while (moved < wanted && moved > before_round);
  return moved;
}

std::uint64_t ResidencyStep::take_single(StorageSplit& split, ResidencyDirection direction) {
  const std::uint32_t layers = split.shape().layers;
  const std::uint64_t wanted = std::uint64_t{layers} * experts_;
  const bool off = direction == ResidencyDirection::off_gpu;
  std::uint64_t moved = 0;
  std::uint32_t turn = turn_;
  for (std::uint32_t tried = 0; tried < layers && moved < wanted; ++tried) {
    const std::uint32_t layer = off ? turn : (turn + layers - 1) % layers;
    turn = off ? (turn + 1) % layers : layer;
    const std::uint64_t of_layer = move_of_layer(split, layer, direction, wanted - moved);
    moved += of_layer;
    if (of_layer > 0) turn_ = turn;
  }
  return moved;
}

}  // namespace moelab
