// What a timeline has kept, as trace events.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/results/event_legend.hpp"
#include "sim/results/timeline.hpp"
#include "sim/run_result.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kSlotsATrack = 10'000;                // track number = (1 + resource) * this + slot
constexpr std::int64_t kLegendTrack = 0;                     // behind it a track of steps a server
constexpr std::int64_t kArrowsARun = std::int64_t{1} << 32;  // arrows are told apart throughout the file

/// Whether an operation is a layer's and no expert's.
bool is_of_layer(OpKind kind) {
  switch (kind) {
    case OpKind::dense:
    case OpKind::shared_expert:
    case OpKind::host:
    case OpKind::send:
    case OpKind::receive:
    case OpKind::predict:
    case OpKind::grouped_experts:
    case OpKind::all_reduce:
    case OpKind::swap_in:
    case OpKind::swap_out:
    case OpKind::promote:
    case OpKind::message:
    case OpKind::remote_experts:
    case OpKind::dispatch:
    case OpKind::combine:
    case OpKind::draft:
      return true;
    default:
      return false;
  }
}

/// Whether an operation brings something instead of computing: it may be for a layer that is far ahead.
bool is_fetch(OpKind kind) {
  switch (kind) {
    case OpKind::read_sm:
    case OpKind::read_e:
    case OpKind::read_tensor:
    case OpKind::decompress:
    case OpKind::recover:
    case OpKind::remap:
    case OpKind::decode:
    case OpKind::load:
    case OpKind::swap_in:
    case OpKind::swap_out:
    case OpKind::promote:
    case OpKind::predict:
    case OpKind::migrate:
    case OpKind::wait:
      return true;
    default:
      return false;
  }
}

/// Whether an operation brings a layer's experts into the window, one tensor type of them.
bool is_of_window(OpKind kind) {
  return kind == OpKind::remap || kind == OpKind::decode || kind == OpKind::load;
}

std::string slice_name(const OpLabel& label, std::int32_t layer) {
  std::string name(to_string(label.kind));
  if (label.kind == OpKind::draft) return name;
  if (is_of_layer(label.kind)) return layer < 0 ? name + " head" : name + " L" + std::to_string(layer);
  if (is_of_window(label.kind))
    return name + " L" + std::to_string(layer) +
           (label.tensor == kWholeExpert ? " e" + std::to_string(label.expert)
                                         : " t" + std::to_string(label.tensor));
  name += " e" + std::to_string(label.expert);
  if (label.kind != OpKind::execute && label.kind != OpKind::cpu_execute)
    name += " t" + std::to_string(label.tensor);
  if (label.kind == OpKind::read_e || label.kind == OpKind::decompress)
    name += " c" + std::to_string(label.chunk);
  return name;
}

Nanoseconds nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

/// Puts intervals that overlap on tracks of their own: the first that is free.
class Tracks {
 public:
  std::size_t take(double start, double end) {
    auto track = std::find_if(free_at_.begin(), free_at_.end(), [&](double at) { return at <= start; });
    if (track == free_at_.end()) track = free_at_.insert(free_at_.end(), 0);
    *track = end;
    return static_cast<std::size_t>(track - free_at_.begin());
  }
  std::size_t size() const { return free_at_.size(); }

 private:
  std::vector<double> free_at_;
};

/// Operations that are ready and wait, over time: a counter a resource.
void write_queue(const std::string& resource, const std::map<Nanoseconds, int>& changes, EventWriter& out) {
  int waiting = 0;
  for (const auto& [at, change] : changes) {
    if (change == 0) continue;
    waiting += change;
    const std::array<EventDetail, 1> operations{{{"operations", std::int64_t{waiting}}}};
    out.counter("ready: " + resource, at, operations);
  }
}

void write_memory(const std::string& prefix, const std::vector<std::pair<double, MemoryContents>>& samples,
                  EventWriter& out) {
  std::map<std::string, std::vector<std::int64_t>> last;
  const auto write = [&](const char* name, double at, EventDetails values) {
    std::vector<std::int64_t> numbers;
    for (const EventDetail& value : values) numbers.push_back(std::get<std::int64_t>(value.value));
    if (std::exchange(last[name], numbers) != numbers) out.counter(prefix + name, nanoseconds(at), values);
  };
  const auto write_bytes = [&](const char* name, double at, double bytes) {
    write(name, at, std::array<EventDetail, 1>{{{"bytes", std::int64_t{std::llround(bytes)}}}});
  };
  bool any_state = false;
  for (const auto& [at, memory] : samples)
    any_state |= std::any_of(memory.experts.begin(), memory.experts.end(), [](auto n) { return n > 0; });
  for (const auto& [at, memory] : samples) {
    write_bytes("expert bytes", at, memory.expert_bytes);
    write_bytes("KV cache bytes", at, memory.kv_bytes);
    if (!any_state) continue;
    std::vector<EventDetail> states;
    for (const State s : {State::F, State::C, State::S, State::E})
      states.push_back({kStateNames[index(s)], std::int64_t{memory.experts[index(s)]}});
    write("experts kept", at, states);
  }
}

