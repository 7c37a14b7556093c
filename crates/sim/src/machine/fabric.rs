//! Messages on their way: from a PE's scratch, over meshes and links, to a slot, and credits back.
//!
//! A device in the sense of [`crate::executor::Device`]: it computes when a message will be somewhere and
//! schedules one action for that instant.
//!
//! - **FAB-1 (store and forward).** Between SIPs a message moves in chunks; each is whole at a SIP before it goes
//!   on, so that hops pipeline by chunk.

use super::{World, noc};
use crate::executor::{Device, Key, Sim};
use crate::ipcq::{Backpressure, BufferKind, Edge, EdgeName, EdgeSpec, Message, Returning};
use crate::record::{Op, Path, Resource, StallSpan};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::value::Value;
use crate::wire::{Flight, Turn};
use std::cell::Cell;
use std::num::NonZeroU64;

/// What a scheduled action is about: above the number in its payload.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Act {
    /// The last chunk of the oldest message in flight of an edge is at the receiver's SIP.
    Arrive,
    /// It is in its slot.
    Deliver,
    /// A credit is home.
    Credit,
    /// A polling sender looks again.
    Retry,
    /// A parcel (by number) is at a SIP on its way.
    Hop,
    /// The head of a parcel is at the receiver's switch port.
    Ingress,
}

fn payload(act: Act, number: u32) -> u64 {
    (act as u64) << 32 | u64::from(number)
}

/// A chunk of a message, or a credit, between two SIPs.
#[derive(Clone, Copy)]
struct Parcel {
    edge: u32,
    bytes: u64,
    /// Where it will be when its action fires.
    at: u32,
    to: u32,
    cargo: Cargo,
    /// What led to it being there.
    path: Path,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cargo {
    Chunk,
    LastChunk,
    Credit,
}

/// Parcels under way, by number.
#[derive(Default)]
pub(super) struct Parcels {
    list: Vec<Parcel>,
    free: Vec<u32>,
}

impl Parcels {
    fn insert(&mut self, parcel: Parcel) -> u32 {
        if let Some(number) = self.free.pop() {
            self.list[number as usize] = parcel;
            return number;
        }
        self.list.push(parcel);
        u32::try_from(self.list.len() - 1).expect("fewer than 2^32 parcels")
    }

    fn take(&mut self, number: u32) -> Parcel {
        self.free.push(number);
        self.list[number as usize]
    }
}

/// A message on a link, for the log.
fn transfer(turn: Turn, resource: Resource, message: &Message) -> Op {
    let Message { bytes, flow, .. } = *message;
    let op = Op::new((turn.start, turn.end), resource, "transfer", bytes);
    Op { flow_out: NonZeroU64::new(flow), ..op }
}

/// A link without credits, for the log.
fn starving(resource: Resource, from: Time, to: Time) -> StallSpan {
    StallSpan { resource, kind: Kind::Credit, from, to }
}

impl Device for World {
    #[inline]
    fn fire(&self, _: &Sim, payload: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "the two parts of a payload")]
        let (act, number) = ((payload >> 32) as u8, payload as u32);
        match act {
            x if x == Act::Arrive as u8 => self.arrive(number),
            x if x == Act::Deliver as u8 => {
                self.edges.borrow_mut().list[number as usize].arriving -= 1;
                self.deliver(number);
            }
            x if x == Act::Credit as u8 => self.credit(number),
            x if x == Act::Retry as u8 => self.retry(number),
            x if x == Act::Hop as u8 => self.hop(number),
            _ => self.ingress(number),
        }
    }
}

impl World {
    #[inline]
    fn schedule(&self, time: Time, sip: u32, act: Act, number: u32) {
        let device = self.fabric.get().expect("registered when the machine was built");
        self.sim.schedule(time, Self::partition(sip), device, payload(act, number));
    }

    #[inline]
    fn schedule_as(&self, key: Key, time: Time, sip: u32, act: Act, number: u32) {
        let device = self.fabric.get().expect("registered when the machine was built");
        self.sim.schedule_as(key, time, Self::partition(sip), device, payload(act, number));
    }

    /// Finds or makes an edge and works out its way.
    pub(crate) fn open(&self, name: EdgeName, spec: EdgeSpec) -> u32 {
        let edges = &mut *self.edges.borrow_mut();
        let (number, is_new) = edges.open(name, spec);
        if is_new {
            let edge = &mut edges.list[number as usize];
            self.find_way(edge);
        }
        number
    }

