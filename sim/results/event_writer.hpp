// What a timeline is written with: the events of a run, in the form of a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moelab {

/// How a run appears among others in a file.
struct TimelineTitle {
  int process = 1;     // number, from 1 on
  std::string name;    // "": the system's
  double shift_s = 0;  // >= 0, added to all its times
};

/// Viewers count in nanoseconds: start and end are rounded to those, so that slices that follow each other do
/// not overlap.
using Nanoseconds = std::int64_t;

/// A moment of the run.
struct EventTime {
  Nanoseconds at;
};

/// How long something takes.
struct EventSpan {
  Nanoseconds length;
};

/// One of an event's details, or one of a counter's values. Names and texts live as long as the call.
struct EventDetail {
  std::string_view name;
  std::variant<std::int64_t, EventTime, EventSpan, std::string_view> value;  // times are in microseconds
};
using EventDetails = std::span<const EventDetail>;

/// Something that takes time, on a track.
struct SliceEvent {
  std::string_view name, category;
  std::int64_t track;
  Nanoseconds start, end;
  EventDetails details;
  std::span<const std::int64_t> leaving, arriving;  // arrows, by numbers that are theirs throughout the file
};

/// Writes the events of one process, which is a run. Of slices that begin at the same time on a track the
/// outer one comes first. Texts are UTF-8.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual void process(std::string_view name) = 0;
  /// Tracks are shown in the order of their numbers >= 0, which is that of these calls; before or after their
  /// events.
  virtual void track(std::int64_t number, std::string_view name) = 0;
  virtual void slice(const SliceEvent& slice) = 0;
  /// A line through all tracks.
  virtual void mark(std::string_view name, std::string_view category, std::int64_t track, Nanoseconds at,
                    EventDetails details) = 0;
  /// A counter has these values from now on.
  virtual void counter(std::string_view name, Nanoseconds at, EventDetails values) = 0;
  /// What was written; nothing more is, afterwards.
  virtual std::string take() = 0;
};

enum class TimelineForm {
  json,     // trace events, which Chrome and Perfetto open; times are microseconds
  perfetto  // Perfetto's own protobuf
};
/// By the file's name: Perfetto's own for .pftrace and .perfetto-trace, also before .gz.
TimelineForm timeline_form(const std::filesystem::path& file);

std::unique_ptr<EventWriter> json_event_writer(const TimelineTitle& title);
std::unique_ptr<EventWriter> perfetto_event_writer(const TimelineTitle& title);
std::unique_ptr<EventWriter> event_writer(TimelineForm form, const TimelineTitle& title);

/// The whole file, from what the writers of its processes took.
std::string timeline_file(TimelineForm form, const std::vector<std::string>& processes);

}  // namespace moelab
