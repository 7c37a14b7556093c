//! Inter-PE queues (IPCQ): one for each directed edge, with a ring of slots at the receiver and credits at the sender.
//!
//! ```text
//!   post ──► pending ──(credit)──► in flight ──► arrived ──► held by the kernel ──► released
//!                ▲                                                                     │
//!                └───────────────────────── credit, `ac` later ◄──────────────────────┘
//! ```
//!
//! One ring buffer holds all messages of an edge, oldest first: the arrived messages, then the messages in flight, then
//! the pending messages, which have no credit. Only the sender's SIP changes the end of the ring buffer, only the
//! receiver's SIP its front.
//!
//! - **IPC-1 (bounded).** Messages in flight, arrived or held never exceed `n_slots`.
//! - **IPC-2 (FIFO).** Messages of an edge are received in the order in which they were sent, none lost, none twice.
//! - **IPC-3 (home).** At the end of a run all credits are home; a missing credit is an error that names the edge.
//! - **IPC-5 (lazy).** A credit that comes home while no message is pending is not an event: the next send finds it.
//!   Nothing else depends on that.
//! - **IPC-6 (protocol).** A protocol's `delay` adds to the latency of each message between SIPs; its `efficiency` makes the
//!   wires between SIPs move `bytes / efficiency`. Messages inside a SIP cost what they cost.
//! - **IPC-4 (timing).** Slot by slot, times obey `S_j = max(S_{j-1} + ser, R_{j-K} + ac)` and
//!   `R_j = max(S_j + ser + a, R_{j-1}) + c`.

use crate::executor::{Key, TaskId};
use crate::machine::Route;
use crate::record::Path;
use crate::ring_buffer::RingBuffer;
use crate::spec::Efficiency;
use crate::time::{Bytes, Time};
use crate::topology::{Hop, PeId};
use crate::value::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The settings of an edge; sender and receiver must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeSpec {
    /// Number of slots at the receiver.
    pub n_slots: u32,
    /// Largest message of one slot, in bytes; a longer message takes several slots.
    pub slot_size: u64,
    /// Memory of the receiver's slots.
    pub buffer_kind: BufferKind,
    /// Behaviour of a sender without credit.
    pub backpressure: Backpressure,
    /// Size of the chunks in which a message moves between SIPs, in bytes; 0 for the whole message.
    pub vc_chunk_size: u64,
    /// Size of a returned credit; 0 for a side-band signal, which takes the latency of the route and no bandwidth.
    pub ipcq_credit_size_bytes: u64,
    /// Time that a message between SIPs takes beyond the way over the wires.
    pub delay: Time,
    /// The share of data in the bytes on the wires between SIPs; the rest belongs to a protocol.
    pub efficiency: Efficiency,
}

crate::portable!(struct EdgeSpec {
    n_slots, slot_size, buffer_kind, backpressure, vc_chunk_size, ipcq_credit_size_bytes, delay, efficiency,
});

impl EdgeSpec {
    /// True if messages cost what the wires cost.
    pub(crate) fn is_plain(&self) -> bool {
        self.delay == Time::ZERO && self.efficiency == Efficiency::FULL
    }
}

impl Default for EdgeSpec {
    fn default() -> Self {
        Self {
            n_slots: 4,
            slot_size: 16 * 1024,
            buffer_kind: BufferKind::Tcm,
            backpressure: Backpressure::Sleep,
            vc_chunk_size: 0,
            ipcq_credit_size_bytes: 0,
            delay: Time::ZERO,
            efficiency: Efficiency::FULL,
        }
    }
}

/// The memory of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// The receiver's scratch memory.
    Tcm,
    /// The HBM of the receiver's cube.
    Hbm,
}

crate::portable!(enum BufferKind { 0 => Tcm, 1 => Hbm });

/// The behaviour of a sender without credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// Sleeps until the credit comes.
    Sleep,
    /// Polls for a credit with this period, counted from the refusal.
    Poll(Time),
}

crate::portable!(enum Backpressure { 0 => Sleep, 1 => Poll(period) });

impl Backpressure {
    /// Default period of a polling sender.
    pub const POLL_PERIOD: Time = Time::ns(100);
}

