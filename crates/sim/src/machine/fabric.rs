//! The transport of messages: from a PE's scratch, over meshes and links, to a slot at the receiver.
//!
//! The fabric is a [`crate::executor::Device`]: it computes the arrival of a message and schedules one action for that
//! instant.
//!
//! - **FAB-1 (store and forward).** Between SIPs a message moves in chunks. A SIP forwards a chunk when the whole chunk
//!   has arrived, so that hops pipeline by chunk.
//! - **FAB-2 (cut-through).** With `forwarding: cut_through` and without a switch, a message moves in one piece. A SIP
//!   forwards the message when its head has arrived; the receiver's SIP has the message at its tail. So a way without
//!   contention costs each latency once and the transfer once. Credits are stored and forwarded in both modes.
//! - **FAB-3 (stations).** A shared NIC and a leaf switch send a packet on when its head has arrived. A device on a route that
//!   passes a switch stores and forwards by chunk, whatever `forwarding` says. A packet takes each wire for its bytes at that
//!   wire's bandwidth, and keeps its time where the bandwidth stays the same.

use super::World;
use super::exits::Exit;
use super::flights::{Delivery, Departure, Journey, Purpose};
use super::noc::{Route, Stage};
use super::packet::{Packet, PacketKind, PacketWay};
use super::sip::{Port, ingress_of};
use crate::executor::{Device, Key, Partition, Sim};
use crate::ipcq::{BufferKind, Edge, InSwitch};
use crate::record::{Gap, Op, Path, Record, Resource, Use};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::{Hop, PeId};
use crate::wire::Flight;
use std::num::NonZeroU64;

/// The kind of a scheduled action: the upper half of the payload. The lower half is the number of an edge or a packet.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Act {
    /// The last chunk of the oldest message in flight of an edge is at the receiver's SIP.
    Arrive,
    /// A message that has no way inside the receiver's SIP is in its slot.
    Deliver,
    /// A credit is back at the sender.
    Credit,
    /// A polling sender polls again.
    Retry,
    /// A packet, or its head if the packet is cut through, has arrived at the next SIP of its route, or in its slot.
    Hop,
    /// The first byte of a packet is at the receiver's switch port.
    Ingress,
    /// The first byte of a packet is at a NIC or a leaf switch.
    Relay,
    /// The first byte of a contribution to a reduction is at the receiver's switch port.
    Combine,
}

crate::portable!(enum Act {
    0 => Arrive, 1 => Deliver, 2 => Credit, 3 => Retry, 4 => Hop, 5 => Ingress, 6 => Relay, 7 => Combine,
});

/// The ports of a SIP, and its notes.
pub(super) struct PortSide<'a> {
    pub(super) number: u32,
    pub(super) ports: &'a mut [Port],
    pub(super) record: &'a mut Record,
}

/// A part of a message on a link.
struct LinkPart {
    bytes: u64,
    /// Time of its bytes on the link.
    span: Time,
    /// Arrival of its last byte at the link.
    ready: Time,
}

/// The port through which a message leaves, the latency of its link, and the message's number in the log.
#[derive(Clone, Copy)]
struct Outlet {
    port: usize,
    latency: Time,
    flow: u64,
}

fn payload(act: Act, number: u32) -> u64 {
    (act as u64) << 32 | u64::from(number)
}

