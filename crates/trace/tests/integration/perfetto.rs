//! Perfetto traces, decoded by the schema and played back as `trace_processor` does.

use std::collections::BTreeMap;

use phalanx_trace::Format;
use prost::Message;

use crate::model::{Count, Event, Timeline, Track, small};
use crate::schema::{Interned, Trace, TracePacket, TrackDescriptor, TrackEvent, Value};

/// Reads a trace slowly and without mercy.
#[derive(Default)]
struct Player {
    timeline: Timeline,
    names: BTreeMap<u64, String>,
    annotations: BTreeMap<u64, String>,
    events: Vec<(u64, TrackEvent)>,
}

pub(crate) fn decode(bytes: &[u8]) -> Timeline {
    let trace = Trace::decode(bytes).unwrap();
    assert_eq!(trace.encode_to_vec().len(), bytes.len(), "no field is unknown to the schema");
    assert_eq!(trace.packet[0].sequence_flags, Some(1), "SEQ_INCREMENTAL_STATE_CLEARED first");
    let mut player = Player::default();
    for packet in trace.packet {
        player.packet(packet);
    }
    player.play()
}

impl Player {
    fn packet(&mut self, packet: TracePacket) {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        assert!(packet.sequence_flags == Some(2) || self.annotations.is_empty());
        let interned = packet.interned_data.unwrap_or_default();
        intern(&mut self.names, interned.event_names);
        intern(&mut self.annotations, interned.debug_annotation_names);
        if let Some(descriptor) = packet.track_descriptor {
            self.track(descriptor);
        }
        if let Some(event) = packet.track_event {
            // References must follow what they refer to.
            assert!(event.name_iid.is_none_or(|iid| self.names.contains_key(&iid)));
            assert!(track(&event) < self.timeline.tracks.len());
            self.events.push((packet.timestamp.unwrap(), event));
        }
    }

    fn track(&mut self, descriptor: TrackDescriptor) {
        assert_eq!(descriptor.child_ordering, Some(3), "EXPLICIT");
        if descriptor.uuid == Some(0) {
            return;
        }
        let index = self.timeline.tracks.len();
        assert_eq!(descriptor.uuid, Some(index as u64 + 1));
        assert_eq!(descriptor.sibling_order_rank, Some(i32::try_from(index).unwrap()));
        assert_eq!(descriptor.sibling_merge_behavior, Some(2), "NONE");
        let parent = descriptor.parent_uuid.map(|uuid| usize::try_from(uuid).unwrap() - 1);
        let unit = descriptor.counter.map(|counter| counter.unit_name.unwrap());
        self.timeline.tracks.push(Track { name: descriptor.name.unwrap(), parent, unit });
    }

    fn play(mut self) -> Timeline {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|(at_ns, event)| (track(event), *at_ns));
        let mut open = Vec::new();
        for (at_ns, event) in &events {
            match event.r#type.unwrap() {
                1 => open.push(self.begin(*at_ns, event)),
                2 => self.end(open.pop().expect("an end has a begin"), *at_ns, event),
                4 => self.count(*at_ns, event),
                other => panic!("unexpected event type {other}"),
            }
        }
        assert!(open.is_empty(), "a begin has an end");
        self.timeline
    }

    /// The index of the slice begun.
    fn begin(&mut self, at_ns: u64, event: &TrackEvent) -> usize {
        self.timeline.slices.push(Event {
            track: track(event),
            name: self.names[&event.name_iid.unwrap()].clone(),
            start_ps: exact(at_ns, self.annotation(event, "start_ps")),
            end_ps: self.annotation(event, "end_ps").unwrap_or(u64::MAX),
            bytes: self.annotation(event, "bytes"),
            flow_out: event.flow_ids.first().copied(),
            flow_in: None,
        });
        self.timeline.slices.len() - 1
    }

    fn end(&mut self, index: usize, at_ns: u64, event: &TrackEvent) {
        let slice = &mut self.timeline.slices[index];
        assert_eq!(slice.track, track(event), "an end is on the track of its begin");
        slice.end_ps = exact(at_ns, Some(slice.end_ps).filter(|end_ps| *end_ps != u64::MAX));
        slice.flow_in = event.terminating_flow_ids.first().copied();
    }

    fn count(&mut self, timestamp: u64, event: &TrackEvent) {
        let at_ps = exact(timestamp, self.annotation(event, "at_ps"));
        let (track, value) = (track(event), event.counter_value.unwrap());
        self.timeline.counts.push(Count { track, at_ps, value });
    }

    fn annotation(&self, event: &TrackEvent, name: &str) -> Option<u64> {
        let mut all = event.debug_annotations.iter();
        let found = all.find(|each| self.annotations[&each.name_iid.unwrap()] == name)?;
        match found.value {
            Some(Value::UintValue(value)) => Some(value),
            ref other => panic!("`{name}` is not an unsigned number: {other:?}"),
        }
    }
}

