//! The numbers and names of SIPs, cubes and PEs, and the routes between SIPs.
//!
//! - **NET-1 (shortest).** Within a level a route has the fewest hops of its topology, along x (columns) first, then y, then z.
//! - **NET-2 (fixed and spread).** A route is a function of its ends. Of two equal ways round a ring (or a row or a column
//!   of a torus), a sender with an even coordinate goes up and a sender with an odd coordinate goes down. If all SIPs send
//!   alike, both directions carry the same, and so does every link. Rings of 6, 10, 14, ... are the exception: an odd
//!   number of messages between opposites shares each pair of links, so links differ by one message of each such pair.
//! - **NET-3 (levels).** Two devices meet at the innermost level that has both in one group. A switch of that level connects all
//!   NICs; other topologies connect the devices (or shared NICs) at the same position of each part, and a route goes inside
//!   its first part before it leaves the part.
//! - **NET-4 (latencies).** The latencies of a way between two parts of a level add up to the latency of the level's link, plus
//!   that of `pcie` once at each end. The lookahead is the least latency between two nodes.

mod wires;

use crate::ipcq::InSwitch;
use crate::record::Resource;
use crate::spec::{LevelSpec, MachineSpec, Topology, WireSpec};
use crate::time::Time;
use std::cmp::Ordering;
use std::fmt;
use wires::{LevelWires, in_switch};

/// One processing element: `sip0.cube1.pe2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeId {
    /// Number of the SIP (package).
    pub sip: u32,
    /// Number of the cube in the SIP, in row-major order.
    pub cube: u16,
    /// Number of the PE in the cube, in row-major order.
    pub pe: u16,
}

crate::portable!(struct PeId { sip, cube, pe });

impl PeId {
    /// Returns the first PE of a SIP.
    pub const fn first(sip: u32) -> Self {
        Self { sip, cube: 0, pe: 0 }
    }

    /// Returns its number in its SIP, whose cubes have so many PEs each.
    #[inline]
    pub(crate) fn index(self, pes_per_cube: u32) -> usize {
        self.cube as usize * pes_per_cube as usize + self.pe as usize
    }
}

impl fmt::Display for PeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sip{}.cube{}.pe{}", self.sip, self.cube, self.pe)
    }
}

/// The routes between devices (SIPs), level by level.
///
/// A *node* is a device, or a station: a NIC that devices share, or the leaf switch of a group whose way up is
/// oversubscribed. Devices have the first numbers. Every node is a partition of the simulation, so that the state of a
/// station is its own (PAR-1).
#[derive(Clone, Debug)]
pub(crate) struct Network {
    levels: Vec<Level>,
    devices: u32,
    nodes: u32,
    /// The wires by class: [`Level::class`].
    wires: Vec<WireSpec>,
}

/// One level of the network: parts of equal size, and the links between them.
#[derive(Clone, Debug)]
struct Level {
    topology: Topology,
    /// Parts in one group.
    count: u32,
    /// Devices in one part, and the NICs that they share or have.
    part: u32,
    nics: u32,
    /// Number of the first NIC, if NICs are shared.
    first_nic: Option<u32>,
    /// Number of the first leaf switch, if the level is oversubscribed.
    first_leaf: Option<u32>,
    /// True if its switch copies, and if it combines, messages.
    multicasts: bool,
    reduces: bool,
    /// Class of this level's first wire.
    class: u16,
}

/// The wires of a level, in the order of their classes.
#[derive(Clone, Copy)]
enum LevelWire {
    /// The link of a device or of a shared NIC.
    Link,
    /// From a device to its shared NIC.
    ToNic,
    /// From a shared NIC to a device.
    FromNic,
    /// From a leaf switch to another.
    Up,
    /// From a leaf switch to a NIC or a device.
    Down,
    /// Into a device, where the wire before it does not lead to this device alone.
    Ingress,
    /// A link, for a message that the switch copies.
    Multicast,
    /// A link, for a message that the switch combines.
    Reduction,
}

