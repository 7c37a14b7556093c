//! The transport of messages: from a PE's scratch, over meshes and links, to a slot at the receiver.
//!
//! The fabric is a [`crate::executor::Device`]: it computes the arrival of a message and schedules one action for that
//! instant.
//!
//! - **FAB-1 (store and forward).** Between SIPs a message moves in chunks. A SIP forwards a chunk when the whole chunk
//!   has arrived, so that hops pipeline by chunk.

use super::{World, noc};
use crate::executor::{Device, Key, Sim};
use crate::ipcq::{BufferKind, Edge, EdgeName, EdgeSpec, Message, MessageBody};
use crate::record::{Op, Path, Resource, StallSpan};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, Turn};
use std::cell::Cell;
use std::num::NonZeroU64;

/// The kind of a scheduled action: the upper half of the payload. The lower half is the number of an edge or a packet.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Act {
    /// The last chunk of the oldest message in flight of an edge is at the receiver's SIP.
    Arrive,
    /// The message is in its slot.
    Deliver,
    /// A credit is back at the sender.
    Credit,
    /// A polling sender polls again.
    Retry,
    /// A packet has arrived at the next SIP of its route.
    Hop,
    /// The first byte of a packet is at the receiver's switch port.
    Ingress,
}

/// The first link of a message's route between SIPs.
struct Departure {
    edge: u32,
    /// The port of the sender's SIP.
    port: usize,
    /// The SIP at the other end of the link.
    next: u32,
    /// The receiver's SIP.
    to: u32,
}

fn payload(act: Act, number: u32) -> u64 {
    (act as u64) << 32 | u64::from(number)
}

/// A chunk of a message, or a credit, between two SIPs.
#[derive(Clone, Copy)]
pub(super) struct Packet {
    pub(super) edge: u32,
    pub(super) bytes: u64,
    /// The SIP at which the packet is when its action fires.
    pub(super) at: u32,
    pub(super) to: u32,
    pub(super) kind: PacketKind,
    /// The critical path to that instant.
    pub(super) path: Path,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketKind {
    Chunk,
    LastChunk,
    Credit,
}

/// The packets in flight, by number.
#[derive(Default)]
pub(super) struct Packets {
    list: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    pub(super) fn insert(&mut self, packet: Packet) -> u32 {
        if let Some(number) = self.free.pop() {
            self.list[number as usize] = packet;
            return number;
        }
        self.list.push(packet);
        u32::try_from(self.list.len() - 1).expect("fewer than 2^32 packets")
    }

    /// Returns the path of every packet, also of packets that have arrived.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.list.iter().map(|packet| &packet.path)
    }

    fn take(&mut self, number: u32) -> Packet {
        self.free.push(number);
        self.list[number as usize]
    }
}

/// Returns the log entry of a message on a link.
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

    #[inline]
    fn rest(&self, since: Time) {
        self.fold_if_due(since);
    }
}

impl World {
    #[inline]
    pub(super) fn schedule(&self, time: Time, sip: u32, act: Act, number: u32) {
        let device = self.fabric.get().expect("registered when the machine was built");
        self.sim.schedule(time, Self::partition(sip), device, payload(act, number));
    }

    #[inline]
    pub(super) fn schedule_as(&self, key: Key, time: Time, sip: u32, act: Act, number: u32) {
        let device = self.fabric.get().expect("registered when the machine was built");
        self.sim.schedule_as(key, time, Self::partition(sip), device, payload(act, number));
    }

    /// Finds or creates an edge; a new edge gets its route.
    pub(crate) fn open(&self, name: EdgeName, spec: EdgeSpec) -> u32 {
        let edges = &mut *self.edges.borrow_mut();
        let (number, is_new) = edges.open(name, spec);
        if is_new {
            let edge = &mut edges.list[number as usize];
            self.set_route(edge);
        }
        number
    }

    fn set_route(&self, edge: &mut Edge) {
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
        edge.direct = edge.hops == 1 && self.zero_cost.send && !self.network.is_switched();
    }