using Window = Timeline::Window;

/// The parts of a request's time, as far as they are in the window.
void write_request(const ServedSpan& span, const Window& window, std::int64_t track, EventWriter& out) {
  const std::array<std::tuple<const char*, double, double>, 3> parts = {
      {{"waiting", span.arrival_s, span.begin_s},
       {"prompt", span.begin_s, span.first_token_s},
       {"decode", span.first_token_s, span.end_s}}};
  const std::array<EventDetail, 1> details{{{"request", static_cast<std::int64_t>(span.request)}}};
  for (const auto& [what, from, to] : parts) {
    const Nanoseconds start = nanoseconds(std::max(from, window.begin));
    const Nanoseconds end = nanoseconds(std::min(to, window.end));
    const std::string name = "request " + std::to_string(span.request) + ": " + what;
    if (start < end) out.slice({name, "request", track, start, end, details, {}, {}});
  }
}

void write_requests(const std::string& prefix, std::vector<ServedSpan> spans, const Window& window,
                    std::int64_t first_track, EventWriter& out) {
  std::erase_if(spans, [&](const ServedSpan& span) {
    return span.end_s <= window.begin || span.arrival_s >= window.end;
  });
  std::stable_sort(spans.begin(), spans.end(),
                   [](const ServedSpan& a, const ServedSpan& b) { return a.arrival_s < b.arrival_s; });
  Tracks tracks;
  std::vector<std::int64_t> track;
  for (const ServedSpan& span : spans)
    track.push_back(first_track + static_cast<std::int64_t>(tracks.take(span.arrival_s, span.end_s)));
  for (std::size_t i = 0; i < tracks.size(); ++i)
    out.track(first_track + static_cast<std::int64_t>(i), prefix + "requests " + std::to_string(i));
  for (std::size_t i = 0; i < spans.size(); ++i) write_request(spans[i], window, track[i], out);
}

/// What happened to a cluster: faults as marks, and as slices how long experts were nowhere and what the
/// scheduler had moved. As far as that is in the window; what has no end ends with it.
class ClusterEvents {
 public:
  ClusterEvents(const Window& window, std::int64_t first_track, EventWriter& out)
      : window_(window), first_track_(first_track), out_(out) {}

  void write(const ClusterResult& cluster) {
    if (window_.begin > window_.end) return;  // nothing ran
    for (const FaultRecord& fault : cluster.faults) {
      const EventDetail uncovered{"uncovered_experts", static_cast<std::int64_t>(fault.uncovered)};
      if (fault.at_s >= window_.begin && fault.at_s <= window_.end)
        out_.mark(fault.server + " " + fault.event, "fault", first_track_, nanoseconds(fault.at_s),
                  {&uncovered, 1});
      if (fault.uncovered > 0) slice("experts nowhere", "fault", fault.at_s, fault.recovered_s, uncovered);
    }
    for (const MigrationRecord& m : cluster.migrations)
      if (m.adopted)
        slice(m.recovery ? "recovery" : "migration", "migration", m.at_s, m.done_s,
              {"experts", static_cast<std::int64_t>(m.experts)});
    for (std::size_t i = 0; i < tracks_.size(); ++i)
      out_.track(first_track_ + static_cast<std::int64_t>(i), "cluster " + std::to_string(i));
  }

 private:
  void slice(std::string_view name, std::string_view category, double from, double to,
             const EventDetail& detail) {
    const double begin = std::max(from, window_.begin);
    const double end = to < 0 ? window_.end : std::min(to, window_.end);
    if (nanoseconds(begin) >= nanoseconds(end)) return;
    const auto track = first_track_ + static_cast<std::int64_t>(tracks_.take(begin, end));
    out_.slice({name, category, track, nanoseconds(begin), nanoseconds(end), {&detail, 1}, {}, {}});
  }

  Window window_;
  std::int64_t first_track_;
  EventWriter& out_;
  Tracks tracks_;
};

/// Numbers of arrows, by the slice that they leave or arrive at.
class ArrowsBySlice {
 public:
  explicit ArrowsBySlice(std::size_t slices) : first_(slices + 1) {}
  void count(std::uint32_t slice) { ++first_[slice + 1]; }
  /// After all were counted.
  void make_room() {
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    arrows_.resize(first_.back());
    next_.assign(first_.begin(), first_.end() - 1);
  }
  void add(std::uint32_t slice, std::int64_t arrow) { arrows_[next_[slice]++] = arrow; }
  std::span<const std::int64_t> of(std::uint32_t slice) const {
    return {arrows_.data() + first_[slice], arrows_.data() + first_[slice + 1]};
  }

