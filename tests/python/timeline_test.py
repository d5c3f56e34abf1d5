"""A timeline in Perfetto's own form, read by Perfetto's schema: the same events as in JSON, which is the other witness."""

import collections
import json
import subprocess
import zlib

import pytest

trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
unknown_fields = pytest.importorskip("google.protobuf.unknown_fields")

RUNS = {
    "cached": ["recorded-default", "--set", "workload.requests=1", "--timeline-tokens", "2:6"],
    "paged": ["fluxmoe-mixtral", "--timeline-passes", "3", "--set", "workload.requests=3"],
    "cluster": ["prism-offload", "--system", "prism-offload", "--timeline-passes", "30", "--set", "faults.events.0.at=20 s",
                "--set", "faults.events.1.at=40 s", *(w for n in "012" for w in ("--set", f"workload.servers.{n}.requests=4"))],
}
Slice = collections.namedtuple("Slice", "process track name category start end details")


@pytest.fixture(scope="session", params=RUNS)
def timelines(request, moelab_program, tmp_path_factory):
    """The same run's packets, and its events in JSON."""
    folder = tmp_path_factory.mktemp("timeline")
    for name in ("t.json", "t.pftrace"):
        subprocess.run([moelab_program, "run", *RUNS[request.param], "--timeline", str(folder / name)], check=True,
                       capture_output=True)
    return packets_of((folder / "t.pftrace").read_bytes()), json.loads((folder / "t.json").read_text())["traceEvents"]


def packets_of(file):
    outer = trace_pb2.Trace.FromString(file)
    packets = []
    for packed in outer.packet:
        assert packed.WhichOneof("data") == "compressed_packets"
        inner = trace_pb2.Trace.FromString(zlib.decompress(packed.compressed_packets))
        packets += inner.packet
    return packets


def known_fields_only(message):
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                known_fields_only(each)


def ns(microseconds):
    return round(microseconds * 1000)


class OfJson:
    def __init__(self, events):
        self.processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        order = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
        self.tracks = {pid: [names[t] for t in sorted(order, key=order.get) if t[0] == pid] for pid in self.processes}
        by_track = collections.defaultdict(list)
        self.slices, self.marks, self.counters, ends = [], [], [], {}
        for e in events:
            if e["ph"] == "X":
                start = ns(e["ts"])
                one = Slice(e["pid"], names[e["pid"], e["tid"]], e["name"], e["cat"], start, start + ns(e["dur"]), details(e["args"]))
                self.slices.append(one)
                by_track[e["pid"], e["tid"]].append(one)
            elif e["ph"] == "i":
                self.marks.append((e["pid"], e["name"], e["cat"], ns(e["ts"]), details(e["args"])))
            elif e["ph"] == "C":
                for key, value in e["args"].items():
                    name = e["name"] + (" " + key if len(e["args"]) > 1 else "")
                    self.counters.append((e["pid"], name, ns(e["ts"]), value))
            elif e["ph"] in "sf":
                ends.setdefault((e["pid"], e["id"]), {})[e["ph"]] = (names[e["pid"], e["tid"]], ns(e["ts"]))
        self.arrows = ends


class OfPackets:
    def __init__(self, packets):
        self.processes, self.tracks, self.slices, self.marks, self.counters, self.arrows = {}, {}, [], [], [], {}
        self.units, self.interned, descriptors, events = {}, {}, {}, []
        for packet in packets:
            known = self.interned.get(packet.trusted_packet_sequence_id)
            if packet.sequence_flags & 1:
                assert known is None  # once a sequence
                known = self.interned[packet.trusted_packet_sequence_id] = collections.defaultdict(dict)
            assert known is not None
            for kind, entries in packet.interned_data.ListFields():
                for entry in entries:
                    text = entry.str.decode() if kind.name == "debug_annotation_string_values" else entry.name
                    assert known[kind.name].setdefault(entry.iid, text) == text
            if packet.HasField("track_descriptor"):
                assert descriptors.setdefault(packet.track_descriptor.uuid, packet.track_descriptor) is packet.track_descriptor
            else:
                events.append((packet.timestamp, packet.track_event, known))
        self.read_tracks(descriptors)
        self.read_events(sorted(events, key=lambda e: e[0]), descriptors)  # stable, as the trace processor's

    def read_tracks(self, descriptors):
        children = collections.defaultdict(list)
        for d in descriptors.values():
            if d.HasField("process"):
                self.processes[d.process.pid] = d.process.process_name
                assert d.child_ordering == d.EXPLICIT
            else:
                assert descriptors[d.parent_uuid].HasField("process")
                pid = descriptors[d.parent_uuid].process.pid
                if d.HasField("counter"):
                    self.units[pid, d.name] = d.counter.unit
                else:
                    children[pid].append(d)
        self.tracks = {pid: [d.name for d in sorted(children[pid], key=lambda d: d.sibling_order_rank)] for pid in self.processes}

    def read_events(self, events, descriptors):
        open_slices = collections.defaultdict(list)
        for at, event, known in events:
            track = descriptors[event.track_uuid]
            process = track.process.pid or descriptors[track.parent_uuid].process.pid
            if event.type == event.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append((at, event, known))
                for flow in event.terminating_flow_ids:
                    self.arrows.setdefault((process, flow), {})["f"] = (track.name, at)
            elif event.type == event.TYPE_SLICE_END:
                start, begin, known = open_slices[event.track_uuid].pop()
                self.slices.append(Slice(process, track.name, *self.named(begin, known), start, at, self.details(begin, known)))
                for flow in begin.flow_ids:
                    self.arrows.setdefault((process, flow), {})["s"] = (track.name, max(start, at - 1))
            elif event.type == event.TYPE_INSTANT:
                self.marks.append((process, *self.named(event, known), at, self.details(event, known)))
            else:
                assert event.type == event.TYPE_COUNTER and track.HasField("counter")
                self.counters.append((process, track.name, at, event.counter_value))
        assert not any(open_slices.values())

    def named(self, event, known):
        return known["event_names"][event.name_iid], known["event_categories"][event.category_iids[0]]

    def details(self, event, known):
        values = {}
        for one in event.debug_annotations:
            kind = one.WhichOneof("value")
            value = getattr(one, kind)
            name = known["debug_annotation_names"][one.name_iid]
            values[name] = known["debug_annotation_string_values"][value] if kind == "string_value_iid" else value
        return details(values)


def details(values):
    return tuple(sorted(values.items()))


def test_all_fields_are_of_the_schema(timelines):
    packets, _ = timelines
    for packet in packets:
        known_fields_only(packet)


def test_events_are_those_of_the_json(timelines):
    packets, events = timelines
    ours, theirs = OfPackets(packets), OfJson(events)
    assert ours.processes == theirs.processes
    assert ours.tracks == theirs.tracks
    for kind in ("slices", "marks", "counters"):
        assert collections.Counter(getattr(ours, kind)) == collections.Counter(getattr(theirs, kind)), kind
    assert ours.slices and ours.counters and ours.arrows
    assert ours.arrows == theirs.arrows
    assert all(set(ends) == {"s", "f"} for ends in ours.arrows.values())


def test_bytes_have_their_unit(timelines):
    packets, _ = timelines
    descriptor = trace_pb2.CounterDescriptor
    for (_, name), unit in OfPackets(packets).units.items():
        assert unit == (descriptor.UNIT_SIZE_BYTES if name.endswith("bytes") else descriptor.UNIT_COUNT), name
