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
use super::channel::Ask;
use super::exits::Exit;
use super::flights::{Delivery, Departure, Journey, Purpose};
use super::noc::{self, Route, Stage};
use super::packet::{Packet, PacketKind};
use super::sip::{Port, Sip, ingress_of};
use crate::executor::{Device, Key, Partition, Sim};
use crate::ipcq::{BufferKind, Edge, EdgeName, EdgeSpec, InSwitch, Message, MessageBody};
use crate::record::{Gap, Op, Path, Record, Resource, StallSpan, Use};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::{Hop, PeId};
use crate::wire::Flight;
use std::cell::Cell;
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

/// A message to a PE of the same SIP.
struct LocalMessage {
    edge: u32,
    from: PeId,
    to: PeId,
    /// True if its slot is in HBM.
    in_hbm: bool,
    bytes: u64,
}

/// A message that a PE's store channel sends, and what its arrival means.
struct Outgoing {
    bytes: u64,
    route: Route,
    purpose: Purpose,
}

fn payload(act: Act, number: u32) -> u64 {
    (act as u64) << 32 | u64::from(number)
}

/// A link without credits, for the log.
fn starving(resource: Resource, from: Time, to: Time) -> StallSpan {
    StallSpan { resource, kind: Kind::Credit, from, to }
}