    fn find_way(&self, edge: &mut Edge) {
        let (from, to) = (edge.name.from, edge.name.to);
        let gate = |pe: PeId| PeId::first(pe.sip);
        if from.sip == to.sip {
            edge.credit_latency = noc::latency(&self.spec, to, from);
            return;
        }
        edge.next = self.network.next_hop(from.sip, to.sip);
        edge.hops = self.network.hops(from.sip, to.sip);
        let port = self.network.port(edge.next);
        edge.port = self.sips[from.sip as usize].borrow_mut().port(port);
        let links = Time::ps(self.spec.sips.link.latency.as_ps() * u64::from(edge.hops));
        let inside =
            noc::latency(&self.spec, to, gate(to)) + noc::latency(&self.spec, gate(from), from);
        edge.credit_latency = links + inside;
        edge.direct = edge.hops == 1 && self.free_way_out && !self.network.is_switched();
    }

    /// Hands a message to an edge; it leaves as soon as there is a credit for it.
    ///
    /// Says how many messages the edge will have launched when this one has left.
    #[inline]
    pub(crate) fn post(
        &self,
        number: u32,
        (bytes, value): (u64, Option<Value>),
        following: u32,
        path: &Cell<Path>,
    ) -> u64 {
        let now = self.sim.now();
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        self.take_credits(edge);
        let message = edge.messages.push();
        message.path = path.get();
        message.bytes = bytes;
        message.value = value;
        message.following = following;
        message.posted = now;
        message.path.advance(now, Kind::Dependency);
        if edge.credits > 0 && edge.pending() == 1 {
            self.launch_message(edge, number);
        } else if edge.lazy {
            self.expect_credit(edge, number);
        }
        edge.posted()
    }

    /// Takes the credits that have come home since somebody asked (IPC-5).
    #[inline]
    pub(crate) fn take_credits(&self, edge: &mut Edge) {
        // While messages wait, credits are events.
        if !edge.lazy || edge.pending() > 0 {
            return;
        }
        while !edge.returning.is_empty() {
            let Returning { path, key } = &edge.returning[0];
            if !self.sim.has_passed(path.at(), *key) {
                return;
            }
            edge.returning.pop();
            edge.credits += 1;
        }
    }

    /// One more message waits: the credit for it, if it is on its way, becomes an event.
    #[inline]
    fn expect_credit(&self, edge: &Edge, number: u32) {
        let last = edge.pending() - 1;
        if last < edge.returning.len() {
            let Returning { path, key } = &edge.returning[last];
            self.schedule_as(*key, path.at(), edge.name.from.sip, Act::Credit, number);
        }
    }

    /// Sends the oldest pending message of an edge on its way.
    #[inline]
    fn launch_message(&self, edge: &mut Edge, number: u32) {
        if edge.direct {
            return self.straight_over(edge, number);
        }
        self.launch_slowly(edge, number);
    }

    /// The common case: nothing costs anything before the link, and the link is the whole way.
    #[inline]
    fn straight_over(&self, edge: &mut Edge, number: u32) {
        let (now, link) = (self.sim.now(), &self.spec.sips.link);
        let (from, next, port, before) =
            (edge.name.from.sip, edge.next, edge.port, edge.last_grant);
        let message = edge.grant(now);
        let sip = &mut *self.sips[from as usize].borrow_mut();
        message.flow = sip.record.flow();
        let port = &mut sip.ports[port];
        let starved = port.note_starved(message.posted.max(before), now);
        let span = link.bandwidth.time_for(message.bytes);
        let turn = port.wire.take(now, span, message.bytes, &mut message.path);
        let resource = Resource::Link { from, to: next };
        if let Some(since) = starved {
            sip.record.stall(|| starving(resource, since, now));
        }
        let wire_path = port.wire.leave_with(turn.end, &message.path);
        sip.record.step(wire_path, turn.end, Kind::Link, resource);
        let arrival = turn.end + link.latency;
        message.path.follow(wire_path);
        message.path.advance(arrival, Kind::Link);
        sip.record.op(|| transfer(turn, resource, message));
        self.schedule(arrival, next, Act::Arrive, number);
    }

