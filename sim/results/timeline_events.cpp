// What a timeline has kept, as trace events.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "models/json.hpp"
#include "sim/results/timeline.hpp"
#include "sim/run_result.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kSlotsATrack = 10'000;                // thread number = resource * this + slot
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

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump();
}

/// Viewers count in nanoseconds: start and end are rounded to those, so that slices that follow each other do
/// not overlap.
std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

std::string microseconds(std::int64_t nanoseconds) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  return buffer.data();
}

/// Writes the events of one process. Names of operations and categories need no escapes.
class EventWriter {
 public:
  explicit EventWriter(const TimelineTitle& title)
      : process_(",\"pid\":" + std::to_string(title.process) + ",\"tid\":"),
        shift_(nanoseconds(title.shift_s)) {}

  void metadata(std::string_view kind, std::int64_t thread, std::string_view argument,
                const std::string& value) {
    begin(kind, "M", thread);
    add({",\"args\":{\"", argument, "\":", value, "}}"});
  }
  void track(std::int64_t thread, const std::string& name) {
    metadata("thread_name", thread, "name", json_text(name));
    metadata("thread_sort_index", thread, "sort_index", std::to_string(thread));
  }
  void slice(const std::string& name, std::string_view category, std::int64_t thread, std::int64_t start,
             std::int64_t end, const std::string& arguments) {
    begin(name, "X", thread);
    add({",\"cat\":\"", category, "\",\"ts\":", time(start), ",\"dur\":", microseconds(end - start),
         ",\"args\":{", arguments, "}}"});
  }
  /// A line through all tracks.
  void mark(const std::string& name, std::string_view category, std::int64_t thread, std::int64_t at,
            const std::string& arguments) {
    begin(name, "i", thread);
    add({",\"cat\":\"", category, "\",\"s\":\"p\",\"ts\":", time(at), ",\"args\":{", arguments, "}}"});
  }
  void arrow(std::int64_t id, std::int64_t from, std::int64_t start, std::int64_t to, std::int64_t end) {
    const std::string number = std::to_string(id);
    begin("then", "s", from);
    add({",\"cat\":\"then\",\"id\":", number, ",\"ts\":", time(start), "}"});
    begin("then", "f", to);
    add({",\"cat\":\"then\",\"id\":", number, ",\"bp\":\"e\",\"ts\":", time(end), "}"});
  }
  void counter(std::string_view name, std::int64_t at, const std::string& values) {
    begin(name, "C", 0);
    add({",\"ts\":", time(at), ",\"args\":{", values, "}}"});
  }
  std::string time(std::int64_t at) const { return microseconds(at + shift_); }
  std::string take() { return std::move(out_); }

 private:
  void add(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) out_ += part;
  }
  void begin(std::string_view name, std::string_view phase, std::int64_t thread) {
    add({out_.empty() ? "{\"name\":\"" : ",\n{\"name\":\"", name, "\",\"ph\":\"", phase, "\"", process_,
         std::to_string(thread)});
  }
  std::string process_;
  std::int64_t shift_;
  std::string out_;
};

