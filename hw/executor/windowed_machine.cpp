#include "hw/executor/windowed_machine.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "hw/codec/chunk.hpp"
#include "hw/executor/linked_experts.hpp"
#include "hw/executor/paging_device.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

PagingDevice& paging_of(ComputeDevice& gpu) {
  if (gpu.paging() == nullptr)
    throw std::invalid_argument("hardware: a window on a device that does not page");
  return *gpu.paging();
}

}  // namespace

WindowedMachine::WindowedMachine(const ChunkStoreReader& store, const Architecture& model, ComputeDevice& gpu,
                                 const HostExperts& host, const WindowedMachineOptions& options)
    : store_(store),
      weights_(store.weights()),
      gpu_(gpu),
      paging_(paging_of(gpu)),
      host_(host),
      verify_(options.verify),
      ledger_(options.memory_limit),
      step_(gpu, options.swaps, options.dense),
      kept_(store, gpu, ledger_, options.verify),
      half_of_(weights_.layers.size(), ExpertPages::kHalves) {
  require_model(weights_, model, store.data_path().string());
}

WindowedMachine::From WindowedMachine::from_of(const std::string& backend) const {
  if (backend == "resident") return From::gpu;
  if (backend == "host") return From::host;
  if (backend == "ssd")
    throw InputError(
        "backend 'ssd'",
        "is read in pieces of a layer, not in experts; the executor's window is fed from the GPU's "
        "and the host's memory: expected 'resident', 'host' or the codec of the store");
  if (find_codec(backend)->name() != store_.description().codec)
    throw InputError("backend '" + backend + "'", "decodes experts by that codec; those of " +
                                                      store_.data_path().string() + " were packed by '" +
                                                      store_.description().codec + "'");
  return From::codec;
}

void WindowedMachine::store(const engine::StoredExperts& experts) {
  stored_ = experts;
  std::vector<bool> streamed;
  for (const std::string& backend : stored_.backends) {
    from_.push_back(from_of(backend));
    streamed.push_back(from_.back() != From::gpu);
  }
  pages_.emplace(paging_, weights_, stored_, streamed);
  ledger_.take(pages_->bytes());
  streaming_.resize(weights_.layers.size());
  for (std::uint32_t layer = 0; layer < streaming_.size(); ++layer)
    for (std::size_t k = 0; k < stored_.backends.size(); ++k)
      for (std::uint32_t expert = 0; streamed[k] && expert < stored_.experts; ++expert)
        if (stored_.backend_of(layer, expert) == k) {
          streaming_[layer].push_back(k);
          break;
        }
  keep_on_gpu();
}

void WindowedMachine::keep_on_gpu() {
  for (std::uint64_t ordinal = 0; ordinal < weights_.tensors(); ++ordinal) {
    const TensorPlace place = place_of(weights_, ordinal);
    const From from = from_[stored_.backend_of(place.layer, place.expert)];
    if (from == From::gpu) kept_.keep_whole(place, host_);
    if (from == From::codec) kept_.keep_chunks(place);
  }
}

std::uint32_t WindowedMachine::half_that_holds(std::uint32_t layer) const {
  if (has_half(layer)) return half_of_[layer];
  throw std::logic_error("hardware: MoE layer " + std::to_string(layer) + " has no half of the window");
}

void WindowedMachine::load(std::uint32_t layer, std::uint32_t half) {
  if (halves_.at(half).taken || has_half(layer))
    throw std::logic_error("hardware: MoE layer " + std::to_string(layer) +
                           " is loaded into a half of the window that is taken, or twice");
  halves_[half].taken = true;
  half_of_[layer] = half;
  halves_[half].loaded = halves_[half].decoded = 0;
}

void WindowedMachine::compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) {
  computes_ = layer;
  tokens_.assign(tokens.begin(), tokens.end());
}

void WindowedMachine::release(std::uint32_t layer) {
  halves_[half_that_holds(layer)].taken = false;
  half_of_[layer] = ExpertPages::kHalves;
}

void WindowedMachine::begin(const engine::Graph& graph, engine::OpIndex op) {
  const LabelledGraph& labelled = labels_of(graph);
  if (step_.begin(labelled, op)) return;
  switch (labelled.labels[op].kind) {
    case OpKind::remap:
    case OpKind::load:
    case OpKind::decode:
      half_that_holds(labelled.layer);
      return;
    case OpKind::grouped_experts:
      if (computes_ != labelled.layer)
        throw std::logic_error("hardware: it was not said for which tokens the experts compute");
      if (!streaming_[labelled.layer].empty()) half_that_holds(labelled.layer);
      return;
    default:
      throw std::logic_error("hardware: an operation that a window has not");
  }
}