    /// Posts one slot of a message to an edge, with `following` slots after it; it leaves as soon as there is a credit.
    ///
    /// Returns the number of messages the edge has launched once this message has left.
    #[inline]
    pub(crate) fn post(
        &self,
        number: u32,
        body: MessageBody,
        following: u32,
        path: &Cell<Path>,
    ) -> u64 {
        let now = self.sim.now();
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        self.take_credits(edge);
        let message = edge.messages.push();
        message.path = path.get();
        message.bytes = body.bytes;
        message.value = body.value;
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

    /// Launches the oldest pending message of an edge.
    #[inline]
    pub(super) fn launch_message(&self, edge: &mut Edge, number: u32) {
        if edge.direct {
            return self.launch_direct(edge, number);
        }
        self.launch_routed(edge, number);
    }

    /// Launches a message in the common case: one link is the whole route, and nothing before the link takes time.
    #[inline]
    fn launch_direct(&self, edge: &mut Edge, number: u32) {
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

    /// Launches a message through the PE's DMA and the meshes, over several hops, or within the SIP.
    fn launch_routed(&self, edge: &mut Edge, number: u32) {
        let now = self.sim.now();
        let (from, to, chunk) = (edge.name.from, edge.name.to, edge.spec.vc_chunk_size);
        let departure = Departure { edge: number, port: edge.port, next: edge.next, to: to.sip };
        let single_hop = edge.hops <= 1 && !self.network.is_switched();
        let before = edge.last_grant;
        let message = edge.grant(now);
        let sip = &mut *self.sips[from.sip as usize].borrow_mut();
        message.flow = sip.record.flow();
        let mut flight = Flight::new(message.bytes, now, message.path);
        if !self.zero_cost.send {
            self.leave_pe(sip, &mut flight, from, to);
        }
        if from.sip == to.sip {
            noc::pass(sip, &self.spec, &mut flight, from, to);
            message.path = flight.path;
            message.path.advance(flight.tail, Kind::Link);
            return self.schedule(flight.tail, from.sip, Act::Arrive, number);
        }
        let starved = sip.ports[departure.port].note_starved(message.posted.max(before), now);
        if let Some(since) = starved {
            let resource = Resource::Link { from: from.sip, to: sip.ports[departure.port].to };
            sip.record.stall(|| starving(resource, since, now));
        }
        if single_hop {
            let arrival = self.over_link(sip, departure.port, &mut flight, message);
            return self.schedule(arrival, departure.next, Act::Arrive, number);
        }
        let chunk = if chunk == 0 { message.bytes.max(1) } else { chunk };
        self.in_chunks(sip, &departure, &flight, message, chunk);
    }

    /// Moves a message from the PE's scratch to the SIP's gateway, or to the start of the mesh toward its receiver.
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

    /// Moves a flight over one link: takes the wire, logs the transfer and returns the arrival of the last byte.
    #[inline]
    fn over_link(
        &self,
        sip: &mut super::Sip,
        port: usize,
        flight: &mut Flight,
        message: &mut Message,
    ) -> Time {
        let link = self.spec.sips.link;
        let port = &mut sip.ports[port];
        let resource = Resource::Link { from: sip.number, to: port.to };
        let turn = port.wire.take(
            flight.head,
            link.bandwidth.time_for(flight.bytes),
            flight.bytes,
            &mut flight.path,
        );
        let tail = turn.end.max(flight.tail);
        let arrival = tail + link.latency;
        message.path = flight.path;
        // An early chunk leaves before the whole message is at the port: the path of the message is not yet its path.
        if tail >= message.path.at() {
            sip.record.step(&mut message.path, tail, Kind::Link, resource);
        }
        port.wire.leave(turn.end, &message.path);
        message.path.advance(arrival, Kind::Link);
        let bytes = flight.bytes;
        sip.record.op(|| Op { bytes, ..transfer(turn, resource, message) });
        arrival
    }

    /// Sends a message over several hops, or through a switch, in chunks of `chunk` bytes (FAB-1).
    fn in_chunks(
        &self,
        sip: &mut super::Sip,
        departure: &Departure,
        flight: &Flight,
        message: &mut Message,
        chunk: u64,
    ) {
        let &Departure { edge, port, next, to } = departure;
        let mut left = message.bytes;
        loop {
            let bytes = left.min(chunk);
            left -= bytes;
            let mut part = flight.part(bytes, message.bytes - left, message.bytes);
            let arrival = self.over_link(sip, port, &mut part, message);
            let kind = if left == 0 { PacketKind::LastChunk } else { PacketKind::Chunk };
            let path = message.path;
            self.send_packet(Packet { edge, bytes, at: next, to, kind, path }, arrival);
            if left == 0 {
                return;
            }
        }
    }

    /// Schedules a packet's next action; `arrival` is the arrival of its last byte at `packet.at` without contention.
    fn send_packet(&self, packet: Packet, arrival: Time) {
        let at = packet.at;
        let number = self.packets.borrow_mut().insert(packet);
        if !self.network.is_switched() {
            return self.schedule(arrival, at, Act::Hop, number);
        }
        let span = self.spec.sips.link.bandwidth.time_for(packet.bytes);
        self.schedule(arrival.saturating_sub(span), at, Act::Ingress, number);
    }

    /// Takes the switch port of the receiver, cut-through: the first byte of a packet is there.
    fn ingress(&self, number: u32) {
        let packet = &mut self.packets.borrow_mut().list[number as usize];
        let span = self.spec.sips.link.bandwidth.time_for(packet.bytes);
        let now = self.sim.now();
        let end = {
            let sip = &mut *self.sips[packet.at as usize].borrow_mut();
            let turn = sip.ingress.take(now, span, packet.bytes, &mut packet.path);
            // Otherwise the link before the port is the critical path.
            if turn.end > packet.path.at() {
                let resource = Resource::Ingress(packet.at);
                sip.record.step(&mut packet.path, turn.end, Kind::Link, resource);
            }
            sip.ingress.leave(turn.end, &packet.path);
            sip.log(turn, Resource::Ingress(packet.at), "transfer", packet.bytes);
            turn.end
        };
        self.schedule(end, packet.at, Act::Hop, number);
    }

    /// Delivers or forwards a packet that has arrived at a SIP.
    fn hop(&self, number: u32) {
        let packet = self.packets.borrow_mut().take(number);
        if packet.at == packet.to {
            return match packet.kind {
                PacketKind::Chunk => {}
                PacketKind::LastChunk => {
                    self.set_message_path(packet);
                    self.arrive(packet.edge);
                }
                PacketKind::Credit => self.credit_from_gate(packet.edge),
            };
        }
        self.forward(packet);
    }

    /// Gives a message the critical path of its last chunk.
    fn set_message_path(&self, packet: Packet) {
        let edge = &mut self.edges.borrow_mut().list[packet.edge as usize];
        let index = edge.arrived + edge.arriving;
        edge.messages[index].path = packet.path;
    }

    /// Sends a packet over the next link of its route, from `packet.at`.
    pub(super) fn forward(&self, mut packet: Packet) {
        let link = self.spec.sips.link;
        let next = self.network.next_hop(packet.at, packet.to);
        let arrival = {
            let sip = &mut *self.sips[packet.at as usize].borrow_mut();
            let port = sip.port(self.network.port(next));
            let path = &mut packet.path;
            let span = link.bandwidth.time_for(packet.bytes);
            let turn = sip.ports[port].wire.take(self.sim.now(), span, packet.bytes, path);
            let resource = Resource::Link { from: packet.at, to: sip.ports[port].to };
            // As in `over_link`: the path of an early chunk is not yet its own.
            if turn.end >= path.at() {
                sip.record.step(path, turn.end, Kind::Link, resource);
            }
            sip.ports[port].wire.leave(turn.end, path);
            path.advance(turn.end + link.latency, Kind::Link);
            let label = if packet.kind == PacketKind::Credit { "credit" } else { "forward" };
            let bytes = packet.bytes;
            sip.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
            turn.end + link.latency
        };
        self.send_packet(Packet { at: next, ..packet }, arrival);
    }

    /// Handles the arrival of a message's last byte at the receiver's SIP, or at the PE if the SIP is the same.
    #[inline]
    fn arrive(&self, number: u32) {
        {
            let edge = &mut self.edges.borrow_mut().list[number as usize];
            let here = self.zero_cost.receive || edge.name.from.sip == edge.name.to.sip;
            if here && edge.receiver_spec.buffer_kind == BufferKind::Tcm {
                return self.arrive_in_slot(edge);
            }
        }
        self.cross_chip(number);
    }

    /// Moves a message from the receiver's gateway to its slot: over the meshes, and into HBM for a slot in HBM.
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

    /// Handles the arrival of a message in its slot.
    fn deliver(&self, number: u32) {
        self.arrive_in_slot(&mut self.edges.borrow_mut().list[number as usize]);
    }

    /// Marks the oldest message in flight as arrived and wakes its receiver.
    #[inline]
    fn arrive_in_slot(&self, edge: &mut Edge) {
        let now = self.sim.now();
        edge.arrive(now).path.advance(now, Kind::Link);
        if let Some(task) = edge.receiver.take() {
            self.sim.wake(task);
        }
    }
}