/// The stage before the first wire of a message: the DMA of its PE.
fn leaving(pe: PeId) -> Use {
    Use::new(Resource::Store(pe), Kind::Dma)
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

    /// Finds or creates an edge; a new edge gets its route.
    pub(crate) fn open(&self, name: EdgeName, spec: EdgeSpec) -> u32 {
        let edges = &mut *self.edges.borrow_mut();
        let (number, is_new) = edges.open(name, spec);
        if spec.buffer_kind == BufferKind::Hbm {
            // A message goes from its link to its slot in a memory, without a DMA.
            self.early.serves.set(false);
        }
        if is_new {
            let edge = &mut edges.list[number as usize];
            self.set_route(edge);
            self.set_shards(edge, number);
            self.set_exit(edge, number);
        }
        number
    }

    fn set_route(&self, edge: &mut Edge) {
        let (from, to) = (edge.name.from, edge.name.to);
        let gate = |pe: PeId| PeId::first(pe.sip);
        if from.sip == to.sip {
            edge.traits.credit_latency = noc::latency(&self.spec, to, from);
            return;
        }
        let hop = match edge.name.in_switch() {
            InSwitch::No => self.network.hop(from.sip, to.sip),
            what => {
                let hop = self.network.hop_in_switch(from.sip, to.sip, what);
                hop.expect("checked when the edge was opened")
            }
        };
        let way = self.network.way(from.sip, to.sip);
        edge.traits.ends_at_gate = Route::default().over_meshes(&self.spec, gate(to), to).is_over();
        let way_out = Route::default().over_meshes(&self.spec, from, gate(from));
        edge.route.way_out = way_out.then(Stage::Port);
        (edge.route.hop, edge.exit.next) = (hop, hop.next);
        (edge.route.hops, edge.route.is_switched) = (way.hops, way.is_switched);
        edge.exit.port = self.sips[from.sip as usize].borrow_mut().port(hop, &self.network);
        let inside =
            noc::latency(&self.spec, to, gate(to)) + noc::latency(&self.spec, gate(from), from);
        edge.traits.credit_latency = self.network.way(to.sip, from.sip).latency + inside;
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
        message.bytes = body.bytes;
        // A free slot has no value, and is most likely not in the cache: nothing of it is read.
        debug_assert!(message.value.is_none());
        if body.value.is_some() {
            std::mem::forget(std::mem::replace(&mut message.value, body.value));
        }
        message.following = following;
        message.posted = now;
        if edge.credits.free > 0 && edge.pending() == 1 {
            let mut path = path.get();
            path.advance(now, Gap::Dependency);
            self.launch_message(edge, number, &path);
            return edge.posted();
        }
        let last = edge.messages.len() - 1;
        let waiting = &mut edge.messages[last].path;
        *waiting = path.get();
        waiting.advance(now, Gap::Dependency);
        if edge.traits.lazy {
            self.expect_credit(edge, number);
        }
        edge.posted()
    }

    /// Launches the oldest pending message of an edge, to which `path` has led.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(super) fn launch_message(&self, edge: &mut Edge, number: u32, path: &Path) {
        if edge.traits.direct {
            return self.launch_direct(edge, number, *path);
        }
        self.launch_routed(edge, number, path);
    }

    /// Launches a message in the common case: one link is the whole route, and nothing before the link takes time.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    fn launch_direct(&self, edge: &mut Edge, number: u32, mut path: Path) {
        let now = self.sim.now();
        let (from, next, port, before) =
            (edge.name.from.sip, edge.exit.next, edge.exit.port, edge.last_grant);
        let message = edge.grant(now);
        let sip = &mut *self.sips[from as usize].borrow_mut();
        message.flow = sip.record.flow();
        let port = &mut sip.ports[port];
        let starved = port.note_starved(message.posted.max(before), now);
        let link = port.link;
        let span = link.bandwidth.time_for(message.bytes);
        let turn = port.wire.take(now, span, message.bytes, &mut path);
        let resource = Resource::Link { from, to: next };
        if let Some(since) = starved {
            sip.record.stall(|| starving(resource, since, now));
        }
        sip.record.step(&mut path, turn.end, Kind::Link, resource);
        port.wire.leave(turn.end, &path);
        let arrival = turn.end + link.latency;
        path.advance(arrival, Gap::Link);
        message.path = path;
        sip.record.op(|| Op {
            flow_out: NonZeroU64::new(message.flow),
            ..Op::new((turn.start, turn.end), resource, "transfer", message.bytes)
        });
        if edge.traits.is_abroad {
            return self.send_abroad(edge, number, Some(arrival));
        }
        self.schedule(arrival, next, Act::Arrive, number);
    }

    /// Launches a message through the PE's DMA and the meshes, over several hops, or within the SIP.
    #[inline(never)]
    fn launch_routed(&self, edge: &mut Edge, number: u32, path: &Path) {
        self.take_off(edge, number, path);
        if edge.traits.is_abroad {
            self.send_abroad(edge, number, None);
        }
    }

    /// Starts the way of the oldest pending message, which takes its credit.
    #[inline]
    pub(super) fn take_off(&self, edge: &mut Edge, number: u32, path: &Path) {
        let path = *path;
        let (now, before) = (self.sim.now(), edge.last_grant);
        let (from, to) = (edge.name.from, edge.name.to);
        let (port, buffer, way_out) = (edge.exit.port, edge.spec.buffer_kind, edge.route.way_out);
        let message = edge.grant(now);
        let sip = &mut *self.sips[from.sip as usize].borrow_mut();
        message.flow = sip.record.flow();
        message.path = path;
        let Message { bytes, flow, .. } = *message;
        if from.sip == to.sip {
            let in_hbm = buffer == BufferKind::Hbm;
            let message = LocalMessage { edge: number, from, to, in_hbm, bytes };
            return self.launch_within(sip, &message, path);
        }
        let starved = sip.ports[port].note_starved(message.posted.max(before), now);
        if let Some(since) = starved {
            let resource = Resource::Link { from: from.sip, to: sip.ports[port].to };
            sip.record.stall(|| starving(resource, since, now));
        }
        let departure = Departure { edge: number, flow, key: self.sim.reserve_key() };
        if self.costs.zero.send {
            let side =
                PortSide { number: from.sip, ports: &mut sip.ports, record: &mut sip.record };
            return self.depart(side, &Flight::new(bytes, now, path, leaving(from)), &departure);
        }
        let outgoing = Outgoing { bytes, route: way_out, purpose: Purpose::Depart(departure) };
        self.send(sip, from, path, outgoing);
    }

    /// Launches a message to a PE of the same SIP: over the meshes, and into HBM for a slot in HBM.
    fn launch_within(&self, sip: &mut Sip, message: &LocalMessage, path: Path) {
        let LocalMessage { edge, from, to, in_hbm, bytes } = *message;
        let now = self.sim.now();
        if self.costs.zero.send && !in_hbm {
            return self.schedule(now, from.sip, Act::Arrive, edge);
        }
        let mut route = Route::default().over_meshes(&self.spec, from, to);
        if in_hbm {
            route = route.then(Stage::Hbm(to.cube));
        }
        let delivery = Delivery { edge, kind: PacketKind::Local, key: self.sim.reserve_key() };
        if self.costs.zero.send {
            let flight = Flight::new(bytes, now, path, leaving(from));
            let (purpose, number) = (Purpose::Deliver(delivery), sip.flights.issue(1));
            return self.fly(sip, number, Journey { flight, route, purpose, label: "write" });
        }
        self.send(sip, from, path, Outgoing { bytes, route, purpose: Purpose::Deliver(delivery) });
    }

    /// Sends a message through the store channel of its PE.
    #[inline]
    fn send(
        &self,
        sip: &mut Sip,
        pe: PeId,
        path: Path,
        Outgoing { bytes, route, purpose }: Outgoing,
    ) {
        let (at, number) = (self.sim.now(), sip.flights.issue(1));
        self.ask_send(sip, &Ask { pe, at, number, path }, bytes, route, purpose);
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
            let packet = Packet::new(edge, bytes, (side.number, to), tail, path);
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
        let packet = Packet::new(edge, flight.bytes, (at, at), flight.tail, flight.path);
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
