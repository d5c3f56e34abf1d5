#include "sim/results/timeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>

namespace moelab {
namespace {

constexpr int kSlotsATrack = 10'000;  // thread number = resource * this + slot

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
    return name + " L" + std::to_string(layer) + " t" + std::to_string(label.tensor);
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

std::string metadata(std::string_view kind, int process, int thread, std::string_view argument,
                     const std::string& value) {
  return "{\"name\":" + json_text(kind) + ",\"ph\":\"M\",\"pid\":" + std::to_string(process) +
         ",\"tid\":" + std::to_string(thread) + ",\"args\":{" + json_text(argument) + ":" + value + "}}";
}

}  // namespace

void Timeline::finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
  if (pass < first_pass_ || pass > last_pass_) return;
  const engine::Graph& g = graph.graph;
  for (engine::OpIndex op = 0; op < g.size(); ++op)
    if (g.end(op) != engine::kNotYet)
      slices_.push_back({g.start(op), g.end(op), graph.labels[op], g.resource(op), pass, layer});
}

std::string Timeline::events(const RunResult& result, int process) const {
  std::vector<Slice> slices = slices_;
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return std::tie(a.start, a.end) < std::tie(b.start, b.end);
  });
  std::vector<std::vector<double>> free_at(result.busy.size());  // by resource and slot
  std::string out = metadata("process_name", process, 0, "name", json_text(result.system));
  for (const Slice& s : slices) {
    std::vector<double>& slots = free_at[s.resource];
    auto slot = std::find_if(slots.begin(), slots.end(), [&](double free) { return free <= s.start; });
    if (slot == slots.end()) slot = slots.insert(slots.end(), 0);
    *slot = s.end;
    const int thread = static_cast<int>(s.resource) * kSlotsATrack + static_cast<int>(slot - slots.begin());
    out += ",\n{\"name\":" + json_text(slice_name(s.label, s.layer)) +
           ",\"cat\":" + json_text(to_string(s.label.kind)) +
           ",\"ph\":\"X\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread) +
           ",\"ts\":" + microseconds(nanoseconds(s.start)) +
           ",\"dur\":" + microseconds(nanoseconds(s.end) - nanoseconds(s.start)) +
           ",\"args\":{\"pass\":" + std::to_string(s.pass) + ",\"layer\":" + std::to_string(s.layer) +
           ",\"from\":" + json_text(to_string(s.label.tier)) + "}}";
  }
  for (std::size_t r = 0; r < free_at.size(); ++r)
    for (std::size_t slot = 0; slot < free_at[r].size(); ++slot) {
      const int thread = static_cast<int>(r) * kSlotsATrack + static_cast<int>(slot);
      const std::string name =
          result.busy[r].name + (free_at[r].size() > 1 ? " " + std::to_string(slot) : "");
      out += ",\n" + metadata("thread_name", process, thread, "name", json_text(name));
      out += ",\n" + metadata("thread_sort_index", process, thread, "sort_index", std::to_string(thread));
    }
  return out;
}

std::string timeline_json(const std::vector<std::string>& events) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < events.size(); ++i) out += (i == 0 ? "" : ",\n") + events[i];
  return out + "\n]}\n";
}

}  // namespace moelab
