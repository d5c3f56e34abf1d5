// A timeline as Perfetto's own protobuf, https://perfetto.dev/docs/reference/trace-packet-proto: a `Trace` is
// a sequence of `TracePacket`, and traces one behind another are a trace. Names stand in the file once, and
// packets are packed by zlib.
#include <protozero/pbf_writer.hpp>

#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include "sim/results/event_writer.hpp"
#include "traces/gzip_text.hpp"

namespace moelab {
namespace {

// Field numbers of protos/perfetto/trace, by message.
namespace trace {
constexpr int kPacket = 1;
}
namespace packet {
constexpr int kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
              kCompressedPackets = 50, kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1, kNeedsState = 2;  // SequenceFlags: interned names begin, are used
}  // namespace packet
namespace interned {
constexpr int kCategories = 1, kNames = 2, kDetailNames = 3, kDetailTexts = 29;
constexpr int kNumber = 1, kText = 2;  // of each of them
}  // namespace interned
namespace event {
constexpr int kCategory = 3, kDetail = 4, kType = 9, kName = 10, kTrack = 11, kCounterValue = 30,
              kLeaving = 47, kArriving = 48;
enum Type : std::int32_t { begin = 1, end = 2, instant = 3, counter = 4 };
}  // namespace event
namespace detail {
constexpr int kName = 1, kInteger = 4, kDouble = 5, kText = 17;
}
namespace track {
constexpr int kId = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrdering = 11, kRank = 12;
constexpr int kPid = 1, kProcessName = 6;  // of kProcess
constexpr int kUnit = 3;                   // of kCounter
constexpr std::int32_t kByRank = 3;        // ChildTracksOrdering
constexpr std::int32_t kCount = 2, kBytes = 3;
}  // namespace track

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // that are packed together
constexpr int kTrackBits = 40;  // of a track's number in the file; above: the process
constexpr std::uint64_t kFirstCounter = std::uint64_t{1} << 39;

/// Numbers for texts that stand in the file once, from 1 on.
class InternedTexts {
 public:
  explicit InternedTexts(int field) : field_(field) {}
  /// What is new goes into `fresh`, an InternedData.
  std::uint64_t number(std::string_view text, std::string& fresh) {
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    const std::uint64_t number = numbers_.emplace(text, numbers_.size() + 1).first->second;
    protozero::pbf_writer data(fresh);
    protozero::pbf_writer entry(data, static_cast<protozero::pbf_tag_type>(field_));
    entry.add_uint64(interned::kNumber, number);
    entry.add_string(interned::kText, text.data(), text.size());
    return number;
  }

 private:
  int field_;
  std::map<std::string, std::uint64_t, std::less<>> numbers_;
};

class PerfettoEventWriter final : public EventWriter {
 public:
  explicit PerfettoEventWriter(const TimelineTitle& title)
      : process_(static_cast<std::uint32_t>(title.process)), shift_(std::llround(title.shift_s * 1e9)) {}

  void process(std::string_view name) override {
    describe([&](protozero::pbf_writer& out) {
      out.add_uint64(track::kId, id(0));
      {
        protozero::pbf_writer process(out, track::kProcess);
        process.add_int32(track::kPid, static_cast<std::int32_t>(process_));
        process.add_string(track::kProcessName, name.data(), name.size());
      }
      out.add_enum(track::kChildOrdering, track::kByRank);
    });
  }
  void track(std::int64_t number, std::string_view name) override {
    describe([&](protozero::pbf_writer& out) { describe_child(out, of_track(number), name); });
  }
  void slice(const SliceEvent& slice) override {
    add_event(event::begin, of_track(slice.track), slice.start, [&](protozero::pbf_writer& out) {
      add_name(out, slice.name, slice.category);
      add_details(out, slice.details);
      for (const std::int64_t arrow : slice.leaving)
        out.add_fixed64(event::kLeaving, static_cast<std::uint64_t>(arrow));
      for (const std::int64_t arrow : slice.arriving)
        out.add_fixed64(event::kArriving, static_cast<std::uint64_t>(arrow));
    });
    add_event(event::end, of_track(slice.track), slice.end, [](protozero::pbf_writer&) {});
  }
  void mark(std::string_view name, std::string_view category, std::int64_t /*track*/, Nanoseconds at,
            EventDetails details) override {
    add_event(event::instant, id(0), at, [&](protozero::pbf_writer& out) {
      add_name(out, name, category);
      add_details(out, details);
    });
  }
  void counter(std::string_view name, Nanoseconds at, EventDetails values) override {
    for (const EventDetail& value : values) {
      std::string track(name);
      if (values.size() > 1) track.append(" ").append(value.name);
      add_event(event::counter, of_counter(track, value.name == "bytes"), at,
                [&](protozero::pbf_writer& out) {
                  out.add_int64(event::kCounterValue, std::get<std::int64_t>(value.value));
                });
    }
  }
  std::string take() override {
    pack();
    return std::move(out_);
  }

