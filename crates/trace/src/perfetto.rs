//! The Perfetto protobuf encoding: one packet sequence, small identifiers, interned names.
//!
//! - **TRC-7 (written once).** The name of a slice or of an argument is written once, however many
//!   slices bear it.
//!
//! A slice is a `SLICE_BEGIN` and a `SLICE_END` packet, about 40 bytes. Viewers sort packets by
//! nanosecond and keep the order of the file where those are equal, so the order of the packets of
//! one track is the order of its events in picoseconds. A flow leaves with the begin of its first
//! slice and arrives with the end of its last: a receiver often starts to wait before the sender
//! starts to send, and a flow that arrives before it leaves is dropped by viewers.
//!
//! All packets share one sequence and therefore one table of names. A sequence for each track would
//! let `trace_packet_defaults` name the track, two bytes less a packet, but repeat the table for
//! each; the default clock is already the right one.

use crate::protobuf::{Message, Packet, Scratch};
use crate::writer::{Encode, NameId, NewTrack, Slice, TrackId};

/// Field numbers of the schema, `perfetto_trace.proto`.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_INTERNED_DATA: u32 = 12;
    pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;

    pub(super) const INTERNED_EVENT_NAMES: u32 = 2;
    pub(super) const INTERNED_ANNOTATION_NAMES: u32 = 3;
    pub(super) const INTERNED_IID: u32 = 1;
    pub(super) const INTERNED_NAME: u32 = 2;

    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PARENT: u32 = 5;
    pub(super) const TRACK_COUNTER: u32 = 8;
    pub(super) const TRACK_CHILD_ORDERING: u32 = 11;
    pub(super) const TRACK_ORDER_RANK: u32 = 12;
    pub(super) const TRACK_MERGE_BEHAVIOR: u32 = 15;
    pub(super) const COUNTER_UNIT_NAME: u32 = 6;

    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_COUNTER_VALUE: u32 = 30;
    pub(super) const EVENT_FLOW: u32 = 47;
    pub(super) const EVENT_TERMINATING_FLOW: u32 = 48;

    pub(super) const ANNOTATION_NAME: u32 = 1;
    pub(super) const ANNOTATION_UINT: u32 = 3;
}

const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const ORDERING_EXPLICIT: u64 = 3;
const MERGE_NONE: u64 = 2;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// The arguments of events, by the number each is interned under.
const ANNOTATIONS: [(u64, &str); 4] =
    [(BYTES, "bytes"), (START_PS, "start_ps"), (END_PS, "end_ps"), (AT_PS, "at_ps")];
const BYTES: u64 = 1;
const START_PS: u64 = 2;
const END_PS: u64 = 3;
const AT_PS: u64 = 4;

pub(crate) struct Perfetto {
    scratch: Scratch,
}

impl Perfetto {
    pub(crate) fn new() -> Self {
        Self { scratch: [0; 264] }
    }