    /// Through the PE's DMA and the meshes, over several hops, or within the SIP.
    fn launch_slowly(&self, edge: &mut Edge, number: u32) {
        let now = self.sim.now();
        let (from, to, next, port, chunk) =
            (edge.name.from, edge.name.to, edge.next, edge.port, edge.spec.vc_chunk_size);
        let single_hop = edge.hops <= 1 && !self.network.is_switched();
        let before = edge.last_grant;
        let message = edge.grant(now);
        let sip = &mut *self.sips[from.sip as usize].borrow_mut();
        message.flow = sip.record.flow();
        let mut flight = Flight::new(message.bytes, now, message.path);
        if !self.free_way_out {
            self.leave_pe(sip, &mut flight, from, to);
        }
        if from.sip == to.sip {
            noc::pass(sip, &self.spec, &mut flight, from, to);
            message.path = flight.path;
            message.path.advance(flight.tail, Kind::Link);
            return self.schedule(flight.tail, from.sip, Act::Arrive, number);
        }
        let starved = sip.ports[port].note_starved(message.posted.max(before), now);
        if let Some(since) = starved {
            let resource = Resource::Link { from: from.sip, to: sip.ports[port].to };
            sip.record.stall(|| starving(resource, since, now));
        }
        if single_hop {
            let arrival = self.over_link(sip, from.sip, port, &mut flight, message);
            return self.schedule(arrival, next, Act::Arrive, number);
        }
        let unit = if chunk == 0 { message.bytes.max(1) } else { chunk };
        self.in_chunks(sip, number, &mut flight, message, unit, (from.sip, port, next, to.sip));
    }

    /// From the PE's scratch to its way out of the SIP, or to where the mesh toward its receiver begins.
    fn leave_pe(&self, sip: &mut super::Sip, flight: &mut Flight, from: PeId, to: PeId) {
        let dma = self.spec.dma;
        let span = dma.latency + dma.bandwidth.time_for(flight.bytes);
        let turn = sip.pe(from).store.take(flight.head, span, flight.bytes, &mut flight.path);
        sip.record.step(&mut flight.path, turn.end, Kind::Dma, Resource::Store(from));
        let bytes = flight.bytes;
        sip.pe(from).store.leave(turn.end, &flight.path);
        let span = (turn.start, turn.end);
        sip.record.op(|| Op::new(span, Resource::Store(from), "send", bytes));
        (flight.head, flight.tail) = (turn.start + dma.latency, turn.end);
        if from.sip != to.sip {
            noc::pass(sip, &self.spec, flight, from, PeId::first(from.sip));
        }
    }

    /// Over one link: takes the wire, notes it, and says when the last byte arrives.
    #[inline]
    fn over_link(
        &self,
        sip: &mut super::Sip,
        from: u32,
        port: usize,
        flight: &mut Flight,
        message: &mut Message,
    ) -> Time {
        let link = self.spec.sips.link;
        let port = &mut sip.ports[port];
        let resource = Resource::Link { from, to: port.to };
        let turn = port.wire.take(
            flight.head,
            link.bandwidth.time_for(flight.bytes),
            flight.bytes,
            &mut flight.path,
        );
        let tail = turn.end.max(flight.tail);
        let arrival = tail + link.latency;
        message.path = flight.path;
        // An early chunk leaves before the message is whole, and what led to that did not lead to the chunk.
        if tail >= message.path.at() {
            sip.record.step(&mut message.path, tail, Kind::Link, resource);
        }
        port.wire.leave(turn.end, &message.path);
        message.path.advance(arrival, Kind::Link);
        let bytes = flight.bytes;
        sip.record.op(|| Op { bytes, ..transfer(turn, resource, message) });
        arrival
    }

    /// Over several hops, or a switch: chunk by chunk (FAB-1).
    fn in_chunks(
        &self,
        sip: &mut super::Sip,
        edge: u32,
        flight: &mut Flight,
        message: &mut Message,
        unit: u64,
        (from, port, next, to): (u32, usize, u32, u32),
    ) {
        let mut left = message.bytes;
        loop {
            let bytes = left.min(unit);
            left -= bytes;
            let mut chunk = flight.part(bytes, message.bytes - left, message.bytes);
            let arrival = self.over_link(sip, from, port, &mut chunk, message);
            let cargo = if left == 0 { Cargo::LastChunk } else { Cargo::Chunk };
            let path = message.path;
            self.send_parcel(Parcel { edge, bytes, at: next, to, cargo, path }, arrival);
            if left == 0 {
                return;
            }
        }
    }

    /// Schedules a parcel's next action, given when its last byte would be at `parcel.at`.
    fn send_parcel(&self, parcel: Parcel, arrival: Time) {
        let at = parcel.at;
        let number = self.parcels.borrow_mut().insert(parcel);
        if !self.network.is_switched() {
            return self.schedule(arrival, at, Act::Hop, number);
        }
        let span = self.spec.sips.link.bandwidth.time_for(parcel.bytes);
        self.schedule(arrival.saturating_sub(span), at, Act::Ingress, number);
    }