 private:
  std::vector<std::size_t> first_, next_;
  std::vector<std::int64_t> arrows_;
};

}  // namespace

/// The operations of a run on their resources' tracks, of those the first that is free.
class Timeline::Operations {
 public:
  Operations(const Slices& slices, const std::vector<ResourceUse>& resources)
      : slices_(slices),
        resources_(resources),
        tracks_(resources.size()),
        queues_(resources.size()),
        order_(slices.all.size()),
        track_(slices.all.size()),
        leaving_(slices.all.size()),
        arriving_(slices.all.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t x, std::uint32_t y) {
      const Slice &a = slices.all[x], &b = slices.all[y];
      return std::tie(a.start, a.end) < std::tie(b.start, b.end);
    });
    for (const std::uint32_t number : order_) place(number);
  }

  void write(std::int64_t first_arrow, EventWriter& out) {
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      const std::size_t slots = tracks_[r].size();
      for (std::size_t slot = 0; slot < slots; ++slot)
        out.track(number_of(r, slot), resources_[r].name + (slots > 1 ? " " + std::to_string(slot) : ""));
    }
    number_arrows(first_arrow);
    for (const std::uint32_t number : order_) write_slice(number, out);
    for (std::size_t r = 0; r < resources_.size(); ++r) write_queue(resources_[r].name, queues_[r], out);
  }

 private:
  static std::int64_t number_of(std::size_t resource, std::size_t slot) {
    return static_cast<std::int64_t>(1 + resource) * kSlotsATrack + static_cast<std::int64_t>(slot);
  }
  void place(std::uint32_t number) {
    const Slice& s = slices_.all[number];
    track_[number] = number_of(s.resource, tracks_[s.resource].take(s.start, s.end));
    ++queues_[s.resource][nanoseconds(s.ready)];
    --queues_[s.resource][nanoseconds(s.start)];
  }
  /// Those to other tracks.
  void number_arrows(std::int64_t before) {
    const auto each = [&](auto use) {
      for (const auto& [from, to] : slices_.arrows)
        if (track_[from] != track_[to]) use(from, to);
    };
    each([&](std::uint32_t from, std::uint32_t to) {
      leaving_.count(from);
      arriving_.count(to);
    });
    leaving_.make_room();
    arriving_.make_room();
    each([&](std::uint32_t from, std::uint32_t to) {
      leaving_.add(from, ++before);
      arriving_.add(to, before);
    });
  }
  std::string name_of(std::uint32_t number) const {
    return slice_name(slices_.all[number].label, slices_.all[number].layer);
  }
  void write_slice(std::uint32_t number, EventWriter& out) const {
    const Slice& s = slices_.all[number];
    std::vector<EventDetail> details{{"pass", static_cast<std::int64_t>(s.pass)},
                                     {"layer", std::int64_t{s.layer}}};
    if (s.label.tier != Tier::none) details.push_back({"from", to_string(s.label.tier)});
    if (s.bytes > 0) details.push_back({"bytes", std::int64_t{std::llround(s.bytes)}});
    details.push_back({"ready", EventTime{nanoseconds(s.ready)}});
    const std::string after = s.after == kNoSlice ? "" : name_of(s.after);
    if (!after.empty()) details.push_back({"after", after});
    const Nanoseconds waited = nanoseconds(s.start) - nanoseconds(s.ready);
    if (waited > 0) {
      details.push_back({"waited_us", EventSpan{waited}});
      details.push_back({"waited_for", resources_[s.resource].name});
    }
    out.slice({name_of(number), to_string(s.label.kind), track_[number], nanoseconds(s.start),
               nanoseconds(s.end), details, leaving_.of(number), arriving_.of(number)});
  }

  const Slices& slices_;
  const std::vector<ResourceUse>& resources_;
  std::vector<Tracks> tracks_;                      // by resource
  std::vector<std::map<Nanoseconds, int>> queues_;  // likewise: changes of how many wait
  std::vector<std::uint32_t> order_;                // of slices, by begin
  std::vector<std::int64_t> track_;                 // by slice
  ArrowsBySlice leaving_, arriving_;
};

