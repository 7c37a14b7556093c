//! Inter-PE queues (IPCQ): one per directed edge, a ring of slots at the receiver and credits at the sender.
//!
//! ```text
//!   post ──► pending ──(credit)──► in flight ──► arrived ──► held by the kernel ──► released
//!                ▲                                                                     │
//!                └───────────────────────── credit, `ac` later ◄──────────────────────┘
//! ```
//!
//! All messages of an edge stand in one row, oldest first: those that have arrived, then those in flight, then
//! those that wait for a credit. Only the sender's SIP changes the end of the row, only the receiver's its front.
//!
//! - **IPC-1 (bounded).** Messages in flight, arrived or held never exceed `n_slots`.
//! - **IPC-2 (FIFO).** Messages of an edge are received in the order they were sent, none lost, none twice.
//! - **IPC-3 (home).** When everything is over all credits are home; a run that leaves one away is an error that
//!   names the edge.
//! - **IPC-5 (lazy).** A credit that comes home while no message waits for it is no event: the sender finds it when it
//!   asks. Nothing else depends on that.
//! - **IPC-4 (timing).** Slot by slot, times obey `S_j = max(S_{j-1} + ser, R_{j-K} + ac)` and
//!   `R_j = max(S_j + ser + a, R_{j-1}) + c`.

use crate::executor::{Key, TaskId};
use crate::record::Path;
use crate::ring_buffer::RingBuffer;
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use crate::value::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// How an edge is set up; sender and receiver must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeSpec {
    /// How many messages can be under way.
    pub n_slots: u32,
    /// The largest message in one slot; longer ones take several.
    pub slot_size: u64,
    /// Where the receiver's slots are.
    pub buffer_kind: BufferKind,
    /// What a sender without credit does.
    pub backpressure: Backpressure,
    /// The unit in which a message moves from SIP to SIP; 0 is the whole message.
    pub vc_chunk_size: u64,
    /// The size of a returned credit; 0 is a side-band signal that takes the way's latency and no bandwidth.
    pub ipcq_credit_size_bytes: u64,
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
        }
    }
}

/// Where slots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// In the receiver's scratch memory.
    Tcm,
    /// In its cube's HBM.
    Hbm,
}

/// What a sender without credit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// Sleeps until the credit comes.
    Sleep,
    /// Looks again every so often, from when it was refused.
    Poll(Time),
}

impl Backpressure {
    /// How often a polling sender looks, unless said otherwise.
    pub const POLL_PERIOD: Time = Time::ns(100);
}

/// Which edge: `sip0.cube0.pe0->sip1.cube0.pe0`, and a number where two PEs have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgeName {
    /// The sender.
    pub from: PeId,
    /// The receiver.
    pub to: PeId,
    /// Tells edges between the same PEs apart.
    pub channel: u32,
}

impl fmt::Display for EdgeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.from, self.to)?;
        if self.channel == 0 { Ok(()) } else { write!(f, "#{}", self.channel) }
    }
}

/// One message, from when it is posted to when it is received: two lines of the processor's cache.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    pub(crate) value: Option<Value>,
    /// Slots of the same message that follow this one.
    pub(crate) following: u32,
    pub(crate) path: Path,
    pub(crate) posted: Time,
    pub(crate) granted: Time,
    pub(crate) arrived: Time,
    pub(crate) flow: u64,
}

/// One directed queue.
///
/// What every message needs stands first, so that it takes few lines of the processor's cache.
#[repr(C, align(64))]
pub(crate) struct Edge {
    /// Arrived, then in flight, then pending.
    pub(crate) messages: RingBuffer<Message>,
    pub(crate) arrived: usize,
    pub(crate) in_flight: usize,
    /// How many were ever taken off the front, so that a message keeps its number.
    pub(crate) received: u64,
    pub(crate) credits: u32,
    pub(crate) held: u32,
    /// The process that waits for a message, and the one that waits for a credit.
    pub(crate) receiver: Option<TaskId>,
    pub(crate) sender: Option<TaskId>,
    /// The credits on their way home, and those that are home but that nobody has asked for.
    pub(crate) returning: RingBuffer<Returning>,
    /// When the last message left.
    pub(crate) last_grant: Time,
    pub(crate) credit_latency: Time,
    /// The next SIP on the way, and the number of the port toward it at the sender's SIP.
    pub(crate) port: usize,
    pub(crate) next: u32,
    /// Whether one link is the whole way, and nothing before it costs anything.
    pub(crate) direct: bool,
    /// Whether sender and receiver have the same settings.
    pub(crate) agreed: bool,
    pub(crate) retry_scheduled: bool,
    /// What the sender says its messages are about: each entry from the message of that number on.
    pub(crate) topics: VecDeque<(u64, Topic)>,
    /// Whether a credit is an event only if a message waits for it (IPC-5).
    pub(crate) lazy: bool,
    pub(crate) stats: EdgeStats,
    pub(crate) name: EdgeName,
    /// The sender's settings, which travel with its messages, and the receiver's.
    pub(crate) spec: EdgeSpec,
    pub(crate) receiver_spec: EdgeSpec,
    /// How many of those in flight are at the receiver's SIP, on their way into their slots.
    pub(crate) arriving: usize,
    pub(crate) hops: u32,
    /// What led to the last message that had to wait.
    pub(crate) last_wait: Path,
    /// Who last opened each end, by name.
    pub(crate) receiver_name: Option<String>,
    pub(crate) sender_name: Option<String>,
}

