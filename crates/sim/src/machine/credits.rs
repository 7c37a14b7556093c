//! Credits on their way back: from a freed slot at the receiver to the sender of an edge.

use super::World;
use super::fabric::Act;
use super::noc;
use super::packet::{Packet, PacketKind, PacketWay};
use super::shards::Home;
use crate::ipcq::{Backpressure, Edge, InSwitch, Returning};
use crate::record::{Gap, Path, Resource};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;

impl World {
    /// Takes the credits that have come home since the last call (IPC-5).
    #[inline]
    pub(crate) fn take_credits(&self, edge: &mut Edge) {
        // While messages are pending, credits are events.
        if !edge.traits.lazy || edge.pending() > 0 {
            return;
        }
        while !edge.returning.is_empty() {
            let Returning { arrival, key, .. } = &edge.returning[0];
            if !self.sim.has_passed(*arrival, *key) {
                return;
            }
            edge.returning.pop();
            edge.credits.free += 1;
        }
    }

    /// Makes an event of the credit for the last pending message, if that credit is on its way.
    #[inline]
    pub(super) fn expect_credit(&self, edge: &Edge, number: u32) {
        let last = edge.pending() - 1;
        if last < edge.returning.len() {
            let Returning { arrival, key, .. } = &edge.returning[last];
            self.schedule_as(*key, *arrival, edge.name.from.sip, Act::Credit, number);
        }
    }

    /// Frees a slot and sends its credit home.
    #[inline]
    pub(crate) fn release(&self, number: u32, path: &Path) {
        let now = self.sim.now();
        let mut edges = self.edges.borrow_mut();
        let edge = &mut edges.list[number as usize];
        edge.free_slot();
        let arrival = now + edge.traits.credit_latency;
        if edge.traits.is_abroad {
            let group = self.release_abroad(edge, number, path);
            drop(edges);
            return self.release_others(group, number, path);
        }
        let waiting = edge.pending();
        let returning = edge.returning.push();
        returning.path = *path;
        returning.path.advance(now, Gap::Dependency);
        returning.arrival = arrival;
        if !edge.traits.lazy {
            self.send_credit(edge, number, arrival, path);
            let group = edge.switch.group.filter(|_| edge.name.in_switch() == InSwitch::Reduction);
            drop(edges);
            return self.release_others(group, number, path);
        }
        let key = self.sim.reserve(arrival);
        returning.key = key;
        // Only the credits for pending messages are events; `take_credits` finds the others.
        if edge.returning.len() <= waiting || arrival == Time::MAX {
            self.schedule_as(key, arrival, edge.name.from.sip, Act::Credit, number);
        }
    }

    /// Sends a credit home to the sender's shard. Returns the group of a reduction, whose other slots are free too.
    #[cold]
    #[inline(never)]
    fn release_abroad(&self, edge: &Edge, number: u32, path: &Path) -> Option<u32> {
        let now = self.sim.now();
        let arrival = now + edge.traits.credit_latency;
        let mut home = *path;
        home.advance(now, Gap::Dependency);
        if edge.traits.lazy {
            self.credit_abroad(edge, number, home, Home::Lazily(arrival));
            return None;
        }
        if edge.spec.ipcq_credit_size_bytes == 0 {
            self.credit_abroad(edge, number, home, Home::At(arrival));
        } else {
            self.credit_abroad(edge, number, home, Home::Packed);
            self.send_credit(edge, number, arrival, path);
        }
        edge.switch.group.filter(|_| edge.name.in_switch() == InSwitch::Reduction)
    }

    /// Sends a credit home by an event, or as a packet over the links.
    fn send_credit(&self, edge: &Edge, number: u32, arrival: Time, path: &Path) {
        let (from, to) = (edge.name.from.sip, edge.name.to.sip);
        let bytes = edge.spec.ipcq_credit_size_bytes;
        if bytes == 0 || from == to {
            return self.schedule(arrival, from, Act::Credit, number);
        }
        let (kind, path) = (PacketKind::Credit, *path);
        let tail = self.sim.now();
        let way = PacketWay { at: to, to: from };
        let packet = Packet { kind, ..Packet::new(number, bytes, way, tail, path) };
        let inside = noc::latency(&self.spec, edge.name.to, PeId::first(to));
        if inside == Time::ZERO {
            return self.forward(packet);
        }
        let packet = self.packets.borrow_mut().insert(packet);
        self.schedule(self.sim.now() + inside, to, Act::Hop, packet);
    }

