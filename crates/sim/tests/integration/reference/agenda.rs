//! The work of one SIP that is still to be done, in the order in which it is done.

use super::simulator::Flight;
use phalanx_sim::Bandwidth;
use std::collections::{BTreeMap, VecDeque};

/// The order of events of one SIP and instant (SIM-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    created: u64,
    sip: u32,
    count: u64,
    /// Number of the chunk: the chunks of a message have one key.
    pub(crate) chunk: u64,
}

impl Key {
    pub(crate) fn is_created_at(&self, time: u64) -> bool {
        self.created == time
    }
}

/// Something that happens at an instant.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The host of a SIP goes on with a launch.
    Launch(usize),
    /// A program goes on; the programs of hosts come after those of PEs.
    Resume(usize),
    /// The last byte of a message is at the receiver's SIP.
    Arrive(usize),
    /// The last byte of a message is in its slot.
    Deliver(usize),
    /// A packet is at a SIP, whole.
    Hop(Packet),
    /// The head of a message is at a SIP between its ends.
    Pass(Passing),
    /// The head of a packet is at the wire into its receiver; the tail comes at the instant beside it.
    Ingress(Packet, u64),
    /// The head of a packet is at a NIC or a leaf switch; the tail comes at the instant beside it.
    Relay(Packet, u64),
    /// A credit of a queue is back at the sender.
    Credit(usize),
    /// The sender of a queue polls.
    Poll(usize),
}

/// A chunk of a message, or a credit, on its way from SIP to SIP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) load: Load,
    pub(crate) bytes: u64,
    pub(crate) ends: (u32, u32),
    /// Number of legs of its way that are behind it.
    pub(crate) legs: usize,
    /// Time on the last wire, and that wire's bandwidth.
    pub(crate) turn: u64,
    pub(crate) rate: Option<Bandwidth>,
}

/// A message whose head is at a SIP between its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    pub(crate) message: usize,
    pub(crate) at: u32,
    /// Arrival of the last byte at that SIP.
    pub(crate) tail: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A chunk of a message before the last.
    Chunk,
    /// The last chunk of a message.
    Last(usize),
    /// A credit of a queue.
    Credit(usize),
}

/// The next thing to do.
pub(crate) enum Work {
    /// The head of a flight has arrived at a wire.
    Head(Flight),
    Event(Event),
}

/// The work of one SIP.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Heads by their arrival at the next wire, then by issue.
    heads: BTreeMap<(u64, u64), Flight>,
    events: BTreeMap<(u64, Key), Event>,
    /// Effects without delay.
    ready: VecDeque<Event>,
    created: u64,
    issued: u64,
}

impl Agenda {
    /// Returns the next number in the order of issue.
    pub(crate) fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Returns a new key of this SIP.
    pub(crate) fn key(&mut self, created: u64, sip: u32) -> Key {
        self.created += 1;
        Key { created, sip, count: self.created, chunk: 0 }
    }

    pub(crate) fn add_head(&mut self, flight: Flight) {
        let before = self.heads.insert((flight.head, flight.issue), flight);
        assert!(before.is_none(), "a flight has one head");
    }

    pub(crate) fn add_event(&mut self, time: u64, key: Key, event: Event) {
        let before = self.events.insert((time, key), event);
        assert!(before.is_none(), "a key belongs to one event");
    }

    pub(crate) fn add_ready(&mut self, event: Event) {
        self.ready.push_back(event);
    }

    /// Returns the instant of the next work.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let head = self.heads.first_key_value().map(|((time, _), _)| *time);
        let event = self.events.first_key_value().map(|((time, _), _)| *time);
        head.into_iter().chain(event).min()
    }

    /// Takes the next work of the instant `now`: heads, then events, then effects without delay.
    pub(crate) fn next(&mut self, now: u64) -> Option<Work> {
        if let Some(entry) = self.heads.first_entry().filter(|entry| entry.key().0 == now) {
            return Some(Work::Head(entry.remove()));
        }
        if let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 == now) {
            return Some(Work::Event(entry.remove()));
        }
        self.ready.pop_front().map(Work::Event)
    }
}