    /// The head of a parcel is at the switch port of its receiver: takes the port, cut-through.
    fn ingress(&self, number: u32) {
        let parcel = &mut self.parcels.borrow_mut().list[number as usize];
        let span = self.spec.sips.link.bandwidth.time_for(parcel.bytes);
        let now = self.sim.now();
        let end = {
            let sip = &mut *self.sips[parcel.at as usize].borrow_mut();
            let turn = sip.ingress.take(now, span, parcel.bytes, &mut parcel.path);
            // Otherwise the link before it decides.
            if turn.end > parcel.path.at() {
                let resource = Resource::Ingress(parcel.at);
                sip.record.step(&mut parcel.path, turn.end, Kind::Link, resource);
            }
            sip.ingress.leave(turn.end, &parcel.path);
            sip.log(turn, Resource::Ingress(parcel.at), "transfer", parcel.bytes);
            turn.end
        };
        self.schedule(end, parcel.at, Act::Hop, number);
    }

    /// A parcel is whole at a SIP: at its end, or on to the next.
    fn hop(&self, number: u32) {
        let parcel = self.parcels.borrow_mut().take(number);
        if parcel.at == parcel.to {
            return match parcel.cargo {
                Cargo::Chunk => {}
                Cargo::LastChunk => {
                    self.lead_here(parcel);
                    self.arrive(parcel.edge);
                }
                Cargo::Credit => self.credit_from_gate(parcel.edge),
            };
        }
        self.forward(parcel);
    }

    /// What led to the last chunk led to the message.
    fn lead_here(&self, parcel: Parcel) {
        let edge = &mut self.edges.borrow_mut().list[parcel.edge as usize];
        let index = edge.arrived + edge.arriving;
        edge.messages[index].path = parcel.path;
    }

    /// Over the next link of a parcel's way, from `parcel.at`.
    fn forward(&self, mut parcel: Parcel) {
        let link = self.spec.sips.link;
        let next = self.network.next_hop(parcel.at, parcel.to);
        let arrival = {
            let sip = &mut *self.sips[parcel.at as usize].borrow_mut();
            let port = sip.port(self.network.port(next));
            let path = &mut parcel.path;
            let span = link.bandwidth.time_for(parcel.bytes);
            let turn = sip.ports[port].wire.take(self.sim.now(), span, parcel.bytes, path);
            let resource = Resource::Link { from: parcel.at, to: sip.ports[port].to };
            // As in `over_link`: an early chunk is ahead of what led to the whole message.
            if turn.end >= path.at() {
                sip.record.step(path, turn.end, Kind::Link, resource);
            }
            sip.ports[port].wire.leave(turn.end, path);
            path.advance(turn.end + link.latency, Kind::Link);
            let label = if parcel.cargo == Cargo::Credit { "credit" } else { "forward" };
            let bytes = parcel.bytes;
            sip.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
            turn.end + link.latency
        };
        self.send_parcel(Parcel { at: next, ..parcel }, arrival);
    }

    /// The last byte of a message is at the receiver's SIP (or PE, where both are the same).
    #[inline]
    fn arrive(&self, number: u32) {
        {
            let edge = &mut self.edges.borrow_mut().list[number as usize];
            let here = self.free_way_in || edge.name.from.sip == edge.name.to.sip;
            if here && edge.receiver_spec.buffer_kind == BufferKind::Tcm {
                return self.land(edge);
            }
        }
        self.cross_chip(number);
    }

    /// From the receiver's way in to the slot: over the meshes, and into HBM if that is where the slot is.
    fn cross_chip(&self, number: u32) {
        let mut edges = self.edges.borrow_mut();
        let edge = &mut edges.list[number as usize];
        let to = edge.name.to;
        let message = &edge.messages[edge.arrived + edge.arriving];
        edge.arriving += 1;
        let sip = &mut *self.sips[to.sip as usize].borrow_mut();
        let mut flight = Flight::new(message.bytes, self.sim.now(), message.path);
        if edge.name.from.sip != to.sip {
            noc::pass(sip, &self.spec, &mut flight, PeId::first(to.sip), to);
        }
        if edge.receiver_spec.buffer_kind == BufferKind::Hbm {
            let spec = self.spec.hbm;
            let wire = &mut sip.cubes[to.cube as usize].hbm;
            let turn = flight.pass(wire, spec.bandwidth, spec.latency, Kind::Dma);
            sip.log(turn, Resource::Hbm(PeId { pe: 0, ..to }), "write", flight.bytes);
        }
        self.schedule(flight.tail, to.sip, Act::Deliver, number);
    }