/// One hop of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hop {
    /// The node at the other end.
    pub(crate) next: u32,
    /// Number of the port that the hop takes, as in [`Resource::Link`].
    pub(crate) port: u32,
    /// Class of the port's wire.
    pub(crate) class: u16,
    /// The level whose ingress wire the hop takes at the next node, if it takes one.
    pub(crate) ingress: Option<u8>,
}

/// The sums of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Number of devices after the first.
    pub(crate) hops: u32,
    /// True if the route passes an ingress wire or a station.
    pub(crate) is_switched: bool,
    /// Sum of the latencies.
    pub(crate) latency: Time,
}

impl Network {
    /// Creates the network of a machine.
    pub(crate) fn new(spec: &MachineSpec) -> Self {
        let link = spec.sips.link.wire();
        let inner = Level {
            topology: spec.sips.topology,
            count: spec.sips.count,
            part: 1,
            nics: 1,
            first_nic: None,
            first_leaf: None,
            multicasts: spec.sips.multicast.is_some(),
            reduces: spec.sips.reduction.is_some(),
            class: 0,
        };
        let multicast = in_switch(link, spec.sips.multicast);
        let reduction = in_switch(link, spec.sips.reduction);
        let mut network = Self {
            levels: vec![inner],
            devices: spec.devices(),
            nodes: spec.devices(),
            wires: vec![link, link, link, link, link, link, multicast, reduction],
        };
        for (number, level) in (1..).zip(&spec.levels) {
            network.add_level(level, spec.part_size(number));
        }
        network
    }

    fn add_level(&mut self, spec: &LevelSpec, part: u32) {
        let parts = self.devices / part;
        let mut stations = |count: u32| {
            let first = self.nodes;
            self.nodes += parts * count;
            first
        };
        let first_nic = spec.shares_nics(part).then(|| stations(spec.nics));
        let first_leaf = (spec.oversubscription > 1).then(|| stations(1));
        let class = u16::try_from(self.wires.len()).expect("few levels");
        let wires = LevelWires::new(spec, part);
        let multicast = in_switch(wires.link, spec.multicast);
        let reduction = in_switch(wires.link, spec.reduction);
        self.wires.extend(wires.in_order());
        self.wires.extend([multicast, reduction]);
        self.levels.push(Level {
            topology: spec.topology,
            count: spec.count,
            part,
            nics: spec.nics,
            first_nic,
            first_leaf,
            multicasts: spec.multicast.is_some(),
            reduces: spec.reduction.is_some(),
            class,
        });
    }

    /// Returns the number of nodes: devices, shared NICs and leaf switches.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// True if a node is a NIC or a switch.
    pub(crate) fn is_station(&self, node: u32) -> bool {
        node >= self.devices
    }

    /// Returns the wire of a class.
    pub(crate) fn wire(&self, class: u16) -> WireSpec {
        self.wires[usize::from(class)]
    }

    /// Returns the class of the wire into a device at a level.
    pub(crate) fn ingress_class(&self, level: u8) -> u16 {
        self.levels[usize::from(level)].class_of(LevelWire::Ingress)
    }

    /// Returns the shortest latency between two nodes, which is the lookahead; `None` if there is one device alone.
    pub(crate) fn lookahead(&self) -> Option<Time> {
        let used = self.levels.iter().filter(|level| level.count > 1);
        let latencies = used
            .flat_map(|level| level.crossing().map(|wire| self.wire(level.class_of(wire)).latency));
        latencies.min()
    }

    /// Returns the level at which two devices first are in one group.
    fn level_of(&self, one: u32, other: u32) -> usize {
        if self.levels.len() == 1 {
            return 0;
        }
        let is_shared = |level: &Level| {
            let group = level.part * level.count;
            one / group == other / group
        };
        self.levels.iter().position(is_shared).expect("NET-1: the outermost group has all devices")
    }

