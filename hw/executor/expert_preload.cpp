// What a cache holds from the start, loaded before the run on the engine's thread: the ways are those that
// expert_machine.cpp goes in the run, and no other work is on them yet.
#include "hw/executor/expert_machine.hpp"

namespace moelab {

using engine::ExpertPlace;
using engine::Kept;

void ExpertMachine::preload(ExpertPlace expert, Kept as) {
  memory_.use(expert);  // so that all parts stay until they are what is kept
  for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind)
    preload_tensor({expert.layer, expert.expert, kind}, as);
  memory_.keep(expert, Kept::nothing, as);
  memory_.release(expert);
}

void ExpertMachine::preload_tensor(TensorPlace place, Kept as) {
  if (options_.shards == 0) {
    memory_.take_tensor(place);
    read_tensor(linked_ ? Tier::host : Tier::ssd, place);
    return;
  }
  if (as != Kept::exponents) {
    memory_.take_sign_mantissas(place);
    read_sign_mantissas(Tier::ssd, place);
  }
  if (as != Kept::sign_mantissas)
    for (std::uint32_t chunk = 0; chunk < options_.shards; ++chunk) {
      take_exponent_chunk(place, chunk);
      read_exponent_chunk(Tier::ssd, place, chunk);
    }
  if (as == Kept::full) preload_joined(place);
}

void ExpertMachine::preload_joined(TensorPlace place) {
  memory_.take_exponents(place);
  for (std::uint32_t chunk = 0; chunk < options_.shards; ++chunk) decompress(place, chunk);
  memory_.take_tensor(place);
  recover(place);
  memory_.give_exponents(place);
}

}  // namespace moelab