void WindowedMachine::run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) {
  const LabelledGraph& labelled = labels_of(graph);
  if (step_.run(labelled, op, stop)) return;
  const OpLabel& label = labelled.labels[op];
  switch (label.kind) {
    case OpKind::remap:
      return pages_->remap(labelled.layer, label.tensor, half_that_holds(labelled.layer));
    case OpKind::load:
      return run_load(labelled.layer, label);
    case OpKind::decode:
      return run_decode(labelled.layer, label);
    default:
      return run_experts(labelled);
  }
}

void WindowedMachine::end(const engine::Graph& graph, engine::OpIndex op) {
  const LabelledGraph& labelled = labels_of(graph);
  if (labelled.labels[op].kind != OpKind::grouped_experts || streaming_[labelled.layer].empty()) return;
  const Half& half = halves_[half_that_holds(labelled.layer)];
  streamed_.loaded += half.loaded;
  streamed_.decoded += half.decoded;
}

/// What a backend brings of a layer's tensor type, and where to.
std::vector<WindowedMachine::Brought> WindowedMachine::brought(std::uint32_t layer, const OpLabel& label) {
  pages_->begin_write(layer, label.tensor, half_that_holds(layer), label.backend);
  std::vector<Brought> all;
  for (std::uint32_t expert = 0; expert < stored_.experts; ++expert) {
    if (stored_.backend_of(layer, expert) != label.backend) continue;
    for (std::uint32_t kind = 0; kind < weights_.kinds.size(); ++kind) {
      if (pages_->type_of(kind) != label.tensor) continue;
      const TensorPlace place{layer, expert, kind};
      all.push_back({place, pages_->tensor(place)});
    }
  }
  return all;
}

void WindowedMachine::run_load(std::uint32_t layer, const OpLabel& label) {
  std::vector<TensorCopy> copies;
  std::uint64_t bytes = 0;
  for (const Brought& tensor : brought(layer, label)) {
    copies.push_back({std::as_bytes(host_.tensor(tensor.place)), tensor.into});
    bytes += tensor.into.size_bytes();
  }
  gpu_.load_all(copies);
  halves_[half_that_holds(layer)].loaded += bytes;
}

void WindowedMachine::run_decode(std::uint32_t layer, const OpLabel& label) {
  const std::vector<Brought> tensors = brought(layer, label);
  kept_.decode_all(tensors);
  std::uint64_t bytes = 0;
  for (const Brought& tensor : tensors) bytes += tensor.into.size_bytes();
  halves_[half_that_holds(layer)].decoded += bytes;
}

void WindowedMachine::run_experts(const LabelledGraph& graph) {
  step_.compute(graph.shared);
  std::optional<ExpertPages::Reading> reading;
  const std::vector<std::size_t>& streaming = streaming_[graph.layer];
  if (!streaming.empty()) reading.emplace(*pages_, graph.layer, half_that_holds(graph.layer), streaming);
  std::vector<ExpertRun> runs;
  for (std::uint32_t expert = 0; expert < tokens_.size(); ++expert) {
    if (tokens_[expert] == 0) continue;
    const ExpertOperands operands = operands_for(graph.layer, expert);
    if (verify_)
      check_results(operands, graph.layer, expert, tokens_[expert]);
    else
      runs.push_back({operands, tokens_[expert]});
  }
  if (!runs.empty()) paging_.execute_all(runs);
}

ExpertOperands WindowedMachine::operands_for(std::uint32_t layer, std::uint32_t expert) {
  return operands_of(weights_, [&](std::uint32_t kind) {
    const TensorPlace place{layer, expert, kind};
    const std::span<const std::uint16_t> tensor =
        pages_->streams(layer, expert) ? pages_->tensor(place) : kept_.tensor(place);
    if (verify_ && gpu_.checksum_of(tensor) != store_.tensor_checksum(place))
      throw InputError(
          store_.data_path().string(),
          to_string(weights_, place) + ": the tensor's checksum is not the one it was packed with");
    return tensor;
  });
}

void WindowedMachine::check_results(const ExpertOperands& operands, std::uint32_t layer, std::uint32_t expert,
                                    std::uint32_t tokens) {
  const ExpertOperands resident = operands_of(weights_, [&](std::uint32_t kind) {
    return host_.tensor({layer, expert, kind});
  });
  const std::uint64_t found = paging_.outcome_of(operands, tokens),
                      wanted = paging_.outcome_of_host(resident, tokens);
  if (found != wanted)
    throw InputError(store_.data_path().string(),
                     to_string(weights_, {layer, expert, 0}) +
                         ": the expert computes from the window something else than from where it lies");
  const std::array<std::uint64_t, 5> step = {results_, layer, expert, tokens, found};
  results_ = checksum(std::as_bytes(std::span(step)));
}

}  // namespace moelab