    /// Returns the next hop of the route from a node to a device.
    ///
    /// # Panics
    ///
    /// If the two are the same.
    pub(crate) fn hop(&self, from: u32, to: u32) -> Hop {
        assert!(from != to, "NET-1: no hop from node {from} to itself");
        if self.is_station(from) {
            return self.hop_of_station(from, to);
        }
        let number = self.level_of(from, to);
        let level = &self.levels[number];
        if !level.is_switch() && level.rail(from) != level.rail(to) {
            // Links between parts connect equal rails: inside the part first (NET-3).
            return self.hop(from, from / level.part * level.part + to % level.part);
        }
        if let Some(nic) = level.nic(from / level.part, level.rail(from)) {
            return Hop {
                next: nic,
                port: nic,
                class: level.class_of(LevelWire::ToNic),
                ingress: None,
            };
        }
        let class = level.class_of(LevelWire::Link);
        if level.is_switch() {
            let (next, ingress) = match level.leaf(from / level.part) {
                Some(leaf) => (leaf, None),
                None => (to, Some(small(number))),
            };
            return Hop { next, port: Resource::switch(number), class, ingress };
        }
        let next = level.next_part(from / level.part, to / level.part);
        let next = next * level.part + from % level.part;
        Hop { next, port: next, class, ingress: None }
    }

    /// Returns the level and the place of a station; `None` for a device.
    pub(crate) fn place(&self, node: u32) -> Option<(usize, StationPosition)> {
        let places =
            self.levels.iter().map(|level| level.place_of(node, self.devices / level.part));
        places.enumerate().find_map(|(number, place)| Some((number, place?)))
    }

    /// Returns the next hop from a NIC or a leaf switch.
    fn hop_of_station(&self, from: u32, to: u32) -> Hop {
        let (number, place) = self.place(from).expect("NET-3: a station has a level");
        let level = &self.levels[number];
        let to = self.goal_inside(number, place.part() * level.part, to);
        let there = to / level.part;
        let out = Resource::switch(number);
        let into_part = || match level.nic(there, level.rail(to)) {
            Some(nic) => (nic, None),
            None => (to, Some(small(number))),
        };
        let (next, port, wire, ingress) = match place {
            StationPosition::Nic { part, .. } if part == there => {
                let port = if level.is_switch() { Resource::switch_in(number) } else { to };
                (to, port, LevelWire::FromNic, Some(small(number)))
            }
            StationPosition::Nic { part, rail } if !level.is_switch() => {
                let part = level.next_part(part, there);
                let next = level.nic(part, rail).expect("NET-3: all parts share their NICs");
                (next, next, LevelWire::Link, None)
            }
            StationPosition::Nic { part, .. } => match level.leaf(part) {
                Some(leaf) => (leaf, out, LevelWire::Link, None),
                None => (into_part().0, out, LevelWire::Link, None),
            },
            StationPosition::Leaf { part } if part == there => {
                let (next, ingress) = into_part();
                (next, Resource::switch_in(number), LevelWire::Down, ingress)
            }
            StationPosition::Leaf { .. } => {
                let next = level.leaf(there).expect("NET-3: every part has a leaf switch");
                (next, out, LevelWire::Up, None)
            }
        };
        Hop { next, port, class: level.class_of(wire), ingress }
    }

    /// Returns the device of this group of a level that a route from `here` to `to` aims at: `to`, or the device where the route
    /// leaves the group (NET-3).
    fn goal_inside(&self, level: usize, here: u32, mut to: u32) -> u32 {
        for outer in self.levels[level + 1..].iter().rev() {
            to = here / outer.part * outer.part + to % outer.part;
        }
        to
    }

    /// Returns the hop of a message that a switch copies or combines; `None` if no switch between the two does.
    pub(crate) fn hop_in_switch(&self, from: u32, to: u32, what: InSwitch) -> Option<Hop> {
        let number = self.level_of(from, to);
        let level = &self.levels[number];
        let (is_able, wire) = match what {
            InSwitch::No => return None,
            InSwitch::Multicast => (level.multicasts, LevelWire::Multicast),
            InSwitch::Reduction => (level.reduces, LevelWire::Reduction),
        };
        let is_plain = level.first_nic.is_none() && level.first_leaf.is_none();
        let (port, class) = (Resource::switch(number), level.class_of(wire));
        let hop = Hop { next: to, port, class, ingress: Some(small(number)) };
        (is_able && is_plain && from != to).then_some(hop)
    }

