//! The machine of one shard, and the parcels that it exchanges with other shards.
//!
//! A shard has all nodes of the machine, and uses its own alone: a block of SIPs, and some of the stations. An edge
//! between shards has two halves. The sender's half has the pending messages and the credits; the receiver's half has
//! the messages in flight and the arrived ones. A message moves from one half to the other when it takes its credit.
//!
//! - **SHD-1 (by value).** A crossing is plain data with the time and the key of its event, so that the order of events
//!   does not depend on the number of shards (SIM-2).
//! - **SHD-2 (own alone).** A shard changes the state of its own nodes alone (PAR-1).
//! - **SHD-3 (gathered).** Shard 0 reports for all. An error of a run is the same on every shard.

mod end;
mod notes;

pub(crate) use notes::SipNotes;

use super::World;
use super::fabric::Act;
use super::flights::Departure;
use super::packet::Packet;
use crate::exchange::{Exchange, Notes, Parcel, Standing};
use crate::executor::{Key, Peers};
use crate::ipcq::{Edge, EdgeName, EdgeSpec, Message, Returning};
use crate::portable::{Portable, from_bytes, to_bytes};
use crate::record::Path;
use crate::time::Time;
use crate::topology::PeId;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Something that crosses to another shard. Edges have the numbers of the shard that sends it.
pub(crate) enum Crossing {
    /// An edge that the shard will name by its number.
    Edge { number: u32, name: EdgeName, spec: EdgeSpec },
    /// One end of an edge was opened.
    End { edge: u32, end: Box<EdgeEnd> },
    /// A message has taken its credit. It arrives by itself, or by a later crossing.
    Message { edge: u32, message: Message, topic: Option<Arc<str>>, arrival: Option<(Time, Key)> },
    /// A message is at the receiver's SIP, over the one link of its route.
    Arrival { edge: u32, time: Time, key: Key, path: Path },
    /// A slot is free, and its credit is on its way.
    Credit { edge: u32, path: Path, key: Key, home: Home },
    /// A packet that goes on by an action.
    Packet { act: Act, time: Time, key: Key, packet: Packet },
}

impl Crossing {
    /// Returns the crossing of the image: every SIP is replaced by its image.
    pub(crate) fn moved(self, image: impl Fn(u32) -> u32) -> Self {
        let pe = |pe: PeId| PeId { sip: image(pe.sip), ..pe };
        let moved = |key: Key| key.moved(&image);
        match self {
            Self::Edge { number, name, spec } => {
                let name = EdgeName { from: pe(name.from), to: pe(name.to), ..name };
                Self::Edge { number, name, spec }
            }
            Self::End { edge, end } => Self::End { edge, end },
            Self::Message { edge, message, topic, arrival } => {
                let arrival = arrival.map(|(time, key)| (time, moved(key)));
                Self::Message { edge, message, topic, arrival }
            }
            Self::Arrival { edge, time, key, path } => {
                Self::Arrival { edge, time, key: moved(key), path }
            }
            Self::Credit { edge, path, key, home } => {
                Self::Credit { edge, path, key: moved(key), home }
            }
            Self::Packet { act, time, key, packet } => {
                let packet = Packet { at: image(packet.at), to: image(packet.to), ..packet };
                Self::Packet { act, time, key: moved(key), packet }
            }
        }
    }
}

crate::portable!(enum Crossing {
    0 => Edge { number, name, spec },
    1 => End { edge, end },
    2 => Message { edge, message, topic, arrival },
    3 => Arrival { edge, time, key, path },
    4 => Credit { edge, path, key, home },
    5 => Packet { act, time, key, packet },
});

/// The settings of one end of an edge, and the process that has opened it.
#[derive(Clone, PartialEq)]
pub(crate) struct EdgeEnd {
    is_sender: bool,
    spec: EdgeSpec,
    process: Option<String>,
}

crate::portable!(struct EdgeEnd { is_sender, spec, process });

/// The way of a credit back to the sender.
#[derive(Clone, Copy)]
pub(crate) enum Home {
    /// As an event if a message waits for it (IPC-5).
    Lazily(Time),
    /// As an event.
    At(Time),
    /// In a packet.
    Packed,
}

impl Home {
    /// Returns the arrival at the sender; zero if a packet knows it.
    fn arrival(self) -> Time {
        match self {
            Self::Lazily(time) | Self::At(time) => time,
            Self::Packed => Time::ZERO,
        }
    }
}

crate::portable!(enum Home { 0 => Lazily(time), 1 => At(time), 2 => Packed });