/// Moves a part of a message over one link: takes the wire and logs the transfer. Returns the arrivals of the first
/// and of the last byte after the latency, and the critical path to the last.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the path stays in registers")]
fn over_link(
    side: &mut PortSide<'_>,
    Outlet { port, latency, flow }: Outlet,
    flight: &Flight,
    part: &LinkPart,
) -> (Time, Time, Path) {
    let link = &mut side.ports[port];
    let resource = Resource::Link { from: side.number, to: link.to };
    let mut path = flight.path;
    let turn = link.wire.take(flight.head, part.span, part.bytes, &mut path);
    if turn.start > path.at() {
        side.record.step_of(&mut path, turn.start, flight.slowest.for_kind(Kind::Latency));
    }
    let left = turn.end.max(part.ready);
    let is_behind = part.ready > turn.end;
    let slowest = if is_behind { flight.slowest } else { Use::new(resource, Kind::Link) };
    // An early chunk leaves before the whole message is at the port: the path of the message is not yet its path.
    if left >= path.at() {
        side.record.step_of(&mut path, left, slowest);
    }
    link.wire.leave(turn.end, &path);
    let arrival = left + latency;
    // Behind a slower stage, the latency is a step of its own: else nothing would name the link.
    if slowest.kind() != Kind::Link && arrival >= path.at() {
        side.record.step(&mut path, arrival, Kind::Link, resource);
    }
    path.advance(arrival, Gap::Link);
    side.record.op(|| Op {
        flow_out: NonZeroU64::new(flow),
        ..Op::new((turn.start, turn.end), resource, "transfer", part.bytes)
    });
    (turn.start + latency, arrival, path)
}

