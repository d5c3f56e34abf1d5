// A timeline of a run, which https://ui.perfetto.dev opens.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/labelled_graph.hpp"
#include "sim/results/event_writer.hpp"
#include "sim/serving/graph_observer.hpp"

namespace moelab {

struct RunResult;

/// What of a run a timeline keeps. A pass is kept where it is one of these passes of its server and makes, or
/// goes on towards, one of these tokens of the run, which count from 1.
struct TimelineWindow {
  std::uint64_t first_pass = 0, last_pass = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t first_token = 1, last_token = std::numeric_limits<std::uint64_t>::max();
};

/// That a run of so many tokens comes to the first of a window. Throws InputError about `asked`, the option:
/// the timeline would be empty.
void check_reaches(const TimelineWindow& window, std::uint64_t tokens, const std::string& asked);

/// Collects what a run shows: one process a system, a legend, passes with their layers, one track a slot of a
/// resource (decompression threads have a track each), a slice an operation, with the bytes that it moves and
/// what it waited for, and arrows along dependencies to other tracks; beside them
/// requests (waiting, prompt, decode), and counters of ready operations that wait for each resource, of bytes
/// of experts and KV cache, and of kept experts by state. What is outside the window is not kept, so that
/// long runs take no more memory and stay openable. Times are of the engine, exact to the nanosecond.
class Timeline final : public GraphObserver {
 public:
  explicit Timeline(const TimelineWindow& window) : window_(window), all_(*this, "") {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Seconds; with its end before its begin: nothing is shown.
  struct Window {
    double begin, end;
  };

  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override;
  bool wants_memory() const override { return all_.wants_memory(); }
  void holds(double now, const MemoryContents& memory) override { all_.holds(now, memory); }
  void answered(const ServedSpan& span) override { all_.answered(span); }
  void pass_ended(double now, std::uint64_t pass, std::uint64_t tokens) override {
    all_.pass_ended(now, pass, tokens);
  }
  GraphObserver* of_server(const std::string& prefix) override;

  /// The events of the run that `result` is of, as timeline_file() wants them.
  std::string events(TimelineForm form, const RunResult& result, const TimelineTitle& title) const;
  /// When the first pass ended that made a token; 0: none has.
  double first_token_s() const { return first_token_s_; }

 private:
  struct Slice {
    double ready, start, end;
    OpLabel label;
    engine::ResourceId resource;
    std::uint64_t pass;
    std::int32_t layer;
    double bytes;         // that it moves; 0: not said
    std::uint32_t after;  // number of what made it ready: of its dependencies the last to end; kNoSlice
  };
  static constexpr std::uint32_t kNoSlice = std::numeric_limits<std::uint32_t>::max();
  /// Slices by number, and which of them wait for which.
  struct Slices {
    std::vector<Slice> all;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> arrows;  // from, to

    void add(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer);
    void append(const Slices& more);
  };
  using MemorySample = std::pair<double, MemoryContents>;

  /// What one server shows. The passes that are kept are consecutive ones.
  class Server final : public GraphObserver {
   public:
    Server(Timeline& timeline, std::string prefix) : timeline_(timeline), prefix_(std::move(prefix)) {}
    void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override;
    /// Whatever the window says.
    void keep(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
      kept_.add(graph, pass, layer);
    }
    bool wants_memory() const override;
    void holds(double now, const MemoryContents& memory) override { new_memory_.emplace_back(now, memory); }
    void answered(const ServedSpan& span) override { new_spans_.push_back(span); }
    void pass_ended(double now, std::uint64_t pass, std::uint64_t tokens) override;

    const std::string& prefix() const { return prefix_; }
    const Slices& slices() const { return kept_; }
    const std::vector<MemorySample>& memory() const { return memory_; }
    const std::vector<ServedSpan>& spans() const { return spans_; }

   private:
    Timeline& timeline_;
    std::string prefix_;
    std::uint64_t decided_ = 0;  // passes before this one have ended
    std::uint64_t first_kept_ = 0, end_kept_ = 0;
    double window_end_s_ = 0;        // of the last pass that was kept
    std::uint64_t tokens_ = 0;       // of this server
    std::uint64_t tokens_then_ = 0;  // of the run, when the pass that runs began
    // Of the pass that runs.
    Slices new_;
    std::vector<MemorySample> new_memory_;
    std::vector<ServedSpan> new_spans_;

    Slices kept_;
    std::vector<MemorySample> memory_;
    std::vector<ServedSpan> spans_;
  };

  class Operations;
  class Steps;

  static Window window_of(const Slices& slices);
  static void write_legend(const Slices& slices, const Window& window, EventWriter& out);

  void write(const RunResult& result, const TimelineTitle& title, EventWriter& out) const;
  bool keeps(std::uint64_t pass, std::uint64_t tokens_before, std::uint64_t tokens_after) const;

  TimelineWindow window_;
  Server all_;                  // of one server; with several, what is of none of them
  std::deque<Server> servers_;  // of several
  std::uint64_t tokens_ = 0;    // that all have generated so far
  double first_token_s_ = 0;
};

}  // namespace moelab