fn intern(table: &mut BTreeMap<u64, String>, entries: Vec<Interned>) {
    for Interned { iid, name } in entries {
        let earlier = table.insert(iid.unwrap(), name.unwrap());
        assert_eq!(earlier, None, "an identifier is given once");
    }
}

fn track(event: &TrackEvent) -> usize {
    usize::try_from(event.track_uuid.unwrap()).unwrap() - 1
}

/// The time in picoseconds: the annotation's, which must be the timestamp's but for the fraction.
fn exact(at_ns: u64, annotated_ps: Option<u64>) -> u64 {
    let ps = annotated_ps.unwrap_or(at_ns * 1_000);
    assert_eq!(ps / 1_000, at_ns);
    assert_ne!(ps.is_multiple_of(1_000), annotated_ps.is_some(), "annotated only where it must be");
    ps
}

#[test]
fn trc_1_a_timeline_reads_back_to_the_picosecond() {
    assert_eq!(decode(&small().write(Format::Perfetto)), small());
}

#[test]
fn trc_1_the_largest_of_everything_fits() {
    let mut timeline = Timeline::default();
    let track = timeline.track(&"long ".repeat(1_000), None);
    let slice = timeline.slice(track, &"name ".repeat(1_000), u64::MAX - 1, u64::MAX - 1);
    slice.bytes = Some(u64::MAX);
    (slice.flow_out, slice.flow_in) = (Some(u64::MAX), Some(u64::MAX));
    let counter = timeline.counter("", Some(track), "");
    timeline.counts.push(Count { track: counter, at_ps: u64::MAX, value: i64::MIN });
    assert_eq!(decode(&timeline.write(Format::Perfetto)), timeline);
}

#[test]
fn trc_2_slices_of_the_same_nanosecond_still_nest() {
    let mut timeline = Timeline::default();
    let track = timeline.track("vector", None);
    timeline.slice(track, "outer", 5_100, 5_900);
    timeline.slice(track, "first", 5_100, 5_200).flow_in = Some(1);
    timeline.slice(track, "second", 5_200, 5_900).flow_in = Some(2);
    timeline.slice(track, "after", 5_900, 5_950);
    let bytes = timeline.write(Format::Perfetto);
    assert_eq!(decode(&bytes), timeline);
    let kinds: Vec<i32> = Trace::decode(&*bytes)
        .unwrap()
        .packet
        .into_iter()
        .filter_map(|packet| packet.track_event?.r#type)
        .collect();
    assert_eq!(kinds, [1, 1, 2, 1, 2, 2, 1, 2]);
}

#[test]
fn trc_3_tracks_are_ranked_in_order_of_creation() {
    let trace = Trace::decode(&*small().write(Format::Perfetto)).unwrap();
    let tracks = trace.packet.into_iter().filter_map(|packet| packet.track_descriptor);
    let ranks: Vec<_> = tracks.map(|track| (track.name, track.sibling_order_rank)).collect();
    assert_eq!(ranks[0], (None, None), "the root, for the order of the tracks below it");
    assert_eq!(ranks[4], (Some("vector".into()), Some(3)));
    assert_eq!(ranks[5], (Some("dma".into()), Some(4)));
}

#[test]
fn trc_7_a_name_is_written_once() {
    let mut timeline = Timeline::default();
    let track = timeline.track("vector", None);
    for i in 0..100 {
        timeline.slice(track, "distinctive", i * 10, i * 10 + 5).bytes = Some(i);
    }
    let bytes = timeline.write(Format::Perfetto);
    for name in ["distinctive", "bytes", "start_ps"] {
        assert_eq!(bytes.windows(name.len()).filter(|part| *part == name.as_bytes()).count(), 1);
    }
}