/// The part of a run that this machine has.
pub(crate) struct Shards {
    exchange: Arc<dyn Exchange>,
    own: usize,
    /// The shard of each node.
    owners: Box<[u16]>,
    /// Outgoing parcels by receiving shard, and incoming parcels by sending shard.
    out: RefCell<Vec<Vec<Parcel>>>,
    into: RefCell<Vec<Vec<Parcel>>>,
    /// The own number of each edge, by the shard and the number that it has there.
    known: RefCell<Vec<Vec<u32>>>,
    /// Time of the first event that leaves, and of the first credit that leaves and may be an event.
    due: Cell<Time>,
    unsure: Cell<Time>,
    /// Start of the last window.
    pub(super) since: Cell<Time>,
}

impl Shards {
    /// Returns the part of a machine of `devices` SIPs and `nodes` nodes that a shard has.
    pub(super) fn new(exchange: &Arc<dyn Exchange>, devices: u32, nodes: u32) -> Self {
        let shards = exchange.shards();
        let share = |index: u32, all: u32| {
            let shard = u64::from(index) * shards as u64 / u64::from(all.max(1));
            u16::try_from(shard).expect("fewer than 2^16 shards")
        };
        let owner = |node: u32| match node.checked_sub(devices) {
            None => share(node, devices),
            Some(station) => share(station, nodes - devices),
        };
        let lists = || (0..shards).map(|_| Vec::new()).collect();
        Self {
            exchange: exchange.clone(),
            own: exchange.shard(),
            owners: (0..nodes).map(owner).collect(),
            out: RefCell::new(lists()),
            into: RefCell::new(lists()),
            known: RefCell::new((0..shards).map(|_| Vec::new()).collect()),
            due: Cell::new(Time::MAX),
            unsure: Cell::new(Time::MAX),
            since: Cell::new(Time::ZERO),
        }
    }

    #[inline]
    pub(super) fn owns(&self, node: u32) -> bool {
        usize::from(self.owners[node as usize]) == self.own
    }

    pub(super) fn is_first(&self) -> bool {
        self.own == 0
    }

    /// Forgets what is on its way, and the numbers of edges.
    pub(super) fn clear(&self) {
        self.out.borrow_mut().iter_mut().for_each(Vec::clear);
        self.into.borrow_mut().iter_mut().for_each(Vec::clear);
        self.known.borrow_mut().iter_mut().for_each(Vec::clear);
        self.due.set(Time::MAX);
        self.unsure.set(Time::MAX);
    }

    fn send(&self, node: u32, crossing: Crossing) {
        let shard = usize::from(self.owners[node as usize]);
        self.out.borrow_mut()[shard].push(Parcel(crossing));
    }

    /// Notes the time of an event that leaves.
    fn expect(&self, time: Time) {
        self.due.set(self.due.get().min(time));
    }

    /// Tells all other shards the number of an edge.
    fn introduce(&self, number: u32, edge: &Edge) {
        let (name, spec) = (edge.name, edge.spec);
        let is_mirror = self.exchange.is_mirror();
        let ends = [name.from.sip, name.to.sip].map(|sip| usize::from(self.owners[sip as usize]));
        for (shard, out) in self.out.borrow_mut().iter_mut().enumerate() {
            // The images of a mirror have no other edges than those of the two ends.
            if shard != self.own && (!is_mirror || ends.contains(&shard)) {
                out.push(Parcel(Crossing::Edge { number, name, spec }));
            }
        }
    }

    fn meet(&self, own: Standing) -> Standing {
        self.exchange.meet(own, &mut self.out.borrow_mut(), &mut self.into.borrow_mut())
    }

    /// Gathers one value of each shard, by their numbers.
    pub(crate) fn gather<T: Portable + Any + Send + Sync>(&self, own: T) -> Vec<Arc<T>> {
        gather(&*self.exchange, own)
    }

    /// Gathers one value of each shard in shard 0, by their numbers; others may get nothing.
    fn gather_first<T: Portable + Any + Send + Sync>(&self, own: T) -> Vec<Arc<T>> {
        let exchange = &*self.exchange;
        read_notes(exchange, exchange.gather_first(write_notes(exchange, own)))
    }
}

/// Gathers one value of each shard, by their numbers.
pub(crate) fn gather<T: Portable + Any + Send + Sync>(
    exchange: &dyn Exchange,
    own: T,
) -> Vec<Arc<T>> {
    read_notes(exchange, exchange.gather(write_notes(exchange, own)))
}

