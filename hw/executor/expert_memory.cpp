#include "hw/executor/expert_memory.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace moelab {

using engine::ExpertPlace;
using engine::Kept;

namespace {

bool keeps_sign_mantissas(Kept kept) {
  return kept == Kept::both_planes || kept == Kept::sign_mantissas;
}
bool keeps_exponents(Kept kept) {
  return kept == Kept::both_planes || kept == Kept::exponents;
}

/// Of all experts at once, in all their forms: a tensor of n weights, n bytes of SM-chunk, n of plain
/// exponents, and E-chunks that are hardly more.
std::uint64_t most_bytes(const ExpertWeights& weights) {
  std::uint64_t of_expert = 0;
  for (const ExpertTensorKind& kind : weights.kinds) of_expert += 5 * kind.elements();
  return of_expert * weights.experts * weights.layers.size();
}

}  // namespace

ExpertMemory::ExpertMemory(const ChunkStoreReader& store, ComputeDevice& device, std::uint64_t limit,
                           From from)
    : weights_(store.weights()),
      device_(device),
      ledger_(limit),
      planes_(host_, ledger_),
      tensors_(device.memory() != nullptr ? device_tensors_.emplace(*device.memory(), ledger_) : planes_),
      experts_(weights_.layers.size() * weights_.experts),
      parts_(weights_.tensors()) {
  for (TensorParts& parts : parts_) parts.exponent_chunks.resize(store.description().shards);
  if (from == From::host)
    tensors_.reserve(std::min(limit, 2 * weights_.weights()));
  else if (!device_tensors_)
    planes_.reserve(std::min(limit, most_bytes(weights_)));
}

ExpertMemory::Expert& ExpertMemory::expert(ExpertPlace place) {
  if (place.layer >= weights_.layers.size() || place.expert >= weights_.experts)
    throw std::logic_error("hardware: the store has no expert " + std::to_string(place.expert) +
                           " of MoE layer " + std::to_string(place.layer));
  return experts_[std::size_t{place.layer} * weights_.experts + place.expert];
}

void ExpertMemory::use(ExpertPlace place) {
  ++expert(place).uses;
}

void ExpertMemory::keep(ExpertPlace place, Kept from, Kept to) {
  Expert& e = expert(place);
  if (e.kept != from) throw std::logic_error("hardware: an expert is kept otherwise than the cache says");
  require_kept_parts(place, to);
  e.kept = to;
  if (e.uses == 0) trim(place, to);
}

void ExpertMemory::release(ExpertPlace place) {
  Expert& e = expert(place);
  if (e.uses == 0) throw std::logic_error("hardware: an expert that is not in use is released");
  if (--e.uses == 0) trim(place, e.kept);
}

// Whether the state can be reached from what is in memory.
void ExpertMemory::require_kept_parts(ExpertPlace place, Kept kept) const {
  for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind) {
    const TensorPlace tensor{place.layer, place.expert, kind};
    const TensorParts& parts = parts_[ordinal_of(weights_, tensor)];
    if (kept == Kept::full) require(parts.tensor, tensor, "the joined tensor");
    if (keeps_sign_mantissas(kept) && !(kept == Kept::sign_mantissas && parts.tensor))
      require(parts.sign_mantissas, tensor, "the SM-chunk");
    if (keeps_exponents(kept))
      for (const Buffer& chunk : parts.exponent_chunks) require(chunk, tensor, "an E-chunk");
  }
}

void ExpertMemory::trim(ExpertPlace place, Kept kept) {
  for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind)
    trim(TensorPlace{place.layer, place.expert, kind}, kept);
}

void ExpertMemory::trim(TensorPlace place, Kept kept) {
  TensorParts& p = parts(place);
  planes_.give(p.exponents);
  if (!keeps_exponents(kept))
    for (Buffer& chunk : p.exponent_chunks) planes_.give(chunk);
  if (!keeps_sign_mantissas(kept)) {
    planes_.give(p.sign_mantissas);
  } else if (!p.sign_mantissas) {
    const auto begin = std::chrono::steady_clock::now();
    p.sign_mantissas = planes_.take(weights_.kinds[place.kind].elements());
    device_.extract(p.tensor.as<const std::uint16_t>(), p.sign_mantissas.all());
    conversion_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (kept != Kept::full) tensors_.give(p.tensor);
}

void ExpertMemory::take(Buffer& part, BufferPool& from, std::size_t bytes, TensorPlace place) {
  if (part) throw std::logic_error("hardware: " + to_string(weights_, place) + " is loaded a second time");
  part = from.take(bytes);
}

void ExpertMemory::take_sign_mantissas(TensorPlace place) {
  take(parts(place).sign_mantissas, planes_, weights_.kinds[place.kind].elements(), place);
}

void ExpertMemory::take_exponent_chunk(TensorPlace place, std::uint32_t chunk, std::uint64_t stored_bytes) {
  take(parts(place).exponent_chunks[chunk], planes_, stored_bytes, place);
}

void ExpertMemory::take_exponents(TensorPlace place) {
  Buffer& exponents = parts(place).exponents;
  if (!exponents) exponents = planes_.take(weights_.kinds[place.kind].elements());
}

void ExpertMemory::take_tensor(TensorPlace place) {
  take(parts(place).tensor, tensors_, 2 * weights_.kinds[place.kind].elements(), place);
}

void ExpertMemory::give_exponents(TensorPlace place) {
  planes_.give(parts(place).exponents);
}

void ExpertMemory::require(const Buffer& part, TensorPlace place, const char* what) const {
  if (!part)
    throw std::logic_error("hardware: " + to_string(weights_, place) + ": " + what +
                           " should be in memory and is not");
}

}  // namespace moelab