    /// Returns the sums of the route between two devices.
    pub(crate) fn way(&self, from: u32, to: u32) -> Way {
        let mut way = Way { hops: 0, is_switched: false, latency: Time::ZERO };
        let mut at = from;
        while at != to {
            let hop = self.hop(at, to);
            at = hop.next;
            way.latency += self.wire(hop.class).latency;
            way.hops += u32::from(!self.is_station(at));
            way.is_switched |= self.is_station(at) || hop.ingress.is_some();
        }
        way
    }
}

fn small(level: usize) -> u8 {
    u8::try_from(level).expect("few levels")
}

/// The place of a station in its level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StationPosition {
    Nic { part: u32, rail: u32 },
    Leaf { part: u32 },
}

impl StationPosition {
    /// Returns its part, counted over the machine.
    pub(crate) fn part(&self) -> u32 {
        let (Self::Nic { part, .. } | Self::Leaf { part }) = *self;
        part
    }
}

impl Level {
    fn is_switch(&self) -> bool {
        self.topology == Topology::Switch
    }

    fn class_of(&self, wire: LevelWire) -> u16 {
        self.class + wire as u16
    }

    /// Returns the NIC of a device within its part.
    fn rail(&self, device: u32) -> u32 {
        device % self.part / (self.part / self.nics)
    }

    /// Returns the node of a shared NIC.
    fn nic(&self, part: u32, rail: u32) -> Option<u32> {
        self.first_nic.map(|first| first + part * self.nics + rail)
    }

    /// Returns the node of a part's leaf switch.
    fn leaf(&self, part: u32) -> Option<u32> {
        self.first_leaf.map(|first| first + part)
    }

    /// Returns the place of a station, if it is one of this level; `parts` is the number of parts in all groups.
    fn place_of(&self, node: u32, parts: u32) -> Option<StationPosition> {
        let among = |first: Option<u32>, count: u32| {
            first.and_then(|first| node.checked_sub(first)).filter(|index| *index < count)
        };
        if let Some(index) = among(self.first_nic, parts * self.nics) {
            return Some(StationPosition::Nic { part: index / self.nics, rail: index % self.nics });
        }
        among(self.first_leaf, parts).map(|part| StationPosition::Leaf { part })
    }

    /// Returns the next part on the way between two parts of one group.
    fn next_part(&self, from: u32, to: u32) -> u32 {
        let group = from / self.count * self.count;
        let Some(sides) = self.topology.sides(self.count) else { return to };
        group + on_grid(from - group, to - group, sides, self.topology.wraps())
    }

    /// Returns the wires of this level that lead from one node to another.
    fn crossing(&self) -> impl Iterator<Item = LevelWire> {
        let nic = self.first_nic.map(|_| [LevelWire::ToNic, LevelWire::FromNic]);
        let leaf = self.first_leaf.map(|_| [LevelWire::Up, LevelWire::Down]);
        let stations = nic.into_iter().chain(leaf).flatten();
        std::iter::once(LevelWire::Link).chain(stations)
    }
}

/// Returns the next number on a grid, x before y before z.
fn on_grid(from: u32, to: u32, sides: [u32; 3], wraps: bool) -> u32 {
    let mut stride = 1;
    for side in sides {
        let (at, to) = (from / stride % side, to / stride % side);
        if at != to {
            let next = if wraps { around(at, to, side) } else { toward(at, to) };
            return from - at * stride + next * stride;
        }
        stride *= side;
    }
    unreachable!("NET-1: the ends of a way differ")
}

/// Returns the next number from `at` to `to` on a line.
fn toward(at: u32, to: u32) -> u32 {
    if to > at { at + 1 } else { at - 1 }
}

/// Returns the next number from `at` to `to` on a ring of `count`: the shorter direction; if equal, up from even numbers and
/// down from odd ones (NET-2). Ways are equal at the sender only: after one step one of them is shorter.
fn around(at: u32, to: u32, count: u32) -> u32 {
    let distance_up = (to + count - at) % count;
    let goes_up = match distance_up.cmp(&(count - distance_up)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => at.is_multiple_of(2),
    };
    if goes_up { (at + 1) % count } else { (at + count - 1) % count }
}

#[cfg(test)]
mod tests;