/// Returns a value as notes: as it is, or as bytes if they leave the process.
fn write_notes<T: Portable + Any + Send + Sync>(exchange: &dyn Exchange, own: T) -> Notes {
    if exchange.takes_bytes() { Arc::new(to_bytes(&own)) } else { Arc::new(own) }
}

fn read_notes<T: Portable + Any + Send + Sync>(
    exchange: &dyn Exchange,
    notes: Vec<Notes>,
) -> Vec<Arc<T>> {
    let read = |(shard, notes): (usize, Notes)| {
        if !exchange.takes_bytes() {
            return notes.downcast().expect("XCH-1: every shard makes the same calls");
        }
        let bytes: Arc<Vec<u8>> = notes.downcast().expect("XCH-3: bytes");
        let value = from_bytes(&bytes);
        Arc::new(value.unwrap_or_else(|error| panic!("notes of shard {shard}: {error}")))
    };
    notes.into_iter().enumerate().map(read).collect()
}

impl Peers for World {
    fn meet(&self, own: &dyn Fn() -> Standing) -> Standing {
        let shards = self.shards.as_deref().expect("only shards meet");
        let mine = || Standing { steps: self.room.taken() as u64, ..own() };
        let first = mine();
        let due = first.due.min(shards.due.replace(Time::MAX).as_ps());
        let unsure = shards.unsure.replace(Time::MAX).as_ps();
        let mut all = shards.meet(Standing { due, unsure, ..first });
        self.take_parcels(shards);
        if all.unsure < all.due {
            all = shards.meet(mine());
            self.take_parcels(shards);
        }
        if all.steps >= self.room.limit() as u64 {
            self.fold_together(shards);
        }
        all
    }
}

impl World {
    /// True for the nodes of this shard: for all nodes of a run without shards.
    #[inline]
    pub(crate) fn owns(&self, node: u32) -> bool {
        self.shards.as_deref().is_none_or(|shards| shards.owns(node))
    }

    /// Sets what a new edge has to know of other shards.
    #[inline]
    pub(super) fn set_shards(&self, edge: &mut Edge, number: u32) {
        if let Some(shards) = self.shards.as_deref() {
            let EdgeName { from, to, .. } = edge.name;
            edge.traits.is_abroad = !shards.owns(from.sip) || !shards.owns(to.sip);
            if from.sip != to.sip && (edge.traits.is_abroad || !edge.is_one_link()) {
                shards.introduce(number, edge);
            }
        }
    }

    /// Tells the other end of an edge that an end was opened.
    pub(crate) fn tell_other_end(&self, edge: &Edge, number: u32, is_sender: bool) {
        let Some(shards) = self.shards.as_deref().filter(|_| edge.traits.is_abroad) else { return };
        let (spec, process, other) = if is_sender {
            (edge.spec, edge.ends.sender_name.clone(), edge.name.to)
        } else {
            (edge.ends.receiver_spec, edge.ends.receiver_name.clone(), edge.name.from)
        };
        let end = Box::new(EdgeEnd { is_sender, spec, process });
        shards.send(other.sip, Crossing::End { edge: number, end });
    }

    /// Moves the message that has taken its credit to the receiver's shard; it arrives at `arrival`, if that is known.
    #[cold]
    #[inline(never)]
    pub(super) fn send_abroad(&self, edge: &mut Edge, number: u32, arrival: Option<Time>) {
        let Some(shards) = self.shards.as_deref() else { return };
        if arrival == Some(Time::MAX) {
            return self.sim.overflow();
        }
        let topic = edge.topic_of_departing();
        let to = edge.name.to.sip;
        let arrival = arrival.map(|time| (time, self.sim.reserve_key()));
        if let Some((time, _)) = arrival {
            shards.expect(time);
        }
        let message = edge.hand_over();
        shards.send(to, Crossing::Message { edge: number, message, topic, arrival });
    }

    /// Lets a message arrive at the SIP of another shard.
    #[cold]
    #[inline(never)]
    pub(super) fn arrive_abroad(&self, to: u32, departure: &Departure, time: Time, path: Path) {
        let Some(shards) = self.shards.as_deref() else { return };
        if time == Time::MAX {
            return self.sim.overflow();
        }
        shards.expect(time);
        let Departure { edge, key, .. } = *departure;
        shards.send(to, Crossing::Arrival { edge, time, key, path });
    }