impl Device for World {
    #[inline]
    fn fire(&self, _: &Sim, payload: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "the two parts of a payload")]
        let (act, number) = ((payload >> 32) as u8, payload as u32);
        match act {
            x if x == Act::Arrive as u8 => self.arrive(number),
            x if x == Act::Deliver as u8 => {
                let edge = &mut self.edges.borrow_mut().list[number as usize];
                edge.arriving -= 1;
                self.arrive_in_slot(edge);
            }
            x if x == Act::Credit as u8 => self.credit(number),
            x if x == Act::Retry as u8 => self.retry(number),
            x if x == Act::Hop as u8 => self.hop(number),
            x if x == Act::Ingress as u8 => self.ingress(number),
            x if x == Act::Relay as u8 => self.relay(number),
            _ => self.combine(number),
        }
    }

    fn wake_up(&self, _: &Sim, partition: Partition, until: Time) {
        self.move_flights(partition.0, until);
    }

    #[inline]
    fn rest(&self, since: Time) {
        match self.shards.as_deref() {
            None => self.fold_if_due(since),
            Some(shards) => shards.since.set(since),
        }
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

    /// Sends a message over the link at which its head has arrived: in one piece, or in chunks (FAB-1).
    ///
    /// The chunks follow each other without a gap, and their times add up to the time of the message.
    pub(super) fn depart(&self, mut side: PortSide<'_>, flight: &Flight, departure: &Departure) {
        let exit = &mut self.exits.borrow_mut()[departure.edge as usize];
        if exit.is_one_link {
            return self.depart_whole(side, exit, flight, departure);
        }
        let Departure { edge, key, .. } = *departure;
        let Exit { hop, to, delay, efficiency, .. } = *exit;
        let (link, class) = (self.network.wire(hop.class), hop.class);
        let (rate, chunk) = (link.bandwidth, exit.chunk_of(flight.bytes));
        let cuts = chunk == 0 && self.cuts_through();
        let chunk = if chunk == 0 { flight.bytes } else { chunk };
        let (mut sent, mut moved, mut before) = (0, 0, Time::ZERO);
        loop {
            sent += chunk.min(flight.bytes - sent);
            let bytes = efficiency.stretched(sent) - moved;
            moved += bytes;
            let span = rate.time_for(moved) - before;
            before += span;
            let part = LinkPart { bytes, span, ready: flight.arrival_of(sent) };
            let outlet = Outlet { port: exit.port, latency: link.latency, flow: departure.flow };
            let (head, tail, mut path) = over_link(&mut side, outlet, flight, &part);
            let (head, tail) = (head + delay, tail + delay);
            path.advance(tail, Gap::Link);
            let is_last = sent == flight.bytes;
            let kind = if is_last { PacketKind::LastChunk } else { PacketKind::Chunk };
            let way = PacketWay { at: side.number, to };
            let packet = Packet::new(edge, bytes, way, tail, path);
            let packet = Packet { span, class, cuts, kind, ..packet };
            if exit.in_switch == InSwitch::No {
                self.send_packet(packet, hop, head, Some(key));
            } else {
                self.send_into_switch(packet, exit, departure, head);
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a message over the one link of its route, in one piece and without a packet.
    #[inline]
    fn depart_whole(
        &self,
        mut side: PortSide<'_>,
        exit: &mut Exit,
        flight: &Flight,
        departure: &Departure,
    ) {
        let link = side.ports[exit.port].link;
        let bytes = exit.efficiency.stretched(flight.bytes);
        let span = link.bandwidth.time_for(bytes);
        let part = LinkPart { bytes, span, ready: flight.tail };
        let outlet = Outlet { port: exit.port, latency: link.latency, flow: departure.flow };
        let (_, tail, mut path) = over_link(&mut side, outlet, flight, &part);
        let tail = tail + exit.delay;
        path.advance(tail, Gap::Link);
        if exit.is_abroad {
            return self.arrive_abroad(exit.to, departure, tail, path);
        }
        *exit.paths.push() = path;
        self.schedule_as(departure.key, tail, exit.to, Act::Arrive, departure.edge);
    }

    /// Moves a packet over a hop: its head arrives at `head`, its last byte at its tail, both without contention there.
    pub(super) fn send_packet(&self, packet: Packet, hop: Hop, head: Time, key: Option<Key>) {
        let mut packet = Packet { at: hop.next, ..packet };
        let (time, act) = if let Some(level) = hop.ingress {
            packet.level = level;
            let span = self.span_on(&packet, self.network.ingress_class(level));
            let combines = packet.kind == PacketKind::Contribution;
            let act = if combines { Act::Combine } else { Act::Ingress };
            (head.max(packet.tail.saturating_sub(span)), act)
        } else if self.network.is_station(hop.next) {
            (head, Act::Relay)
        } else {
            (if packet.cuts && hop.next != packet.to { head } else { packet.tail }, Act::Hop)
        };
        if self.shards.is_some() && self.send_packet_abroad(&packet, act, time, key) {
            return;
        }
        let number = self.packets.borrow_mut().insert(packet);
        match key {
            Some(key) => self.schedule_as(key, time, hop.next, act, number),
            None => self.schedule(time, hop.next, act, number),
        }
    }

    /// Returns the time of a packet on a wire of a class (FAB-3).
    fn span_on(&self, packet: &Packet, class: u16) -> Time {
        let wire = self.network.wire(class);
        let is_same = packet.is_in_switch
            || class == packet.class
            || (packet.class != Packet::NO_CLASS
                && self.network.wire(packet.class).bandwidth == wire.bandwidth);
        if is_same { packet.span } else { wire.bandwidth.time_for(packet.bytes) }
    }

    /// Takes the wire into the receiver from a switch or a NIC, cut-through: the first byte of a packet is there.
    pub(super) fn ingress(&self, number: u32) {
        let mut packets = self.packets.borrow_mut();
        let packet = packets.get(number);
        let class = self.network.ingress_class(packet.level);
        (packet.span, packet.class) = (self.span_on(packet, class), class);
        let now = self.sim.now();
        let end = {
            let sip = &mut *self.sips[packet.at as usize].borrow_mut();
            let wire = &mut sip.ingress[usize::from(packet.level)];
            let turn = wire.take(now, packet.span, packet.bytes, &mut packet.path);
            let resource = ingress_of(packet.at, packet.level.into());
            // Otherwise the link before the port is the critical path.
            if turn.end > packet.path.at() {
                sip.record.step(&mut packet.path, turn.end, Kind::Link, resource);
            }
            wire.leave(turn.end, &packet.path);
            sip.log(turn, resource, "transfer", packet.bytes);
            turn.end.max(packet.tail)
        };
        self.schedule(end, packet.at, Act::Hop, number);
    }

    /// Sends a packet whose head is at a NIC or a leaf switch on (FAB-3).
    fn relay(&self, number: u32) {
        let packet = self.packets.borrow_mut().take(number);
        self.pass_on(packet);
    }

    /// Delivers or forwards a packet that has arrived at a SIP.
    fn hop(&self, number: u32) {
        let packet = self.packets.borrow_mut().take(number);
        match packet.kind {
            PacketKind::Local | PacketKind::Remote => self.deliver(packet),
            _ if packet.at != packet.to && packet.cuts => self.pass_on(packet),
            _ if packet.at != packet.to => self.forward(packet),
            PacketKind::Chunk => {}
            PacketKind::LastChunk | PacketKind::Contribution => {
                self.set_message_path(packet);
                self.arrive(packet.edge);
            }
            PacketKind::Credit => self.credit_from_gate(packet.edge),
        }
    }

    /// Gives a message the critical path of its last chunk.
    fn set_message_path(&self, packet: Packet) {
        let edge = &mut self.edges.borrow_mut().list[packet.edge as usize];
        let index = edge.arrived + edge.arriving;
        edge.messages[index].path = packet.path;
    }

    /// Sends a packet over the next link of its route, from `packet.at`.
    pub(super) fn forward(&self, mut packet: Packet) {
        let hop = self.network.hop(packet.at, packet.to);
        (packet.span, packet.class) = (self.span_on(&packet, hop.class), hop.class);
        let latency = self.network.wire(hop.class).latency;
        let turn = {
            let sip = &mut *self.sips[packet.at as usize].borrow_mut();
            let port = sip.port(hop, &self.network);
            let path = &mut packet.path;
            let turn = sip.ports[port].wire.take(self.sim.now(), packet.span, packet.bytes, path);
            let resource = Resource::Link { from: packet.at, to: sip.ports[port].to };
            // As in `over_link`: the path of an early chunk is not yet its own.
            if turn.end >= path.at() {
                sip.record.step(path, turn.end, Kind::Link, resource);
            }
            sip.ports[port].wire.leave(turn.end, path);
            path.advance(turn.end + latency, Gap::Link);
            let (label, bytes) = (packet.label(), packet.bytes);
            sip.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
            turn
        };
        packet.tail = turn.end + latency;
        self.send_packet(packet, hop, turn.start + latency, None);
    }

    /// Sends a packet whose head is at `packet.at` over the next link of its route (FAB-2, FAB-3).
    fn pass_on(&self, mut packet: Packet) {
        let hop = self.network.hop(packet.at, packet.to);
        (packet.span, packet.class) = (self.span_on(&packet, hop.class), hop.class);
        let latency = self.network.wire(hop.class).latency;
        let sip = &mut *self.sips[packet.at as usize].borrow_mut();
        let port = sip.port(hop, &self.network);
        let link = &mut sip.ports[port];
        let resource = Resource::Link { from: packet.at, to: link.to };
        let mut path = packet.path;
        let turn = link.wire.take(self.sim.now(), packet.span, packet.bytes, &mut path);
        if turn.end > packet.tail {
            sip.record.step(&mut path, turn.end, Kind::Link, resource);
            link.wire.leave(turn.end, &path);
            path.advance(turn.end + latency, Gap::Link);
        } else {
            // The last byte does not wait for this link: its path goes on, and the link adds its latency.
            path = packet.path;
            link.wire.leave(turn.end, &path);
            sip.record.step(&mut path, packet.tail + latency, Kind::Link, resource);
        }
        let (label, bytes) = (packet.label(), packet.bytes);
        sip.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
        (packet.tail, packet.path) = (turn.end.max(packet.tail) + latency, path);
        self.send_packet(packet, hop, turn.start + latency, None);
    }

    /// Handles the arrival of a message's last byte at the receiver's SIP, or at the PE if the SIP is the same.
    #[inline]
    fn arrive(&self, number: u32) {
        {
            let edge = &mut self.edges.borrow_mut().list[number as usize];
            if edge.traits.has_paths_at_exit {
                self.take_path(edge, number);
            }
            if edge.traits.is_in_tcm {
                if self.costs.zero.receive || edge.name.from.sip == edge.name.to.sip {
                    return self.arrive_in_slot(edge);
                }
                if edge.traits.ends_at_gate {
                    return self.arrive_at_gate(edge, number);
                }
            }
        }
        self.cross_chip(number);
    }

    /// Moves a message that has no way inside the receiver's SIP into its slot: an action of its own, after the other events
    /// of the instant.
    #[inline]
    fn arrive_at_gate(&self, edge: &mut Edge, number: u32) {
        if self.sim.is_next() {
            self.sim.count_action();
            return self.arrive_in_slot(edge);
        }
        edge.arriving += 1;
        self.schedule(self.sim.now(), edge.name.to.sip, Act::Deliver, number);
    }

    /// Gives the message that has arrived over its one link its critical path.
    #[inline]
    fn take_path(&self, edge: &mut Edge, number: u32) {
        let index = edge.arrived + edge.arriving;
        if let Some(path) = self.exits.borrow_mut()[number as usize].paths.pop() {
            edge.messages[index].path = *path;
        }
    }

    /// Moves a message from the receiver's gateway to its slot: over the meshes, and into HBM for a slot in HBM.
    fn cross_chip(&self, number: u32) {
        let mut edges = self.edges.borrow_mut();
        let edge = &mut edges.list[number as usize];
        let to = edge.name.to;
        let mut route = Route::default();
        if edge.name.from.sip != to.sip {
            route = route.over_meshes(&self.spec, PeId::first(to.sip), to);
        }
        if edge.ends.receiver_spec.buffer_kind == BufferKind::Hbm {
            route = route.then(Stage::Hbm(to.cube));
        }
        let message = &edge.messages[edge.arrived + edge.arriving];
        edge.arriving += 1;
        let sip = &mut *self.sips[to.sip as usize].borrow_mut();
        let after = Use::new(Resource::PeLink(PeId::first(to.sip), 0), Kind::Mesh);
        let flight = Flight::new(message.bytes, self.sim.now(), message.path, after);
        let delivery =
            Delivery { edge: number, kind: PacketKind::Remote, key: self.sim.reserve_key() };
        let purpose = Purpose::Deliver(delivery);
        let number = sip.flights.issue(1);
        self.fly(sip, number, Journey { flight, route, purpose, label: "write" });
    }

    /// Schedules the delivery of a message whose last byte is in its slot at the tail of its flight.
    pub(super) fn deliver_at(
        &self,
        at: u32,
        record: &mut Record,
        flight: &Flight,
        delivery: Delivery,
    ) {
        let Delivery { edge, kind, key } = delivery;
        let packets = &mut *self.packets.borrow_mut();
        let way = PacketWay { at, to: at };
        let packet = Packet::new(edge, flight.bytes, way, flight.tail, flight.path);
        let number = packets.insert(Packet { kind, ..packet });
        let path = &mut packets.get(number).path;
        flight.finish_path(record, path, flight.slowest);
        if flight.tail == self.sim.now() {
            return self.schedule(flight.tail, at, Act::Hop, number);
        }
        self.schedule_as(key, flight.tail, at, Act::Hop, number);
    }

    /// Handles the arrival of a message in its slot.
    fn deliver(&self, packet: Packet) {
        let edge = &mut self.edges.borrow_mut().list[packet.edge as usize];
        if packet.kind == PacketKind::Remote {
            edge.arriving -= 1;
        }
        let index = edge.arrived;
        edge.messages[index].path = packet.path;
        self.arrive_in_slot(edge);
    }

    /// Marks the oldest message in flight as arrived and wakes its receiver.
    #[inline]
    fn arrive_in_slot(&self, edge: &mut Edge) {
        let now = self.sim.now();
        edge.arrive(now).path.advance(now, Gap::Link);
        if let Some(task) = edge.receiver.take() {
            self.sim.wake(task);
        }
    }
}