/// With escapes, for a text that this program did not choose.
std::string escaped(const std::string& text) {
  const std::string json = json_text(text);
  return json.substr(1, json.size() - 2);
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
void write_queue(const std::string& resource, const std::map<std::int64_t, int>& changes, EventWriter& out) {
  int waiting = 0;
  const std::string name = "ready: " + escaped(resource);
  for (const auto& [at, change] : changes) {
    if (change == 0) continue;
    waiting += change;
    out.counter(name, at, "\"operations\":" + std::to_string(waiting));
  }
}

void write_memory(const std::string& prefix, const std::vector<std::pair<double, MemoryContents>>& samples,
                  EventWriter& out) {
  std::map<std::string, std::string> last;
  const auto write = [&](const char* name, double at, const std::string& values) {
    if (std::exchange(last[name], values) != values)
      out.counter(escaped(prefix) + name, nanoseconds(at), values);
  };
  bool any_state = false;
  for (const auto& [at, memory] : samples)
    any_state |= std::any_of(memory.experts.begin(), memory.experts.end(), [](auto n) { return n > 0; });
  for (const auto& [at, memory] : samples) {
    write("expert bytes", at, "\"bytes\":" + std::to_string(std::llround(memory.expert_bytes)));
    write("KV cache bytes", at, "\"bytes\":" + std::to_string(std::llround(memory.kv_bytes)));
    if (!any_state) continue;
    std::string states;
    for (const State s : {State::F, State::C, State::S, State::E})
      states += (states.empty() ? "\"" : ",\"") + std::string(kStateNames[index(s)]) +
                "\":" + std::to_string(memory.experts[index(s)]);
    write("experts kept", at, states);
  }
}

struct Window {
  double begin, end;
};

/// The parts of a request's time, as far as they are in the window.
void write_request(const ServedSpan& span, const Window& window, std::int64_t thread, EventWriter& out) {
  const std::array<std::tuple<const char*, double, double>, 3> parts = {
      {{"waiting", span.arrival_s, span.begin_s},
       {"prompt", span.begin_s, span.first_token_s},
       {"decode", span.first_token_s, span.end_s}}};
  for (const auto& [what, from, to] : parts) {
    const std::int64_t start = nanoseconds(std::max(from, window.begin));
    const std::int64_t end = nanoseconds(std::min(to, window.end));
    if (start < end)
      out.slice("request " + std::to_string(span.request) + ": " + what, "request", thread, start, end,
                "\"request\":" + std::to_string(span.request));
  }
}

void write_requests(const std::string& prefix, std::vector<ServedSpan> spans, const Window& window,
                    std::int64_t first_thread, EventWriter& out) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const ServedSpan& a, const ServedSpan& b) { return a.arrival_s < b.arrival_s; });
  Tracks tracks;
  for (const ServedSpan& span : spans) {
    if (span.end_s <= window.begin || span.arrival_s >= window.end) continue;
    const auto track = static_cast<std::int64_t>(tracks.take(span.arrival_s, span.end_s));
    write_request(span, window, first_thread + track, out);
  }
  for (std::size_t i = 0; i < tracks.size(); ++i)
    out.track(first_thread + static_cast<std::int64_t>(i), prefix + "requests " + std::to_string(i));
}

/// What happened to a cluster: faults as marks, and as slices how long experts were nowhere and what the
/// scheduler had moved. As far as that is in the window; what has no end ends with it.
class ClusterEvents {
 public:
  ClusterEvents(const Window& window, std::int64_t first_thread, EventWriter& out)
      : window_(window), first_thread_(first_thread), out_(out) {}

  void write(const ClusterResult& cluster) {
    if (window_.begin > window_.end) return;  // nothing ran
    for (const FaultRecord& fault : cluster.faults) {
      const std::string uncovered = "\"uncovered_experts\":" + std::to_string(fault.uncovered);
      if (fault.at_s >= window_.begin && fault.at_s <= window_.end)
        out_.mark(escaped(fault.server) + " " + fault.event, "fault", first_thread_, nanoseconds(fault.at_s),
                  uncovered);
      if (fault.uncovered > 0) slice("experts nowhere", "fault", fault.at_s, fault.recovered_s, uncovered);
    }
    for (const MigrationRecord& m : cluster.migrations)
      if (m.adopted)
        slice(m.recovery ? "recovery" : "migration", "migration", m.at_s, m.done_s,
              "\"experts\":" + std::to_string(m.experts));
    for (std::size_t i = 0; i < tracks_.size(); ++i)
      out_.track(first_thread_ + static_cast<std::int64_t>(i), "cluster " + std::to_string(i));
  }