/// The name of an edge: `sip0.cube0.pe0->sip1.cube0.pe0`, and a channel number if it is not 0; `#multicast` and `#reduction`
/// stand before the number of an edge through such a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgeName {
    /// The sender.
    pub from: PeId,
    /// The receiver.
    pub to: PeId,
    /// Number that distinguishes edges between the same PEs.
    pub channel: u32,
}

crate::portable!(struct EdgeName { from, to, channel });

impl fmt::Display for EdgeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.from, self.to)?;
        let number = self.channel & InSwitch::CHANNELS;
        match self.in_switch() {
            InSwitch::No if number == 0 => return Ok(()),
            InSwitch::No => return write!(f, "#{number}"),
            InSwitch::Multicast => write!(f, "#multicast")?,
            InSwitch::Reduction => write!(f, "#reduction")?,
        }
        if number == 0 { Ok(()) } else { write!(f, "{number}") }
    }
}

/// The part that the switch has in the messages of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InSwitch {
    /// It only passes them on.
    #[default]
    No,
    /// It copies each message to several receivers.
    Multicast,
    /// It combines the messages of several senders.
    Reduction,
}

impl InSwitch {
    /// Channel numbers of edges; the bits above say what the switch does.
    pub(crate) const CHANNELS: u32 = (1 << 30) - 1;

    /// Returns the channel of an edge for such messages.
    pub(crate) fn channel(self, number: u32) -> u32 {
        let kind = match self {
            Self::No => 0,
            Self::Multicast => 1 << 30,
            Self::Reduction => 1 << 31,
        };
        number & Self::CHANNELS | kind
    }
}

impl EdgeName {
    /// Returns the part of the switch, which the channel says.
    pub(crate) fn in_switch(&self) -> InSwitch {
        match self.channel >> 30 {
            1 => InSwitch::Multicast,
            2 => InSwitch::Reduction,
            _ => InSwitch::No,
        }
    }
}

/// One message, from its post to its receipt: two cache lines.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    pub(crate) value: Option<Value>,
    /// Number of slots of the same message after this one.
    pub(crate) following: u32,
    pub(crate) path: Path,
    pub(crate) posted: Time,
    pub(crate) granted: Time,
    pub(crate) arrived: Time,
    pub(crate) flow: u64,
}

crate::portable!(struct Message { bytes, value, following, path, posted, granted, arrived, flow });

/// The content of a message, as its sender posts it.
pub(crate) struct MessageBody {
    pub(crate) bytes: u64,
    pub(crate) value: Option<Value>,
}

/// One directed queue.
///
/// The fields that every message uses come first, to fit few cache lines: the first line is about messages and slots, the
/// second is what both ends need besides, the third and the fourth belong to the sender.
#[repr(C, align(64))]
pub(crate) struct Edge {
    /// Arrived messages, then messages in flight, then pending messages.
    pub(crate) messages: RingBuffer<Message>,
    pub(crate) arrived: usize,
    pub(crate) in_flight: usize,
    /// Number of messages in flight that are at the receiver's SIP, on their way to their slots.
    pub(crate) arriving: usize,
    /// Number of messages ever received, so that a message keeps its number.
    pub(crate) received: u64,
    pub(crate) credits: EdgeCredits,
    /// The process that waits for a message, and the process that waits for a credit.
    pub(crate) receiver: Option<TaskId>,
    pub(crate) sender: Option<TaskId>,
    /// Credits on their way home, and credits that are home and not taken (IPC-5).
    pub(crate) returning: RingBuffer<Returning>,
    pub(crate) traits: EdgeTraits,
    pub(crate) stats: EdgeStats,
    /// Time at which a message took a credit last.
    pub(crate) last_grant: Time,
    pub(crate) exit: EdgeExit,
    pub(crate) name: EdgeName,
    /// The sender's settings.
    pub(crate) spec: EdgeSpec,
    pub(crate) ends: EdgeEnds,
    pub(crate) route: EdgeRoute,
    pub(crate) switch: EdgeSwitch,
    /// Critical path of the last message that waited for a credit.
    pub(crate) last_wait: Path,
}