/// Passes and, nested in each, its layers: from the first operation that computes to the last one.
class Timeline::Steps {
 public:
  explicit Steps(const Slices& slices) {
    for (const Slice& s : slices.all)
      if (!is_fetch(s.label.kind)) add(s);
  }
  void write(const std::string& prefix, std::int64_t track, EventWriter& out) const {
    if (layers_.empty()) return;
    out.track(track, prefix + "steps");
    Nanoseconds free_at = 0;
    for (const auto& [pass, layers] : layers_) {
      std::vector<Layer> all;
      for (const auto& [number, layer] : layers) all.push_back(layer);
      std::sort(all.begin(), all.end(), [](const Layer& a, const Layer& b) {
        return std::tie(a.start, a.end) < std::tie(b.start, b.end);
      });
      free_at = write_pass(pass, all, track, free_at, out);
    }
  }

 private:
  struct Layer {
    Nanoseconds start, end;
    std::int32_t number;
  };
  void add(const Slice& s) {
    const Nanoseconds start = nanoseconds(s.start), end = nanoseconds(s.end);
    const auto [at, is_new] = layers_[s.pass].try_emplace(s.layer, Layer{start, end, s.layer});
    if (!is_new) at->second = {std::min(at->second.start, start), std::max(at->second.end, end), s.layer};
  }
  /// What overlaps what was before begins behind it. Returns when the pass ends.
  static Nanoseconds write_pass(std::uint64_t pass, const std::vector<Layer>& layers, std::int64_t track,
                                Nanoseconds free_at, EventWriter& out) {
    const Nanoseconds start = std::max(layers.front().start, free_at);
    Nanoseconds end = start;
    for (const Layer& layer : layers) end = std::max(end, layer.end);
    const EventDetail number{"pass", static_cast<std::int64_t>(pass)};
    out.slice({"pass " + std::to_string(pass), "pass", track, start, end, {&number, 1}, {}, {}});
    free_at = start;
    for (const Layer& layer : layers) {
      const Nanoseconds from = std::max(layer.start, free_at);
      free_at = std::max(layer.end, from);
      const std::array<EventDetail, 2> details{{number, {"layer", std::int64_t{layer.number}}}};
      out.slice({layer.number < 0 ? "head" : "layer " + std::to_string(layer.number),
                 "layer",
                 track,
                 from,
                 free_at,
                 details,
                 {},
                 {}});
    }
    return end;
  }

  std::map<std::uint64_t, std::map<std::int32_t, Layer>> layers_;  // by pass and number
};

/// A slice for each kind of operation that is shown, one behind the other over the time that is shown.
void Timeline::write_legend(const Slices& slices, const Window& window, EventWriter& out) {
  std::set<OpKind> kinds;
  for (const Slice& s : slices.all) kinds.insert(s.label.kind);
  if (kinds.empty()) return;
  out.track(kLegendTrack, "legend");
  const Nanoseconds begin = nanoseconds(window.begin), all = nanoseconds(window.end) - begin;
  const auto count = static_cast<Nanoseconds>(kinds.size());
  Nanoseconds number = 0;
  for (const OpKind kind : kinds) {
    const EventDetail meaning{"meaning", meaning_of(kind)};
    const std::string name = std::string(to_string(kind)) + ": " + std::string(meaning_of(kind));
    const Nanoseconds start = begin + all / count * number;
    out.slice({name, "legend", kLegendTrack, start, start + all / count, {&meaning, 1}, {}, {}});
    ++number;
  }
}

Timeline::Window Timeline::window_of(const Slices& slices) {
  Window window{std::numeric_limits<double>::infinity(), 0};
  for (const Slice& s : slices.all) window = {std::min(window.begin, s.start), std::max(window.end, s.end)};
  return window;
}

void Timeline::write(const RunResult& result, const TimelineTitle& title, EventWriter& out) const {
  out.process(title.name.empty() ? result.system : title.name);
  Slices slices = all_.slices();
  for (const Server& server : servers_) slices.append(server.slices());
  std::vector<const Server*> servers{&all_};
  for (const Server& server : servers_) servers.push_back(&server);
  const Window shown = window_of(slices);

  write_legend(slices, shown, out);
  for (std::size_t i = 0; i < servers.size(); ++i)
    Steps(servers[i]->slices())
        .write(servers[i]->prefix(), kLegendTrack + 1 + static_cast<std::int64_t>(i), out);
  Operations(slices, result.busy).write(title.process * kArrowsARun, out);
  auto requests = static_cast<std::int64_t>(1 + result.busy.size()) * kSlotsATrack;
  for (const Server* const server : servers) {
    write_memory(server->prefix(), server->memory(), out);
    write_requests(server->prefix(), server->spans(), window_of(server->slices()), requests, out);
    requests += kSlotsATrack;
  }
  ClusterEvents(shown, requests, out).write(result.cluster);
}

std::string Timeline::events(TimelineForm form, const RunResult& result, const TimelineTitle& title) const {
  const std::unique_ptr<EventWriter> out = event_writer(form, title);
  write(result, title, *out);
  return out->take();
}

}  // namespace moelab