 private:
  void slice(const std::string& name, std::string_view category, double from, double to,
             const std::string& arguments) {
    const double begin = std::max(from, window_.begin);
    const double end = to < 0 ? window_.end : std::min(to, window_.end);
    if (nanoseconds(begin) >= nanoseconds(end)) return;
    const auto track = static_cast<std::int64_t>(tracks_.take(begin, end));
    out_.slice(name, category, first_thread_ + track, nanoseconds(begin), nanoseconds(end), arguments);
  }

  Window window_;
  std::int64_t first_thread_;
  EventWriter& out_;
  Tracks tracks_;
};

}  // namespace

std::string Timeline::events(const RunResult& result, const TimelineTitle& title) const {
  EventWriter out(title);
  out.metadata("process_name", 0, "name", json_text(title.name.empty() ? result.system : title.name));

  Slices slices = all_.slices();
  for (const Server& server : servers_) slices.append(server.slices());
  std::vector<std::uint32_t> order(slices.all.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
    const Slice &a = slices.all[x], &b = slices.all[y];
    return std::tie(a.start, a.end) < std::tie(b.start, b.end);
  });

  std::vector<Tracks> tracks(result.busy.size());
  std::vector<std::map<std::int64_t, int>> queues(result.busy.size());
  std::vector<std::int64_t> thread(slices.all.size());
  for (const std::uint32_t number : order) {
    const Slice& s = slices.all[number];
    thread[number] = static_cast<std::int64_t>(s.resource) * kSlotsATrack +
                     static_cast<std::int64_t>(tracks[s.resource].take(s.start, s.end));
    ++queues[s.resource][nanoseconds(s.ready)];
    --queues[s.resource][nanoseconds(s.start)];
    out.slice(
        slice_name(s.label, s.layer), to_string(s.label.kind), thread[number], nanoseconds(s.start),
        nanoseconds(s.end),
        "\"pass\":" + std::to_string(s.pass) + ",\"layer\":" + std::to_string(s.layer) +
            (s.label.tier == Tier::none ? "" : ",\"from\":\"" + std::string(to_string(s.label.tier)) + "\"") +
            ",\"ready\":" + out.time(nanoseconds(s.ready)));
  }
  std::int64_t arrows = title.process * kArrowsARun;
  for (const auto& [from, to] : slices.arrows) {
    if (thread[from] == thread[to]) continue;
    const Slice &a = slices.all[from], &b = slices.all[to];
    // Inside the slice that it leaves: at its end the next one begins.
    const std::int64_t leaves = std::max(nanoseconds(a.start), nanoseconds(a.end) - 1);
    out.arrow(++arrows, thread[from], leaves, thread[to], nanoseconds(b.start));
  }
  for (std::size_t r = 0; r < tracks.size(); ++r) {
    write_queue(result.busy[r].name, queues[r], out);
    for (std::size_t slot = 0; slot < tracks[r].size(); ++slot)
      out.track(static_cast<std::int64_t>(r) * kSlotsATrack + static_cast<std::int64_t>(slot),
                result.busy[r].name + (tracks[r].size() > 1 ? " " + std::to_string(slot) : ""));
  }

  Window shown{std::numeric_limits<double>::infinity(), 0};  // what all servers show
  auto requests = static_cast<std::int64_t>(result.busy.size()) * kSlotsATrack;
  const auto write_server = [&](const Server& server) {
    write_memory(server.prefix(), server.memory(), out);
    Window window{std::numeric_limits<double>::infinity(), 0};
    for (const Slice& s : server.slices().all)
      window = {std::min(window.begin, s.start), std::max(window.end, s.end)};
    shown = {std::min(shown.begin, window.begin), std::max(shown.end, window.end)};
    write_requests(server.prefix(), server.spans(), window, requests, out);
    requests += kSlotsATrack;
  };
  write_server(all_);
  for (const Server& server : servers_) write_server(server);
  ClusterEvents(shown, requests, out).write(result.cluster);
  return out.take();
}

}  // namespace moelab
