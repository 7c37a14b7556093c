//! The ways of messages out of their SIPs, by the number of their edge.
//!
//! A message leaves its SIP when its head is at the port, which may be while somebody has the edges. So the exit of an edge
//! is apart from the edge.

use super::World;
use crate::ipcq::{Edge, InSwitch};
use crate::record::Path;
use crate::ring_buffer::RingBuffer;
use crate::spec::{Efficiency, Forwarding};
use crate::time::Time;
use crate::topology::Hop;

/// The way of an edge's messages out of their SIP.
pub(crate) struct Exit {
    /// The port of the SIP.
    pub(super) port: usize,
    /// The first hop of the route.
    pub(super) hop: Hop,
    /// The receiver's SIP.
    pub(super) to: u32,
    /// True if one link is the whole route.
    pub(super) is_one_link: bool,
    /// True if another shard has the receiver.
    pub(super) is_abroad: bool,
    /// True if messages move in one piece: over one link, cut through, or into a switch that copies or combines them.
    is_whole: bool,
    /// Size of the chunks of other messages; 0 for the whole message.
    chunk: u64,
    /// The part of the switch, and the edges to which it copies a message.
    pub(super) in_switch: InSwitch,
    pub(super) group: Option<u32>,
    /// The costs of the protocol (IPC-6).
    pub(super) delay: Time,
    pub(super) efficiency: Efficiency,
    /// The critical paths of the messages that are on their one link, oldest first.
    pub(super) paths: RingBuffer<Path>,
}

impl Exit {
    fn new(edge: &Edge, cuts_through: bool) -> Self {
        let in_switch = edge.name.in_switch();
        Self {
            port: edge.exit.port,
            hop: edge.route.hop,
            to: edge.name.to.sip,
            is_one_link: edge.is_one_link(),
            is_abroad: edge.traits.is_abroad,
            is_whole: !edge.route.is_switched && (edge.route.hops <= 1 || cuts_through)
                || in_switch != InSwitch::No,
            chunk: edge.spec.vc_chunk_size,
            in_switch,
            group: edge.switch.group,
            delay: edge.spec.delay,
            efficiency: edge.spec.efficiency,
            paths: RingBuffer::default(),
        }
    }

    /// Returns the size of the chunks in which a message moves; 0 for one piece.
    #[inline]
    pub(super) fn chunk_of(&self, bytes: u64) -> u64 {
        match (self.is_whole, self.chunk) {
            (true, _) => 0,
            (false, 0) => bytes.max(1),
            (false, chunk) => chunk,
        }
    }
}

impl World {
    /// Sets the exit of an edge that is new, or has other settings or another group. No message is on its link.
    pub(crate) fn set_exit(&self, edge: &mut Edge, number: u32) {
        let is_inside = edge.name.from.sip == edge.name.to.sip;
        if !is_inside && (!edge.is_one_link() || edge.spec.ipcq_credit_size_bytes > 0) {
            // Packets of messages on their way and of credits take ports when they arrive, without a DMA.
            self.early.departs.set(false);
        }
        let is_plain = !edge.route.is_switched && edge.spec.is_plain();
        edge.traits.direct = edge.route.hops == 1 && self.costs.zero.send && is_plain;
        edge.traits.has_paths_at_exit = !edge.traits.direct && edge.is_one_link();
        let exit = Exit::new(edge, self.cuts_through());
        let exits = &mut *self.exits.borrow_mut();
        match exits.get_mut(number as usize) {
            Some(known) => *known = Exit { paths: std::mem::take(&mut known.paths), ..exit },
            None => exits.push(exit),
        }
    }

    /// True if SIPs forward the heads of messages on routes without a switch (FAB-2).
    pub(super) fn cuts_through(&self) -> bool {
        self.spec.sips.forwarding == Forwarding::CutThrough
    }
}