/// A credit on its way home.
#[derive(Default)]
pub(crate) struct Returning {
    /// What led to it; it is home when that ends.
    pub(crate) path: Path,
    /// The key of its event.
    pub(crate) key: Key,
}

/// Whether credits of an edge can do without events: they must have a way of their own, and senders that sleep.
fn is_lazy(name: EdgeName, spec: &EdgeSpec) -> bool {
    let sleeps = spec.backpressure == Backpressure::Sleep;
    sleeps && spec.ipcq_credit_size_bytes == 0 && name.from.sip != name.to.sip
}

/// What messages are about, in words: it travels with them, and a receiver that expects another topic has found a
/// mistake before it looks at the numbers.
pub type Topic = Rc<str>;

/// What an edge has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeStats {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) credit_wait: u64,
    pub(crate) polls: u64,
    pub(crate) most_slots: u32,
    /// The time that slots were held by the receiver's kernel, in sum: the instants at which they were freed, less those
    /// at which they were taken.
    held: i128,
}

impl EdgeStats {
    /// The time that slots were held, in sum.
    pub(crate) fn held(&self) -> u64 {
        u64::try_from(self.held.max(0)).unwrap_or(u64::MAX)
    }
}

impl Edge {
    pub(crate) fn new(name: EdgeName, spec: EdgeSpec) -> Self {
        Self {
            name,
            spec,
            receiver_spec: spec,
            agreed: true,
            messages: RingBuffer::default(),
            arrived: 0,
            in_flight: 0,
            arriving: 0,
            received: 0,
            credits: spec.n_slots,
            last_grant: Time::ZERO,
            last_wait: Path::default(),
            returning: RingBuffer::default(),
            held: 0,
            receiver: None,
            sender: None,
            receiver_name: None,
            sender_name: None,
            port: 0,
            next: name.to.sip,
            hops: 0,
            direct: false,
            credit_latency: Time::ZERO,
            retry_scheduled: false,
            topics: VecDeque::new(),
            lazy: is_lazy(name, &spec),
            stats: EdgeStats::default(),
        }
    }