    /// A message is in its slot.
    fn deliver(&self, number: u32) {
        self.land(&mut self.edges.borrow_mut().list[number as usize]);
    }

    #[inline]
    fn land(&self, edge: &mut Edge) {
        let now = self.sim.now();
        edge.arrive(now).path.advance(now, Kind::Link);
        if let Some(task) = edge.receiver.take() {
            self.sim.wake(task);
        }
    }

    /// The receiver is done with a slot: sends the credit home.
    #[inline]
    pub(crate) fn release(&self, number: u32, path: &Path) {
        let now = self.sim.now();
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        edge.free_slot(now);
        let arrival = now + edge.credit_latency;
        let waiting = edge.pending();
        let returning = edge.returning.push();
        returning.path = *path;
        returning.path.advance(now, Kind::Dependency);
        returning.path.advance(arrival, Kind::Credit);
        if !edge.lazy {
            return self.send_credit(edge, number, arrival, path);
        }
        let key = self.sim.reserve(arrival);
        returning.key = key;
        // As many credits as messages wait are events; the others wait to be asked for.
        if edge.returning.len() <= waiting || arrival == Time::MAX {
            self.schedule_as(key, arrival, edge.name.from.sip, Act::Credit, number);
        }
    }

    /// Sends a credit home by an event, or over the links.
    fn send_credit(&self, edge: &Edge, number: u32, arrival: Time, path: &Path) {
        let (from, to) = (edge.name.from.sip, edge.name.to.sip);
        let bytes = edge.spec.ipcq_credit_size_bytes;
        if bytes == 0 || from == to {
            return self.schedule(arrival, from, Act::Credit, number);
        }
        let (cargo, path) = (Cargo::Credit, *path);
        let parcel = Parcel { edge: number, bytes, at: to, to: from, cargo, path };
        let inside = noc::latency(&self.spec, edge.name.to, PeId::first(to));
        if inside == Time::ZERO {
            return self.forward(parcel);
        }
        let parcel = self.parcels.borrow_mut().insert(parcel);
        self.schedule(self.sim.now() + inside, to, Act::Hop, parcel);
    }

    /// A credit that took a wire is at its sender's SIP: on to the PE.
    fn credit_from_gate(&self, number: u32) {
        let from = self.edges.borrow().list[number as usize].name.from;
        let inside = noc::latency(&self.spec, PeId::first(from.sip), from);
        if inside == Time::ZERO {
            return self.credit(number);
        }
        self.schedule(self.sim.now() + inside, from.sip, Act::Credit, number);
    }

    /// A credit is home.
    #[inline]
    fn credit(&self, number: u32) {
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        let now = self.sim.now();
        edge.credits += 1;
        let pending = edge.pending();
        let Returning { path, .. } = edge.returning.pop().expect("IPC-3: a credit was sent");
        if pending == 0 {
            return;
        }
        if edge.sender.is_some() {
            edge.last_wait = *path;
            edge.last_wait.advance(now, Kind::Credit);
        }
        let message = &mut edge.messages[edge.arrived + edge.in_flight];
        message.path = *path;
        message.path.advance(now, Kind::Credit);
        match edge.spec.backpressure {
            Backpressure::Sleep => self.resume_sender(edge, number),
            Backpressure::Poll(period) => self.poll_again(edge, number, period),
        }
    }

    /// Sends the message that waited for a credit, and lets its sender know.
    #[inline]
    fn resume_sender(&self, edge: &mut Edge, number: u32) {
        self.launch_message(edge, number);
        if let Some(task) = edge.sender.take() {
            self.sim.wake(task);
        }
    }

    /// The next time at which a polling sender looks: a whole number of periods after it was refused.
    fn poll_again(&self, edge: &mut Edge, number: u32, period: Time) {
        let refused = edge.messages[edge.arrived + edge.in_flight].posted;
        let waited = self.sim.now() - refused;
        let polls = waited.as_ps().div_ceil(period.as_ps().max(1)).max(1);
        let look = refused + Time::ps(polls * period.as_ps());
        if !edge.retry_scheduled {
            edge.retry_scheduled = true;
            edge.stats.polls += polls;
            self.schedule(look, edge.name.from.sip, Act::Retry, number);
        }
    }

    fn retry(&self, number: u32) {
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        edge.retry_scheduled = false;
        let now = self.sim.now();
        while edge.credits > 0 && edge.pending() > 0 {
            let index = edge.arrived + edge.in_flight;
            edge.messages[index].path.advance(now, Kind::Credit);
            self.resume_sender(edge, number);
        }
    }
}