 private:
  std::uint64_t id(std::uint64_t track) const {
    return (static_cast<std::uint64_t>(process_) << kTrackBits) + track;
  }
  std::uint64_t of_track(std::int64_t number) const { return id(static_cast<std::uint64_t>(number) + 1); }

  /// The track of a counter, which is described where it is first asked for.
  std::uint64_t of_counter(const std::string& name, bool bytes) {
    if (const auto known = counters_.find(name); known != counters_.end()) return known->second;
    const std::uint64_t number = id(kFirstCounter + counters_.size());
    counters_.emplace(name, number);
    describe([&](protozero::pbf_writer& out) {
      describe_child(out, number, name);
      protozero::pbf_writer counter(out, track::kCounter);
      counter.add_enum(track::kUnit, bytes ? track::kBytes : track::kCount);
    });
    return number;
  }
  void describe_child(protozero::pbf_writer& out, std::uint64_t number, std::string_view name) {
    out.add_uint64(track::kId, number);
    out.add_uint64(track::kParent, id(0));
    out.add_string(track::kName, name.data(), name.size());
    out.add_int32(track::kRank, ++children_);
  }

  template <class Fill>
  void describe(Fill fill) {
    message_.clear();
    protozero::pbf_writer out(message_);
    fill(out);
    add_packet(packet::kTrackDescriptor, nullptr);
  }
  template <class Fill>
  void add_event(event::Type type, std::uint64_t track, Nanoseconds at, Fill fill) {
    message_.clear();
    fresh_.clear();
    protozero::pbf_writer out(message_);
    out.add_enum(event::kType, type);
    out.add_uint64(event::kTrack, track);
    fill(out);
    const auto time = static_cast<std::uint64_t>(at + shift_);
    add_packet(packet::kTrackEvent, &time);
  }
  void add_name(protozero::pbf_writer& out, std::string_view name, std::string_view category) {
    out.add_uint64(event::kCategory, categories_.number(category, fresh_));
    out.add_uint64(event::kName, names_.number(name, fresh_));
  }
  void add_details(protozero::pbf_writer& out, EventDetails details) {
    for (const EventDetail& one : details) {
      protozero::pbf_writer entry(out, event::kDetail);
      entry.add_uint64(detail::kName, detail_names_.number(one.name, fresh_));
      if (const auto* number = std::get_if<std::int64_t>(&one.value))
        entry.add_int64(detail::kInteger, *number);
      else if (const auto* moment = std::get_if<EventTime>(&one.value))
        entry.add_double(detail::kDouble, static_cast<double>(moment->at + shift_) / 1e3);
      else if (const auto* span = std::get_if<EventSpan>(&one.value))
        entry.add_double(detail::kDouble, static_cast<double>(span->length) / 1e3);
      else
        entry.add_uint64(detail::kText, detail_texts_.number(std::get<std::string_view>(one.value), fresh_));
    }
  }

  /// A packet of `message_`, with the names that are `fresh_`.
  void add_packet(int field, const std::uint64_t* time) {
    {
      protozero::pbf_writer chunk(chunk_);
      protozero::pbf_writer out(chunk, trace::kPacket);
      if (time != nullptr) out.add_uint64(packet::kTimestamp, *time);
      out.add_uint32(packet::kSequenceId, process_);
      out.add_uint32(packet::kSequenceFlags, std::exchange(flags_, packet::kNeedsState));
      if (!fresh_.empty()) out.add_message(packet::kInternedData, fresh_);
      out.add_message(static_cast<protozero::pbf_tag_type>(field), message_);
    }
    fresh_.clear();
    if (chunk_.size() >= kChunkBytes) pack();
  }
  void pack() {
    if (chunk_.empty()) return;
    protozero::pbf_writer out(out_);
    protozero::pbf_writer packed(out, trace::kPacket);
    packed.add_bytes(packet::kCompressedPackets, zlib_packed(chunk_));
    chunk_.clear();
  }

  std::uint32_t process_;
  Nanoseconds shift_;
  std::uint32_t flags_ = packet::kStateCleared;
  std::int32_t children_ = 0;
  std::map<std::string, std::uint64_t> counters_;
  InternedTexts categories_{interned::kCategories}, names_{interned::kNames},
      detail_names_{interned::kDetailNames}, detail_texts_{interned::kDetailTexts};
  std::string message_, fresh_;  // of the packet that is made
  std::string chunk_;            // packets that are not packed yet
  std::string out_;
};

}  // namespace

std::unique_ptr<EventWriter> perfetto_event_writer(const TimelineTitle& title) {
  return std::make_unique<PerfettoEventWriter>(title);
}

}  // namespace moelab