/// The slots of an edge.
pub(crate) struct EdgeCredits {
    /// Number of free slots that the sender knows of.
    pub(crate) free: u32,
    /// Number of slots that the receiver holds.
    pub(crate) held: u32,
}

/// The properties of an edge that steer each of its messages.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says one thing about the edge")]
pub(crate) struct EdgeTraits {
    pub(crate) credit_latency: Time,
    /// True if one link is the whole route, and nothing before the link takes time.
    pub(crate) direct: bool,
    /// True if the critical paths of messages on their one link are in the exit of the edge.
    pub(crate) has_paths_at_exit: bool,
    /// True if messages from another SIP have no way from the receiver's gateway to the receiver.
    pub(crate) ends_at_gate: bool,
    /// True if another shard has one of the ends.
    pub(crate) is_abroad: bool,
    /// True if sender and receiver have the same settings.
    pub(crate) agreed: bool,
    pub(crate) retry_scheduled: bool,
    /// True if a credit is an event only while a message is pending (IPC-5).
    pub(crate) lazy: bool,
    /// True if the receiver's slots are in its scratch memory.
    pub(crate) is_in_tcm: bool,
}

/// The first port of an edge's messages.
pub(crate) struct EdgeExit {
    /// The port of the sender's SIP.
    pub(crate) port: usize,
    /// The next SIP of the route.
    pub(crate) next: u32,
}

/// The way of an edge's messages.
#[derive(Default)]
pub(crate) struct EdgeRoute {
    pub(crate) hops: u32,
    /// True if the route passes a switch or a shared NIC.
    pub(crate) is_switched: bool,
    /// The first hop of the route, if there is a route between SIPs, and the way to its port inside the sender's SIP.
    pub(crate) hop: Hop,
    pub(crate) way_out: Route,
}

/// The settings and the names that the processes at both ends of an edge gave.
pub(crate) struct EdgeEnds {
    pub(crate) receiver_spec: EdgeSpec,
    /// Topics of the sender, each with the number of its first message.
    pub(crate) topics: VecDeque<(u64, Topic)>,
    /// Names of the processes that opened each end last.
    pub(crate) receiver_name: Option<String>,
    pub(crate) sender_name: Option<String>,
}

/// The part of an edge in a multicast or in a reduction of the switch.
#[derive(Default)]
pub(crate) struct EdgeSwitch {
    /// The edges of the same multicast or reduction, as the one end that knows them has opened them.
    pub(crate) group: Option<u32>,
    /// The packets of a reduction whose heads wait at the receiver's port for those of the other senders.
    pub(crate) heads: VecDeque<u32>,
}

/// A credit on its way home.
#[derive(Default)]
pub(crate) struct Returning {
    /// Critical path to the release of the slot.
    pub(crate) path: Path,
    /// Arrival at the sender, if the credit needs no packet.
    pub(crate) arrival: Time,
    /// Key of the credit's event.
    pub(crate) key: Key,
}

/// True if the credits of an edge need no events: they take no link bandwidth, and the sender sleeps.
fn is_lazy(name: EdgeName, spec: &EdgeSpec) -> bool {
    let sleeps = spec.backpressure == Backpressure::Sleep;
    let is_plain = name.in_switch() == InSwitch::No;
    sleeps && is_plain && spec.ipcq_credit_size_bytes == 0 && name.from.sip != name.to.sip
}

/// The subject of messages in words. It travels with the messages, so that a receiver that expects another topic finds
/// the mistake before it reads the data.
pub type Topic = Rc<str>;

/// The statistics of an edge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeStats {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) credit_wait: u64,
    pub(crate) polls: u64,
    pub(crate) most_slots: u32,
}

impl EdgeTraits {
    /// Returns the properties that follow from the settings of both ends.
    fn new(name: EdgeName, spec: &EdgeSpec) -> Self {
        Self {
            agreed: true,
            lazy: is_lazy(name, spec),
            is_in_tcm: spec.buffer_kind == BufferKind::Tcm,
            ..Self::default()
        }
    }
}