    /// Sends a packet to a node of another shard; false if this shard has the node.
    #[cold]
    #[inline(never)]
    pub(super) fn send_packet_abroad(
        &self,
        packet: &Packet,
        act: Act,
        time: Time,
        key: Option<Key>,
    ) -> bool {
        let Some(shards) = self.shards.as_deref().filter(|shards| !shards.owns(packet.at)) else {
            return false;
        };
        let packet = *packet;
        if time == Time::MAX {
            self.sim.overflow();
            return true;
        }
        shards.expect(time);
        let key = key.unwrap_or_else(|| self.sim.reserve_key());
        shards.send(packet.at, Crossing::Packet { act, time, key, packet });
        true
    }

    /// Sends the credit of a slot home to another shard, by `path`.
    #[cold]
    #[inline(never)]
    pub(super) fn credit_abroad(&self, edge: &Edge, number: u32, path: Path, home: Home) {
        let Some(shards) = self.shards.as_deref() else { return };
        let key = match home {
            Home::Lazily(time) => self.sim.reserve(time),
            Home::At(_) => self.sim.reserve_key(),
            Home::Packed => Key::default(),
        };
        match home {
            Home::Lazily(Time::MAX) | Home::At(Time::MAX) => return self.sim.overflow(),
            Home::Lazily(time) => shards.unsure.set(shards.unsure.get().min(time)),
            Home::At(time) => shards.expect(time),
            Home::Packed => {}
        }
        shards.send(edge.name.from.sip, Crossing::Credit { edge: number, path, key, home });
    }

    /// Takes what has come from other shards.
    fn take_parcels(&self, shards: &Shards) {
        let count = shards.into.borrow().len();
        for shard in 0..count {
            let mut parcels = std::mem::take(&mut shards.into.borrow_mut()[shard]);
            for Parcel(crossing) in parcels.drain(..) {
                self.take_crossing(shards, shard, crossing);
            }
            shards.into.borrow_mut()[shard] = parcels;
        }
    }

    fn take_crossing(&self, shards: &Shards, from: usize, crossing: Crossing) {
        let own = |edge: u32| shards.known.borrow()[from][edge as usize];
        match crossing {
            Crossing::Edge { number, name, spec } => {
                let own = self.open(name, spec);
                let known = &mut shards.known.borrow_mut()[from];
                if known.len() <= number as usize {
                    known.resize(number as usize + 1, u32::MAX);
                }
                known[number as usize] = own;
            }
            Crossing::End { edge, end } => self.take_end(own(edge), *end),
            Crossing::Message { edge, message, topic, arrival } => {
                let number = own(edge);
                let edge = &mut self.edges.borrow_mut().list[number as usize];
                let to = edge.name.to.sip;
                edge.take_over(message, topic.map(|topic| Rc::from(&*topic)));
                if let Some((time, key)) = arrival {
                    self.receive(key, time, to, Act::Arrive, number);
                }
            }
            Crossing::Arrival { edge, time, key, path } => {
                let number = own(edge);
                *self.exits.borrow_mut()[number as usize].paths.push() = path;
                let to = self.edges.borrow().list[number as usize].name.to.sip;
                self.receive(key, time, to, Act::Arrive, number);
            }
            Crossing::Credit { edge, path, key, home } => {
                let arrival = home.arrival();
                self.take_credit(own(edge), Returning { path, arrival, key }, home);
            }
            Crossing::Packet { act, time, key, packet } => {
                let packet = Packet { edge: own(packet.edge), ..packet };
                let (at, number) = (packet.at, self.packets.borrow_mut().insert(packet));
                self.receive(key, time, at, act, number);
            }
        }
    }

    fn take_end(&self, number: u32, end: EdgeEnd) {
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        if end.is_sender {
            edge.learn_sender_spec(end.spec);
            edge.ends.sender_name = end.process;
            self.set_exit(edge, number);
        } else {
            edge.set_receiver_spec(end.spec);
            edge.ends.receiver_name = end.process;
        }
    }

    fn take_credit(&self, number: u32, credit: Returning, home: Home) {
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        let key = credit.key;
        *edge.returning.push() = credit;
        let is_wanted = edge.returning.len() <= edge.pending();
        match home {
            Home::Lazily(time) if is_wanted => {
                self.receive(key, time, edge.name.from.sip, Act::Credit, number);
            }
            Home::At(time) => self.receive(key, time, edge.name.from.sip, Act::Credit, number),
            Home::Lazily(_) | Home::Packed => {}
        }
    }

    /// Schedules an event that another shard has created.
    fn receive(&self, key: Key, time: Time, node: u32, act: Act, number: u32) {
        self.sim.check_arrival(time, Self::partition(node));
        self.schedule_as(key, time, node, act, number);
    }
}
