//! Messages that a switch copies to several receivers, or combines on their way to one.
//!
//! Both are groups of edges through one switch. The sender of a multicast knows its receivers; the receiver of a reduction
//! knows its senders.
//!
//! - **ISW-1 (multicast).** A message leaves when every edge of its multicast has a credit. It takes the sender's port once, and
//!   then the port of each receiver.
//! - **ISW-2 (reduction).** The messages of one round take the ports of their senders, and then the port of the receiver once:
//!   when the head of the last is there. The state of a round is the receiver's (PAR-1).
//! - **ISW-3 (cost).** Both take `start` more than the latency of the link, and `efficiency` of its bandwidth at both ports.
//! - **ISW-4 (order).** A reduction combines the values in the order in which its receiver names the senders.

use super::World;
use super::exits::Exit;
use super::flights::Departure;
use super::packet::{Packet, PacketKind};
use crate::ipcq::{Edge, Edges, InSwitch, MessageBody};
use crate::record::{Gap, Path};
use crate::time::Time;
use crate::topology::Hop;
use std::cell::Cell;
use std::rc::Rc;

/// The edges of one multicast or reduction, each with the SIP of its receiver; the first leads.
pub(crate) type EdgeGroup = Rc<[(u32, u32)]>;

impl World {
    /// Makes a group of edges, unless they are one already; returns its number. The caller knows the whole group: it is the
    /// sender of a multicast, or the receiver of a reduction.
    pub(crate) fn group(&self, edges: &[u32]) -> u32 {
        let mut groups = self.groups.borrow_mut();
        let mut list = self.edges.borrow_mut();
        let members: EdgeGroup =
            edges.iter().map(|edge| (*edge, list.list[*edge as usize].name.to.sip)).collect();
        let known =
            members.first().and_then(|(leader, _)| list.list[*leader as usize].switch.group);
        if let Some(known) = known.filter(|known| groups[*known as usize] == members) {
            return known;
        }
        let number = u32::try_from(groups.len()).expect("fewer than 2^32 groups");
        for edge in edges {
            let state = &mut list.list[*edge as usize];
            state.switch.group = Some(number);
            self.set_exit(state, *edge);
        }
        groups.push(members);
        number
    }