impl Edge {
    pub(crate) fn new(name: EdgeName, spec: EdgeSpec) -> Self {
        Self {
            messages: RingBuffer::default(),
            arrived: 0,
            in_flight: 0,
            arriving: 0,
            received: 0,
            credits: EdgeCredits { free: spec.n_slots, held: 0 },
            receiver: None,
            sender: None,
            returning: RingBuffer::default(),
            traits: EdgeTraits::new(name, &spec),
            stats: EdgeStats::default(),
            last_grant: Time::ZERO,
            exit: EdgeExit { port: 0, next: name.to.sip },
            name,
            spec,
            ends: EdgeEnds {
                receiver_spec: spec,
                topics: VecDeque::new(),
                receiver_name: None,
                sender_name: None,
            },
            route: EdgeRoute::default(),
            switch: EdgeSwitch::default(),
            last_wait: Path::default(),
        }
    }

    /// Changes the sender's settings, if no message or credit is under way.
    pub(crate) fn set_sender_spec(&mut self, spec: EdgeSpec) -> Result<(), &'static str> {
        if self.pending() > 0 || self.credits.free != self.spec.n_slots {
            return Err("it is in use with other settings");
        }
        (self.spec, self.credits.free) = (spec, spec.n_slots);
        self.traits.agreed = self.spec == self.ends.receiver_spec;
        self.traits.lazy = is_lazy(self.name, &spec);
        Ok(())
    }

    /// Changes the receiver's settings.
    pub(crate) fn set_receiver_spec(&mut self, spec: EdgeSpec) {
        self.ends.receiver_spec = spec;
        self.traits.is_in_tcm = spec.buffer_kind == BufferKind::Tcm;
        self.traits.agreed = self.spec == spec;
    }

    /// Changes the sender's settings as the sender, in another shard, has changed them.
    pub(crate) fn learn_sender_spec(&mut self, spec: EdgeSpec) {
        self.spec = spec;
        self.traits.agreed = spec == self.ends.receiver_spec;
        self.traits.lazy = is_lazy(self.name, &spec);
    }

    /// Returns the topic that begins with the oldest message, which leaves for another shard. The last topic stays.
    pub(crate) fn topic_of_departing(&mut self) -> Option<Arc<str>> {
        let number = self.received;
        while self.ends.topics.get(1).is_some_and(|(first, _)| *first <= number) {
            self.ends.topics.pop_front();
        }
        let topic = self.ends.topics.front().filter(|(first, _)| *first == number);
        topic.map(|(_, topic)| Arc::from(&**topic))
    }

    /// Removes the oldest message, which is in flight to another shard. The sender's half of an edge has no others in flight.
    pub(crate) fn hand_over(&mut self) -> Message {
        self.in_flight -= 1;
        self.received += 1;
        self.messages.pop().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a message in flight from another shard, with the topic that begins with it.
    pub(crate) fn take_over(&mut self, message: Message, topic: Option<Topic>) {
        if let Some(topic) = topic {
            self.set_topic(topic);
        }
        *self.messages.push() = message;
        self.in_flight += 1;
    }

    /// Sets the topic of the messages posted from now on.
    pub(crate) fn set_topic(&mut self, topic: Topic) {
        let next = self.posted();
        self.ends.topics.push_back((next, topic));
    }

    /// Returns the sender's last topic.
    pub(crate) fn last_topic(&self) -> Option<&Topic> {
        self.ends.topics.back().map(|(_, topic)| topic)
    }

    /// Returns the topic of the message received last.
    pub(crate) fn topic(&mut self) -> Option<&Topic> {
        let taken = self.received - 1;
        while self.ends.topics.get(1).is_some_and(|(first, _)| *first <= taken) {
            self.ends.topics.pop_front();
        }
        self.ends.topics.front().filter(|(first, _)| *first <= taken).map(|(_, topic)| topic)
    }

    /// Returns the name of the process that receives, or of its PE.
    pub(crate) fn receiver_process(&self) -> String {
        self.ends.receiver_name.clone().unwrap_or_else(|| self.name.to.to_string())
    }

    /// Returns the name of the process that sends, or of its PE.
    pub(crate) fn sender_process(&self) -> String {
        self.ends.sender_name.clone().unwrap_or_else(|| self.name.from.to_string())
    }

    /// True if one link is the whole route.
    #[inline]
    pub(crate) fn is_one_link(&self) -> bool {
        self.route.hops == 1 && !self.route.is_switched && self.name.in_switch() == InSwitch::No
    }

    /// Returns the number of messages without a credit.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.messages.len() - self.arrived - self.in_flight
    }

    /// Returns the number of messages ever posted, which is the number of the next message.
    #[inline]
    pub(crate) fn posted(&self) -> u64 {
        self.received + self.messages.len() as u64
    }

    /// Returns the number of messages that ever took a credit.
    #[inline]
    pub(crate) fn launched(&self) -> u64 {
        self.posted() - self.pending() as u64
    }

    /// Takes a credit for the oldest pending message, which is then in flight.
    #[inline]
    pub(crate) fn grant(&mut self, now: Time) -> &mut Message {
        assert!(self.credits.free > 0, "IPC-1: no credit on {}", self.name);
        self.credits.free -= 1;
        let index = self.arrived + self.in_flight;
        self.in_flight += 1;
        self.stats.most_slots = self.stats.most_slots.max(self.spec.n_slots - self.credits.free);
        let message = &mut self.messages[index];
        message.granted = now;
        self.stats.messages += 1;
        self.stats.bytes += message.bytes;
        let waited = (now - message.posted.max(self.last_grant)).as_ps();
        self.stats.credit_wait = self.stats.credit_wait.saturating_add(waited);
        self.last_grant = now;
        message
    }

    /// Marks the oldest message in flight as arrived.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time) -> &mut Message {
        assert!(self.in_flight > 0, "IPC-2: nothing in flight on {}", self.name);
        self.in_flight -= 1;
        self.arrived += 1;
        let message = &mut self.messages[self.arrived - 1];
        message.arrived = now;
        message
    }

    /// Returns the oldest arrived message.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut Message> {
        if self.arrived == 0 { None } else { Some(&mut self.messages[0]) }
    }

    /// Removes the oldest arrived message; the receiver then holds its slot.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.arrived -= 1;
        self.received += 1;
        self.credits.held += 1;
        self.messages.pop();
    }

    /// Frees a slot that the receiver held.
    #[inline]
    pub(crate) fn free_slot(&mut self) {
        self.credits.held -= 1;
    }

    /// True if every message was received and every credit is home (IPC-3).
    pub(crate) fn is_home(&self) -> bool {
        self.away() == 0 && self.messages.is_empty() && self.credits.held == 0
    }

    /// Returns the number of missing credits at the end of a run; credits on their way count as home.
    pub(crate) fn away(&self) -> u32 {
        let home = u32::try_from(self.returning.len()).unwrap_or(u32::MAX);
        self.spec.n_slots - self.credits.free - home
    }
}

