// A timeline as trace events in JSON: one object a line.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "models/json.hpp"
#include "sim/results/event_writer.hpp"

namespace moelab {
namespace {

std::string microseconds(Nanoseconds time) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%lld.%03lld", static_cast<long long>(time / 1000),
                static_cast<long long>(time % 1000));
  return buffer.data();
}

/// With escapes, without quotation marks.
std::string escaped(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) return std::string(text);
  const std::string json = nlohmann::json(text).dump();
  return json.substr(1, json.size() - 2);
}

class JsonEventWriter final : public EventWriter {
 public:
  explicit JsonEventWriter(const TimelineTitle& title)
      : process_(",\"pid\":" + std::to_string(title.process) + ",\"tid\":"),
        shift_(std::llround(title.shift_s * 1e9)) {}

  void process(std::string_view name) override {
    metadata("process_name", 0, "name", "\"" + escaped(name) + "\"");
  }
  void track(std::int64_t number, std::string_view name) override {
    metadata("thread_name", number, "name", "\"" + escaped(name) + "\"");
    metadata("thread_sort_index", number, "sort_index", std::to_string(number));
  }
  void slice(const SliceEvent& slice) override {
    begin(slice.name, "X", slice.track);
    add({",\"cat\":\"", slice.category, "\",\"ts\":", time(slice.start),
         ",\"dur\":", microseconds(slice.end - slice.start)});
    finish(slice.details);
    // Leaves from inside of the slice: at its end the next one begins.
    for (const std::int64_t arrow : slice.leaving)
      add_arrow("s", arrow, slice.track, std::max(slice.start, slice.end - 1), "");
    for (const std::int64_t arrow : slice.arriving)
      add_arrow("f", arrow, slice.track, slice.start, ",\"bp\":\"e\"");
  }
  void mark(std::string_view name, std::string_view category, std::int64_t track, Nanoseconds at,
            EventDetails details) override {
    begin(name, "i", track);
    add({",\"cat\":\"", category, "\",\"s\":\"p\",\"ts\":", time(at)});
    finish(details);
  }
  void counter(std::string_view name, Nanoseconds at, EventDetails values) override {
    begin(name, "C", 0);
    add({",\"ts\":", time(at)});
    finish(values);
  }
  std::string take() override { return std::move(out_); }

 private:
  void add(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) out_ += part;
  }
  void begin(std::string_view name, std::string_view phase, std::int64_t track) {
    add({out_.empty() ? "{\"name\":\"" : ",\n{\"name\":\"", escaped(name), "\",\"ph\":\"", phase, "\"",
         process_, std::to_string(track)});
  }
  void finish(EventDetails details) {
    out_ += ",\"args\":{";
    for (const EventDetail& detail : details)
      add({&detail == details.data() ? "\"" : ",\"", detail.name, "\":", value(detail)});
    out_ += "}}";
  }
  void metadata(std::string_view kind, std::int64_t track, std::string_view name, const std::string& value) {
    begin(kind, "M", track);
    add({",\"args\":{\"", name, "\":", value, "}}"});
  }
  void add_arrow(std::string_view phase, std::int64_t number, std::int64_t track, Nanoseconds at,
                 std::string_view binding) {
    begin("then", phase, track);
    add({",\"cat\":\"then\",\"id\":", std::to_string(number), binding, ",\"ts\":", time(at), "}"});
  }
  std::string value(const EventDetail& detail) const {
    if (const auto* number = std::get_if<std::int64_t>(&detail.value)) return std::to_string(*number);
    if (const auto* moment = std::get_if<EventTime>(&detail.value)) return time(moment->at);
    if (const auto* span = std::get_if<EventSpan>(&detail.value)) return microseconds(span->length);
    return "\"" + escaped(std::get<std::string_view>(detail.value)) + "\"";
  }
  std::string time(Nanoseconds at) const { return microseconds(at + shift_); }

  std::string process_;
  Nanoseconds shift_;
  std::string out_;
};

}  // namespace

std::unique_ptr<EventWriter> json_event_writer(const TimelineTitle& title) {
  return std::make_unique<JsonEventWriter>(title);
}

}  // namespace moelab
