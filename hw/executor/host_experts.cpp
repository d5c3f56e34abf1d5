#include "hw/executor/host_experts.hpp"

#include "hw/executor/whole_tensors.hpp"
#include "hw/io/system_memory.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {
namespace {

AlignedMemory memory_for(const ChunkStoreReader& store) {
  const std::uint64_t bytes = whole_tensors_bytes(store.weights()), available = system_memory().available;
  if (available > 0 && bytes > available)
    throw InputError(store.data_path().string(), "its experts take " +
                                                     to_string(Bytes(static_cast<double>(bytes))) +
                                                     " of memory when they lie there whole, there are " +
                                                     to_string(Bytes(static_cast<double>(available))));
  return AlignedMemory(bytes);
}

}  // namespace

HostExperts::HostExperts(const ChunkStoreReader& store, ComputeDevice* gpu)
    : weights_(store.weights()), memory_(memory_for(store)) {
  ChunkDecoder decoder;
  for (std::uint64_t ordinal = 0; ordinal < weights_.tensors(); ++ordinal) {
    const TensorPlace place = place_of(weights_, ordinal);
    store.read_tensor(decoder, place,
                      memory_.as<std::uint16_t>().subspan(whole_tensor_offset(weights_, place) / 2,
                                                          weights_.kinds[place.kind].elements()));
  }
  if (gpu != nullptr) pinned_ = PinnedRange(*gpu, memory_.bytes());
}

std::span<const std::uint16_t> HostExperts::tensor(TensorPlace place) const {
  return memory_.as<std::uint16_t>().subspan(whole_tensor_offset(weights_, place) / 2,
                                             weights_.kinds[place.kind].elements());
}

}  // namespace moelab