    /// Returns the edges of a multicast that have no credit.
    pub(crate) fn lacking<'a>(&self, edges: &'a Edges, group: Option<u32>) -> Vec<&'a Edge> {
        let members = group.map(|group| self.members(group));
        let members = members.iter().flat_map(|members| members.iter());
        let all = members.map(|(number, _)| &edges.list[*number as usize]);
        all.filter(|edge| edge.credits.free == 0).collect()
    }

    fn members(&self, group: u32) -> EdgeGroup {
        self.groups.borrow()[group as usize].clone()
    }

    /// Posts one slot of a multicast to all its edges; it leaves as soon as each has a credit (ISW-1). Returns as
    /// [`World::post`].
    pub(crate) fn post_multicast(
        &self,
        group: u32,
        body: &MessageBody,
        following: u32,
        path: &Cell<Path>,
    ) -> u64 {
        let (now, members) = (self.sim.now(), self.members(group));
        let mut posted = 0;
        {
            let edges = &mut *self.edges.borrow_mut();
            for (number, _) in members.iter() {
                let edge = &mut edges.list[*number as usize];
                let message = edge.messages.push();
                message.path = path.get();
                message.bytes = body.bytes;
                message.value.clone_from(&body.value);
                message.following = following;
                message.posted = now;
                message.path.advance(now, Gap::Dependency);
                posted = edge.posted();
            }
        }
        self.launch_multicast(Some(group));
        posted
    }

    /// Launches the messages of a multicast for which every edge has a credit.
    pub(super) fn launch_multicast(&self, group: Option<u32>) {
        let Some(group) = group else { return };
        let members = self.members(group);
        let edges = &mut *self.edges.borrow_mut();
        let (leader, _) = members[0];
        loop {
            let is_ready = |(number, _): &(u32, u32)| {
                let edge = &edges.list[*number as usize];
                edge.credits.free > 0 && edge.pending() > 0
            };
            if !members.iter().all(is_ready) {
                return;
            }
            let latest = members.iter().map(|(number, _)| {
                let edge = &edges.list[*number as usize];
                edge.messages[edge.arrived + edge.in_flight].path
            });
            let latest = latest.max_by_key(Path::at).expect("a multicast has receivers");
            let now = self.sim.now();
            for (number, _) in &members[1..] {
                edges.list[*number as usize].grant(now);
            }
            let edge = &mut edges.list[leader as usize];
            let index = edge.arrived + edge.in_flight;
            self.take_off(edge, leader, &latest);
            let flow = edge.messages[index].flow;
            if let Some(task) = edge.sender.take() {
                self.sim.wake(task);
            }
            for (number, _) in &members[1..] {
                let edge = &mut edges.list[*number as usize];
                edge.messages[edge.arrived + edge.in_flight - 1].flow = flow;
            }
            for (number, _) in members.iter() {
                let edge = &mut edges.list[*number as usize];
                if edge.traits.is_abroad {
                    self.send_abroad(edge, *number, None);
                }
            }
        }
    }

    /// Sends a message that has left its port to the receivers of its multicast, or to the receiver of its reduction.
    pub(super) fn send_into_switch(
        &self,
        packet: Packet,
        exit: &Exit,
        departure: &Departure,
        head: Time,
    ) {
        let (hop, key) = (exit.hop, Some(departure.key));
        let packet = Packet { is_in_switch: true, cuts: false, ..packet };
        if exit.in_switch == InSwitch::Reduction {
            let packet = Packet { kind: PacketKind::Contribution, ..packet };
            return self.send_packet(packet, hop, head, key);
        }
        let group = exit.group.expect("ISW-1: a multicast knows its receivers");
        for &(edge, to) in self.members(group).iter() {
            self.send_packet(Packet { edge, to, ..packet }, Hop { next: to, ..hop }, head, key);
        }
    }

    /// Handles the head of a contribution to a reduction at the receiver's port.
    pub(super) fn combine(&self, number: u32) {
        let edge = self.packets.borrow_mut().get(number).edge;
        let group = {
            let edge = &mut self.edges.borrow_mut().list[edge as usize];
            edge.switch.heads.push_back(number);
            edge.switch.group
        };
        if let Some(group) = group {
            self.combine_rounds(group);
        }
    }

    /// Takes the receiver's port for every round of a reduction of which all heads are there (ISW-2).
    pub(crate) fn combine_rounds(&self, group: u32) {
        let members = self.members(group);
        loop {
            let heads: Option<Vec<u32>> = {
                let edges = self.edges.borrow();
                let first =
                    |(edge, _): &(u32, u32)| edges.list[*edge as usize].switch.heads.front();
                members.iter().map(|member| first(member).copied()).collect()
            };
            let Some(heads) = heads else { return };
            for (edge, _) in members.iter() {
                self.edges.borrow_mut().list[*edge as usize].switch.heads.pop_front();
            }
            self.combine_round(&heads);
        }
    }

    /// Makes one packet, that of the leader, of the packets of a round.
    fn combine_round(&self, heads: &[u32]) {
        let leader = heads[0];
        {
            let packets = &mut *self.packets.borrow_mut();
            let mut whole = *packets.get(leader);
            for head in &heads[1..] {
                let Packet { bytes, span, tail, path, .. } = packets.take(*head);
                whole.bytes = whole.bytes.max(bytes);
                whole.span = whole.span.max(span);
                whole.tail = whole.tail.max(tail);
                if path.at() > whole.path.at() {
                    whole.path = path;
                }
            }
            *packets.get(leader) = whole;
        }
        self.ingress(leader);
    }

    /// Frees the slots of a reduction on its edges after the leader.
    pub(super) fn release_others(&self, group: Option<u32>, leader: u32, path: &Path) {
        let Some(group) = group else { return };
        let members = self.members(group);
        if members[0].0 != leader {
            return;
        }
        for (edge, _) in &members[1..] {
            self.release(*edge, path);
        }
    }
}