/// All edges, found by name at opening and by number afterwards.
#[derive(Default)]
pub(crate) struct Edges {
    pub(crate) list: Vec<Edge>,
    by_name: BTreeMap<EdgeName, u32>,
}

impl Edges {
    /// Returns the number of an edge, and true if the edge is new.
    pub(crate) fn open(&mut self, name: EdgeName, spec: EdgeSpec) -> (u32, bool) {
        if let Some(&number) = self.by_name.get(&name) {
            return (number, false);
        }
        let number = u32::try_from(self.list.len()).expect("fewer than 2^32 edges");
        self.list.push(Edge::new(name, spec));
        self.by_name.insert(name, number);
        (number, true)
    }

    /// Discards the edges for which `is_over` returns true, with their messages. Opening the same name again creates a
    /// new edge.
    pub(crate) fn give_up(&mut self, is_over: impl Fn(&EdgeName) -> bool) {
        self.by_name.retain(|name, _| !is_over(name));
    }

    /// Returns the edges by name, independent of the order in which they were opened.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Edge> {
        self.by_name.values().map(|number| &self.list[*number as usize])
    }
}

impl fmt::Display for EdgeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots of {}", self.n_slots, Bytes(self.slot_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_a_message_touches_of_its_edge_lies_in_four_cache_lines() {
        assert_eq!([offset_of!(Edge, receiver), offset_of!(Edge, stats)], [64, 128]);
        assert!(offset_of!(Edge, name) + size_of::<EdgeName>() <= 256);
    }
}