    /// Sets the sender's end up anew; only while nothing is under way.
    pub(crate) fn set_sender_spec(&mut self, spec: EdgeSpec) -> Result<(), &'static str> {
        if self.pending() > 0 || self.credits != self.spec.n_slots {
            return Err("it is in use with other settings");
        }
        (self.spec, self.credits) = (spec, spec.n_slots);
        self.agreed = self.spec == self.receiver_spec;
        self.lazy = is_lazy(self.name, &spec);
        Ok(())
    }

    /// Sets the receiver's end up.
    pub(crate) fn set_receiver_spec(&mut self, spec: EdgeSpec) {
        self.receiver_spec = spec;
        self.agreed = self.spec == spec;
    }

    /// The sender's messages are about `topic` from now on.
    pub(crate) fn set_topic(&mut self, topic: Topic) {
        let next = self.posted();
        self.topics.push_back((next, topic));
    }

    /// What the sender said last.
    pub(crate) fn last_topic(&self) -> Option<&Topic> {
        self.topics.back().map(|(_, topic)| topic)
    }

    /// What the message that was taken last is about.
    pub(crate) fn topic(&mut self) -> Option<&Topic> {
        let taken = self.received - 1;
        while self.topics.get(1).is_some_and(|(first, _)| *first <= taken) {
            self.topics.pop_front();
        }
        self.topics.front().filter(|(first, _)| *first <= taken).map(|(_, topic)| topic)
    }

    /// How many messages wait for a credit.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.messages.len() - self.arrived - self.in_flight
    }

    /// The number of the next message to be posted; messages with lower numbers that are not pending have left.
    #[inline]
    pub(crate) fn posted(&self) -> u64 {
        self.received + self.messages.len() as u64
    }

    /// How many messages have taken their credit.
    #[inline]
    pub(crate) fn launched(&self) -> u64 {
        self.posted() - self.pending() as u64
    }

    /// Takes a credit for the oldest pending message, which then counts as in flight.
    #[inline]
    pub(crate) fn grant(&mut self, now: Time) -> &mut Message {
        assert!(self.credits > 0, "IPC-1: no credit on {}", self.name);
        self.credits -= 1;
        let index = self.arrived + self.in_flight;
        self.in_flight += 1;
        self.stats.most_slots = self.stats.most_slots.max(self.spec.n_slots - self.credits);
        let message = &mut self.messages[index];
        message.granted = now;
        self.stats.messages += 1;
        self.stats.bytes += message.bytes;
        let waited = (now - message.posted.max(self.last_grant)).as_ps();
        self.stats.credit_wait = self.stats.credit_wait.saturating_add(waited);
        self.last_grant = now;
        message
    }

    /// The oldest message in flight has arrived.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time) -> &mut Message {
        assert!(self.in_flight > 0, "IPC-2: nothing in flight on {}", self.name);
        self.in_flight -= 1;
        self.arrived += 1;
        let message = &mut self.messages[self.arrived - 1];
        message.arrived = now;
        message
    }

    /// The oldest arrived message.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut Message> {
        if self.arrived == 0 { None } else { Some(&mut self.messages[0]) }
    }

    /// Takes the oldest arrived message out; its slot is now held.
    #[inline]
    pub(crate) fn take(&mut self, now: Time) {
        self.arrived -= 1;
        self.received += 1;
        self.held += 1;
        self.stats.held -= i128::from(now.as_ps());
        self.messages.pop();
    }

    /// The receiver is done with a slot.
    #[inline]
    pub(crate) fn free_slot(&mut self, now: Time) {
        self.held -= 1;
        self.stats.held += i128::from(now.as_ps());
    }

    /// Whether everything that was sent has been received and every credit is home (IPC-3).
    pub(crate) fn is_home(&self) -> bool {
        self.away() == 0 && self.messages.is_empty() && self.held == 0
    }

    /// How many credits are not home when everything is over; then those on their way have come.
    pub(crate) fn away(&self) -> u32 {
        let home = u32::try_from(self.returning.len()).unwrap_or(u32::MAX);
        self.spec.n_slots - self.credits - home
    }

    /// The least number of slots that keeps the wire, or the receiver, busy if a slot takes `ser` to send and `way`
    /// to arrive.
    pub(crate) fn slots_needed(&self, ser: Time, way: Time) -> u64 {
        let consume = self.stats.held().checked_div(self.stats.messages).unwrap_or(0);
        let round_trip = ser + way + Time::ps(consume) + self.credit_latency;
        // A receiver slower than the wire sets the pace; more slots than keep it busy are of no use.
        round_trip.as_ps().div_ceil(ser.as_ps().max(consume).max(1))
    }
}

/// All edges, found by name when opened and by number afterwards.
#[derive(Default)]
pub(crate) struct Edges {
    pub(crate) list: Vec<Edge>,
    by_name: BTreeMap<EdgeName, u32>,
}

impl Edges {
    /// The number of an edge, made if it is new.
    pub(crate) fn open(&mut self, name: EdgeName, spec: EdgeSpec) -> (u32, bool) {
        if let Some(&number) = self.by_name.get(&name) {
            return (number, false);
        }
        let number = u32::try_from(self.list.len()).expect("fewer than 2^32 edges");
        self.list.push(Edge::new(name, spec));
        self.by_name.insert(name, number);
        (number, true)
    }

    /// Gives up the edges that `is_over` holds for: what is still under way on them concerns nobody any more, and whoever
    /// opens one of the same name gets a new one.
    pub(crate) fn give_up(&mut self, is_over: impl Fn(&EdgeName) -> bool) {
        self.by_name.retain(|name, _| !is_over(name));
    }

    /// Edges by name, so that reports do not depend on who opened which first.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Edge> {
        self.by_name.values().map(|number| &self.list[*number as usize])
    }
}

impl fmt::Display for EdgeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots of {}", self.n_slots, Bytes(self.slot_size))
    }
}