    /// Appends one event packet; `fill` adds what its kind has.
    #[inline]
    fn event(
        &mut self,
        out: &mut Vec<u8>,
        (kind, track, at_ps): (u64, TrackId, u64),
        fill: impl FnOnce(&mut Packet<'_>),
    ) {
        let mut packet = Packet::new(&mut self.scratch);
        let whole = packet.open(field::TRACE_PACKET);
        packet.uint(field::PACKET_TIMESTAMP, at_ps / 1_000);
        packet.uint(field::PACKET_SEQUENCE_ID, SEQUENCE);
        packet.uint(field::PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
        let event = packet.open(field::PACKET_TRACK_EVENT);
        packet.uint(field::EVENT_TYPE, kind);
        packet.uint(field::EVENT_TRACK, uuid(track));
        fill(&mut packet);
        packet.close(&event);
        packet.close(&whole);
        packet.append_to(out);
    }
}

impl Encode for Perfetto {
    fn open(&mut self, out: &mut Vec<u8>) {
        let names = ANNOTATIONS.iter().fold(Message::default(), |data, (iid, name)| {
            data.message(field::INTERNED_ANNOTATION_NAMES, &interned(*iid, name))
        });
        let first = packet(STATE_CLEARED).message(field::PACKET_INTERNED_DATA, &names);
        append(out, &first);
        // The invisible root, so that the tracks without a parent keep their order too.
        let root = Message::default()
            .uint(field::TRACK_UUID, 0)
            .uint(field::TRACK_CHILD_ORDERING, ORDERING_EXPLICIT);
        append(out, &packet(NEEDS_STATE).message(field::PACKET_TRACK_DESCRIPTOR, &root));
    }

    fn track(&mut self, out: &mut Vec<u8>, track: &NewTrack<'_>) {
        let mut descriptor = Message::default()
            .uint(field::TRACK_UUID, uuid(track.id))
            .text(field::TRACK_NAME, track.name)
            .uint(field::TRACK_CHILD_ORDERING, ORDERING_EXPLICIT)
            .uint(field::TRACK_ORDER_RANK, u64::from(track.id.0))
            .uint(field::TRACK_MERGE_BEHAVIOR, MERGE_NONE);
        if let Some(parent) = track.parent {
            descriptor = descriptor.uint(field::TRACK_PARENT, uuid(parent));
        }
        if let Some(unit) = track.unit {
            let counter = Message::default().text(field::COUNTER_UNIT_NAME, unit);
            descriptor = descriptor.message(field::TRACK_COUNTER, &counter);
        }
        append(out, &packet(NEEDS_STATE).message(field::PACKET_TRACK_DESCRIPTOR, &descriptor));
    }

    fn name(&mut self, out: &mut Vec<u8>, id: NameId, name: &str) {
        let entry = interned(iid(id), name);
        let data = Message::default().message(field::INTERNED_EVENT_NAMES, &entry);
        append(out, &packet(NEEDS_STATE).message(field::PACKET_INTERNED_DATA, &data));
    }

    fn begin(&mut self, out: &mut Vec<u8>, slice: &Slice) {
        self.event(out, (SLICE_BEGIN, slice.track, slice.start_ps), |packet| {
            packet.uint(field::EVENT_NAME, iid(slice.name));
            if let Some(flow) = slice.flow_out {
                packet.fixed64(field::EVENT_FLOW, flow);
            }
            if let Some(bytes) = slice.bytes {
                annotate(packet, BYTES, bytes);
            }
            annotate_inexact(packet, START_PS, slice.start_ps);
            annotate_inexact(packet, END_PS, slice.end_ps);
        });
    }

    fn end(&mut self, out: &mut Vec<u8>, track: TrackId, end_ps: u64, flow_in: Option<u64>) {
        self.event(out, (SLICE_END, track, end_ps), |packet| {
            if let Some(flow) = flow_in {
                packet.fixed64(field::EVENT_TERMINATING_FLOW, flow);
            }
        });
    }

    fn counter(&mut self, out: &mut Vec<u8>, track: TrackId, at_ps: u64, value: i64) {
        self.event(out, (COUNTER, track, at_ps), |packet| {
            packet.uint(field::EVENT_COUNTER_VALUE, value.cast_unsigned());
            annotate_inexact(packet, AT_PS, at_ps);
        });
    }

    fn close(&mut self, _: &mut Vec<u8>) {}
}

/// 0 is the invisible root.
fn uuid(track: TrackId) -> u64 {
    u64::from(track.0) + 1
}

/// 0 is "no name".
fn iid(name: NameId) -> u64 {
    u64::from(name.0) + 1
}

fn packet(flags: u64) -> Message {
    Message::default()
        .uint(field::PACKET_SEQUENCE_ID, SEQUENCE)
        .uint(field::PACKET_SEQUENCE_FLAGS, flags)
}

fn interned(iid: u64, name: &str) -> Message {
    Message::default().uint(field::INTERNED_IID, iid).text(field::INTERNED_NAME, name)
}

fn append(out: &mut Vec<u8>, packet: &Message) {
    let framed = Message::default().message(field::TRACE_PACKET, packet);
    out.extend_from_slice(framed.as_bytes());
}

#[inline]
fn annotate(packet: &mut Packet<'_>, name: u64, value: u64) {
    let annotation = packet.open(field::EVENT_ANNOTATION);
    packet.uint(field::ANNOTATION_NAME, name);
    packet.uint(field::ANNOTATION_UINT, value);
    packet.close(&annotation);
}

/// The timestamp holds nanoseconds; an argument holds the rest.
#[inline]
fn annotate_inexact(packet: &mut Packet<'_>, name: u64, ps: u64) {
    if !ps.is_multiple_of(1_000) {
        annotate(packet, name, ps);
    }
}
