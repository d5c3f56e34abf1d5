#include "hw/executor/expert_machine.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "hw/executor/whole_tensors.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

void require_shards(const ChunkStoreReader& store, std::uint32_t shards) {
  if (shards == 0 || shards == store.description().shards) return;
  throw InputError(store.data_path().string(), "has " + std::to_string(store.description().shards) +
                                                   " E-chunks a tensor, the system reads " +
                                                   std::to_string(shards) + ": pack it with so many shards");
}

void require_separate_tensors(const ChunkStoreReader& store, const Architecture& model) {
  const auto matrices = static_cast<std::size_t>(model.moe().matrices);
  if (store.weights().kinds.size() == matrices) return;
  throw InputError(store.data_path().string(), "keeps gate and up in one tensor; an expert of " + model.name +
                                                   " is simulated as " + std::to_string(matrices) +
                                                   " tensors");
}

std::uint64_t most_tensor_bytes(const ExpertWeights& weights) {
  std::uint64_t most = 0;
  for (const ExpertTensorKind& kind : weights.kinds) most = std::max(most, 2 * kind.elements());
  return most;
}

}  // namespace

ExpertMachine::ExpertMachine(const ChunkStoreReader& store, const Architecture& model, ComputeDevice& device,
                             ExpertMachineOptions options)
    : store_(store),
      weights_(store.weights()),
      device_(device),
      options_(std::move(options)),
      memory_(store, device, options_.memory_limit,
              options_.host_experts != nullptr ? ExpertMemory::From::host : ExpertMemory::From::storage),
      step_(device, options_.swaps, options_.dense),
      storage_(options_.storage),
      page_cache_(options_.page_cache),
      decoders_([verify = options_.verify] {
        return std::make_unique<ChunkDecoder>(verify ? ChunkDecoder::Checksums::verify
                                                     : ChunkDecoder::Checksums::skip);
      }),
      landings_([bytes = most_tensor_bytes(store.weights())] {
        return std::make_unique<AlignedMemory>(bytes + kReadAlignment);
      }) {
  require_model(weights_, model, store.data_path().string());
  require_separate_tensors(store, model);
  require_shards(store, options_.shards);
  for (std::uint64_t ordinal = 0; ordinal < weights_.tensors(); ++ordinal)
    checksums_.push_back(store.tensor_checksum(moelab::place_of(weights_, ordinal)));
  if (options_.host_experts != nullptr)
    linked_.emplace(*options_.host_experts, device, static_cast<std::size_t>(model.hidden));
  else
    open_readers();
}

void ExpertMachine::open_readers() {
  storage_.fill(options_.reading_threads);
  if (options_.page_cache) page_cache_.fill(options_.reading_threads);
}

TensorPlace ExpertMachine::place_of(const LabelledGraph& graph, const OpLabel& label) const {
  return {graph.layer, label.expert, label.tensor};
}

void ExpertMachine::fail(TensorPlace place, const std::string& what) const {
  throw InputError(store_.data_path().string(),
                   to_string(weights_, place) + what + " (damaged, or the data of another store)");
}

void ExpertMachine::begin(const engine::Graph& graph, engine::OpIndex op) {
  const LabelledGraph& labelled = labels_of(graph);
  if (step_.begin(labelled, op)) return;
  const OpLabel& label = labelled.labels[op];
  const TensorPlace place = place_of(labelled, label);
  switch (label.kind) {
    case OpKind::read_sm:
      return memory_.take_sign_mantissas(place);
    case OpKind::read_e:
      return take_exponent_chunk(place, label.chunk);
    case OpKind::read_tensor:
      return memory_.take_tensor(place);
    case OpKind::decompress:
      memory_.require(memory_.parts(place).exponent_chunks[label.chunk], place, "an E-chunk");
      return memory_.take_exponents(place);
    case OpKind::recover:
      memory_.require(memory_.parts(place).exponents, place, "the exponent plane");
      memory_.require(memory_.parts(place).sign_mantissas, place, "the SM-chunk");
      return memory_.take_tensor(place);
    case OpKind::execute:
      return begin_execution(labelled, label);
    case OpKind::send:
      return linked().make_room(label.tokens);
    case OpKind::cpu_execute:
    case OpKind::receive:
      return;
    default:
      throw std::logic_error("hardware: an operation that loads or computes no expert by itself");
  }
}

void ExpertMachine::take_exponent_chunk(TensorPlace place, std::uint32_t chunk) {
  memory_.take_exponent_chunk(place, chunk, store_.exponent_chunk(place, chunk).record.stored_bytes);
}

void ExpertMachine::begin_execution(const LabelledGraph& graph, const OpLabel& label) {
  for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind) {
    const TensorPlace place{graph.layer, label.expert, kind};
    memory_.require(memory_.parts(place).tensor, place, "the joined tensor");
  }
}

void ExpertMachine::end(const engine::Graph& graph, engine::OpIndex op) {
  const LabelledGraph& labelled = labels_of(graph);
  const OpLabel& label = labelled.labels[op];
  if (label.kind == OpKind::recover) memory_.give_exponents(place_of(labelled, label));
}

void ExpertMachine::run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) {
  const LabelledGraph& labelled = labels_of(graph);
  if (step_.run(labelled, op, stop)) return;
  const OpLabel& label = labelled.labels[op];
  switch (label.kind) {
    case OpKind::execute:
      return execute(labelled, label);
    case OpKind::cpu_execute:
      return compute_on_cpu({labelled.layer, label.expert}, label.tokens);
    case OpKind::send:
      return linked().send(label.tokens);
    case OpKind::receive:
      return linked().receive(label.tokens);
    default:
      return run_expert_part(labelled, label);
  }
}

