//! Packets: chunks of messages, and credits, between the nodes of the network.

use crate::record::Path;
use crate::time::Time;

/// A chunk of a message, or a credit, between two SIPs.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(super) edge: u32,
    pub(super) bytes: u64,
    /// Time of its bytes on a link of this class.
    pub(super) span: Time,
    pub(super) class: u16,
    /// The level of the ingress wire that the packet takes at `at`.
    pub(super) level: u8,
    /// True if SIPs forward its head.
    pub(super) cuts: bool,
    /// True if its time is the same on all wires: the switch copies or combines it.
    pub(super) is_in_switch: bool,
    /// The node at which the packet is when its action fires.
    pub(super) at: u32,
    pub(super) to: u32,
    pub(super) kind: PacketKind,
    /// Arrival of its last byte at that SIP, where only the head is there when the action fires (FAB-2).
    pub(super) tail: Time,
    /// The critical path to that instant, or to the tail.
    pub(super) path: Path,
}

crate::portable!(struct Packet {
    edge, bytes, span, class, level, cuts, is_in_switch, at, to, kind, tail, path,
});

/// The node at which a packet is, and the node it goes to.
#[derive(Clone, Copy)]
pub(super) struct PacketWay {
    pub(super) at: u32,
    pub(super) to: u32,
}

impl Packet {
    /// Class of a packet that was on no link.
    pub(super) const NO_CLASS: u16 = u16::MAX;

    /// A packet that has taken no link.
    pub(super) fn new(edge: u32, bytes: u64, way: PacketWay, tail: Time, path: Path) -> Self {
        let PacketWay { at, to } = way;
        let (kind, class) = (PacketKind::Chunk, Self::NO_CLASS);
        let is_in_switch = false;
        Self {
            edge,
            bytes,
            span: Time::ZERO,
            class,
            level: 0,
            cuts: false,
            is_in_switch,
            at,
            to,
            kind,
            tail,
            path,
        }
    }

    /// Name of its turns on the links after the first, for the log.
    pub(super) fn label(&self) -> &'static str {
        if self.kind == PacketKind::Credit { "credit" } else { "forward" }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketKind {
    Chunk,
    LastChunk,
    Credit,
    /// A message that the switch combines with others.
    Contribution,
    /// A message of the same SIP, in its slot.
    Local,
    /// A message of another SIP, in its slot.
    Remote,
}

crate::portable!(enum PacketKind {
    0 => Chunk, 1 => LastChunk, 2 => Credit, 3 => Contribution, 4 => Local, 5 => Remote,
});

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

    /// Returns the path of every packet in flight.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let mut is_free = vec![false; self.list.len()];
        for number in &self.free {
            is_free[*number as usize] = true;
        }
        let packets = self.list.iter().zip(is_free);
        packets.filter(|(_, is_free)| !is_free).map(|(packet, _)| &packet.path)
    }

    /// Returns a packet by its number.
    pub(super) fn get(&mut self, number: u32) -> &mut Packet {
        &mut self.list[number as usize]
    }

    pub(super) fn take(&mut self, number: u32) -> Packet {
        self.free.push(number);
        self.list[number as usize]
    }
}
