//! The start of messages: edges are opened, and a posted message leaves its PE when it has a credit.
//!
//! From the port out of its SIP on, `fabric.rs` moves a message.

use super::World;
use super::channel::{Ask, Outgoing};
use super::fabric::{Act, PortSide};
use super::flights::{Delivery, Departure, Journey, Purpose};
use super::noc::{self, Route, Stage};
use super::packet::PacketKind;
use super::sip::Sip;
use crate::ipcq::{BufferKind, Edge, EdgeName, EdgeSpec, InSwitch, Message, MessageBody};
use crate::record::{Gap, Op, Path, Resource, StallSpan, Use};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::Flight;
use std::cell::Cell;
use std::num::NonZeroU64;

/// A message to a PE of the same SIP.
struct LocalMessage {
    edge: u32,
    from: PeId,
    to: PeId,
    /// True if its slot is in HBM.
    in_hbm: bool,
    bytes: u64,
}

/// A link without credits, for the log.
fn starving(resource: Resource, from: Time, to: Time) -> StallSpan {
    StallSpan { resource, kind: Kind::Credit, from, to }
}

/// The stage before the first wire of a message: the DMA of its PE.
fn leaving(pe: PeId) -> Use {
    Use::new(Resource::Store(pe), Kind::Dma)
}

impl World {
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
        let message = edge.grant(now);
        let sip = &mut *self.sips[from.sip as usize].borrow_mut();
        message.flow = sip.record.flow();
        message.path = path;
        let Message { bytes, flow, posted, .. } = *message;
        if from.sip == to.sip {
            let in_hbm = edge.spec.buffer_kind == BufferKind::Hbm;
            let message = LocalMessage { edge: number, from, to, in_hbm, bytes };
            return self.launch_within(sip, &message, path);
        }
        let port = edge.exit.port;
        let starved = sip.ports[port].note_starved(posted.max(before), now);
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
        let (route, purpose) = (edge.route.way_out, Purpose::Depart(departure));
        self.send(sip, from, path, Outgoing { bytes, route, purpose });
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
    fn send(&self, sip: &mut Sip, pe: PeId, path: Path, message: Outgoing) {
        let (at, number) = (self.sim.now(), sip.flights.issue(1));
        self.ask_send(sip, &Ask { pe, at, number, path }, message);
    }
}