void ExpertMachine::run_expert_part(const LabelledGraph& graph, const OpLabel& label) {
  const TensorPlace place = place_of(graph, label);
  std::atomic<std::uint64_t>& bytes_read = bytes_read_[static_cast<std::size_t>(label.tier)];
  switch (label.kind) {
    case OpKind::read_sm:
      bytes_read += read_sign_mantissas(label.tier, place);
      return;
    case OpKind::read_e:
      bytes_read += read_exponent_chunk(label.tier, place, label.chunk);
      return;
    case OpKind::read_tensor:
      bytes_read += read_tensor(label.tier, place);
      return;
    case OpKind::decompress:
      return decompress(place, label.chunk);
    case OpKind::recover:
      return recover(place);
    default:
      throw std::logic_error("hardware: an operation of no known kind");
  }
}

std::uint64_t ExpertMachine::read_sign_mantissas(Tier tier, TensorPlace place) {
  const StoredChunk stored = store_.sign_mantissa_chunk(place);
  return read(tier, stored.offset, stored.record.stored_bytes, memory_.parts(place).sign_mantissas);
}

std::uint64_t ExpertMachine::read_exponent_chunk(Tier tier, TensorPlace place, std::uint32_t chunk) {
  const StoredChunk stored = store_.exponent_chunk(place, chunk);
  return read(tier, stored.offset, stored.record.stored_bytes, memory_.parts(place).exponent_chunks[chunk]);
}

std::uint64_t ExpertMachine::read_tensor(Tier tier, TensorPlace place) {
  if (tier == Tier::host) return linked().load(place, memory_);
  const Buffer& tensor = memory_.parts(place).tensor;
  const std::uint64_t offset = whole_tensor_offset(weights_, place);
  if (device_.memory() == nullptr) return read(tier, offset, tensor.bytes, tensor);
  const auto landing = landings_.lease();
  const Buffer whole{landing->bytes().data(), tensor.bytes, landing->size()};
  read(tier, offset, tensor.bytes, whole);
  device_.load(whole.all(), tensor.as<std::uint16_t>());
  return tensor.bytes;
}

std::uint64_t ExpertMachine::read(Tier tier, std::uint64_t offset, std::uint64_t bytes, const Buffer& into) {
  if (bytes == 0) return 0;  // a shard may be empty
  const bool cached = tier == Tier::page_cache;
  if (cached && !options_.page_cache)
    throw InputError(store_.data_path().string(),
                     "the simulator expects a read to hit the page cache, which hardware cannot promise: use "
                     "page_cache: false, or give a reader for such reads");
  const auto reader = (cached ? page_cache_ : storage_).lease();
  const std::uint64_t mask = reader->alignment() - 1;
  reader->submit({offset, {into.data, (bytes + mask) & ~mask}});
  if (const ReadCompletion done = reader->wait(); done.bytes < bytes)
    throw InputError(reader->source(), "ends within the " + std::to_string(bytes) + " bytes from byte " +
                                           std::to_string(offset) + " on");
  return bytes;
}

void ExpertMachine::decompress(TensorPlace place, std::uint32_t chunk) {
  const StoredChunk stored = store_.exponent_chunk(place, chunk);
  const TensorParts& parts = memory_.parts(place);
  const ShardRange range = shard_range(parts.exponents.bytes, options_.shards, chunk);
  try {
    decoders_.lease()->decode(stored.record, parts.exponent_chunks[chunk].all(),
                              parts.exponents.all().subspan(range.first, range.size));
  } catch (const CodecError& error) {
    fail(place, ", E-chunk " + std::to_string(chunk) + " at byte " + std::to_string(stored.offset) + ": " +
                    error.what());
  }
}

void ExpertMachine::recover(TensorPlace place) {
  const TensorParts& parts = memory_.parts(place);
  if (options_.verify) {
    const StoredChunk stored = store_.sign_mantissa_chunk(place);
    if (checksum(parts.sign_mantissas.all()) != stored.record.checksum)
      fail(place, ", SM-chunk at byte " + std::to_string(stored.offset) +
                      ": its checksum is not the one it was packed with");
  }
  device_.recover(parts.exponents.all(), parts.sign_mantissas.all(), parts.tensor.as<std::uint16_t>());
}

void ExpertMachine::verify(TensorPlace place, std::span<const std::uint16_t> tensor,
                           ComputeDevice& device) const {
  if (!options_.verify || device.checksum_of(tensor) == checksums_[ordinal_of(weights_, place)]) return;
  fail(place, ": the tensor's checksum is not the one it was packed with");
}

void ExpertMachine::execute(const LabelledGraph& graph, const OpLabel& label) {
  const ExpertOperands operands = operands_of(weights_, [&](std::uint32_t kind) {
    const TensorPlace place{graph.layer, label.expert, kind};
    const auto tensor = memory_.parts(place).tensor.as<const std::uint16_t>();
    verify(place, tensor, device_);
    return tensor;
  });
  device_.execute(operands, label.tokens);
}

void ExpertMachine::compute_on_cpu(engine::ExpertPlace expert, std::uint32_t tokens) {
  const ExpertOperands operands = operands_of(weights_, [&](std::uint32_t kind) {
    const TensorPlace place{expert.layer, expert.expert, kind};
    const auto tensor = linked().tensor(place);
    verify(place, tensor, *options_.cpu);
    return tensor;
  });
  options_.cpu->execute(operands, tokens);
}

LinkedExperts& ExpertMachine::linked() {
  if (!linked_) throw std::logic_error("hardware: the experts that lie in host memory were not given");
  return *linked_;
}

}  // namespace moelab