    /// Moves a credit packet from the gateway of the sender's SIP to the PE.
    pub(super) fn credit_from_gate(&self, number: u32) {
        let from = self.edges.borrow().list[number as usize].name.from;
        let inside = noc::latency(&self.spec, PeId::first(from.sip), from);
        if inside == Time::ZERO {
            return self.credit(number);
        }
        self.schedule(self.sim.now() + inside, from.sip, Act::Credit, number);
    }

    /// Gives a credit back to the sender.
    #[inline]
    pub(super) fn credit(&self, number: u32) {
        let mut edges = self.edges.borrow_mut();
        let edge = &mut edges.list[number as usize];
        edge.credits.free += 1;
        let pending = edge.pending();
        let Returning { path, .. } = edge.returning.pop().expect("IPC-3: a credit was sent");
        if pending == 0 {
            return;
        }
        let mut path = *path;
        self.note_credit_wait(edge, &mut path);
        if edge.sender.is_some() {
            edge.last_wait = path;
        }
        let is_plain = edge.name.in_switch() != InSwitch::Multicast;
        if is_plain && edge.spec.backpressure == Backpressure::Sleep {
            return self.resume_sender(edge, number, &path);
        }
        edge.messages[edge.arrived + edge.in_flight].path = path;
        if let (true, Backpressure::Poll(period)) = (is_plain, edge.spec.backpressure) {
            return self.poll_again(edge, number, period);
        }
        let group = edge.switch.group;
        drop(edges);
        self.launch_multicast(group);
    }

    /// Launches the oldest pending message, to which `path` has led, and wakes its sender.
    #[inline]
    fn resume_sender(&self, edge: &mut Edge, number: u32, path: &Path) {
        self.launch_message(edge, number, path);
        if let Some(task) = edge.sender.take() {
            self.sim.wake(task);
        }
    }

    /// Schedules the next poll of a sender: a whole number of periods after it was refused.
    fn poll_again(&self, edge: &mut Edge, number: u32, period: Time) {
        let refused = edge.messages[edge.arrived + edge.in_flight].posted;
        let waited = self.sim.now() - refused;
        let polls = waited.as_ps().div_ceil(period.as_ps().max(1)).max(1);
        let look = refused + Time::ps(polls * period.as_ps());
        if !edge.traits.retry_scheduled {
            edge.traits.retry_scheduled = true;
            edge.stats.polls += polls;
            self.schedule(look, edge.name.from.sip, Act::Retry, number);
        }
    }

    /// Launches pending messages of a polling sender while there are credits.
    pub(super) fn retry(&self, number: u32) {
        let edge = &mut self.edges.borrow_mut().list[number as usize];
        edge.traits.retry_scheduled = false;
        while edge.credits.free > 0 && edge.pending() > 0 {
            let mut path = edge.messages[edge.arrived + edge.in_flight].path;
            self.note_credit_wait(edge, &mut path);
            self.resume_sender(edge, number, &path);
        }
    }

    /// Notes that a message has waited for a credit until now: at the port out of its SIP, or in its PE if it stays in the SIP.
    #[inline]
    fn note_credit_wait(&self, edge: &Edge, path: &mut Path) {
        let (now, from) = (self.sim.now(), edge.name.from);
        if now <= path.at() {
            return;
        }
        let sip = &mut *self.sips[from.sip as usize].borrow_mut();
        let resource = if from.sip == edge.name.to.sip {
            Resource::Store(from)
        } else {
            Resource::Link { from: from.sip, to: sip.ports[edge.exit.port].to }
        };
        sip.record.step(path, now, Kind::Credit, resource);
    }
}
