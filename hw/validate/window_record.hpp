// What a windowed stage told of its window in a run, so that runs can be laid side by side, and what of the
// layers' experts that makes bytes of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw/executor/windowed_machine.hpp"
#include "hw/validate/run_record.hpp"
#include "sim/engine/window_mirror.hpp"

namespace moelab {

struct WindowEvent {
  enum class What : std::uint8_t { load, compute, release };
  What what;
  std::uint32_t layer;                     // counted among the MoE layers
  std::uint32_t half = 0;                  // of a load
  std::vector<std::uint32_t> tokens = {};  // of computing, by expert
  bool operator==(const WindowEvent&) const = default;
};

class WindowRecord final : public engine::WindowMirror {
 public:
  /// Tells `next` the same; nullptr: there is none.
  explicit WindowRecord(engine::WindowMirror* next = nullptr) : next_(next) {}
  void tell(engine::WindowMirror* next) { next_ = next; }

  void store(const engine::StoredExperts& experts) override;
  void load(std::uint32_t layer, std::uint32_t half) override;
  void compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) override;
  void release(std::uint32_t layer) override;

  const engine::StoredExperts& stored() const { return stored_; }
  const std::vector<WindowEvent>& events() const { return events_; }
  /// Layers that were loaded and never released: what is on its way when a run ends.
  std::vector<std::uint32_t> unused() const;

 private:
  engine::WindowMirror* next_;
  engine::StoredExperts stored_;
  std::vector<WindowEvent> events_;
};

/// Where the runs stop doing the same with their windows: a sentence; none where they do not.
std::optional<std::string> first_difference(const WindowRecord& predicted, const WindowRecord& measured);

/// Bytes of the experts that the run's loads and decodes name, which lie where `window` was told.
StreamedBytes streamed_bytes_named(const RunRecord& run, const WindowRecord& window,
                                   const ExpertWeights& weights);
/// Of a whole layer.
StreamedBytes streamed_bytes_of(std::uint32_t layer, const WindowRecord& window,
                                const ExpertWeights& weights);

}  // namespace moelab
