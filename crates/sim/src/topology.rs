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

use crate::ipcq::InSwitch;
use crate::record::Resource;
use crate::spec::{InSwitchSpec, LevelSpec, MachineSpec, Topology, WireSpec};
use crate::time::{Rate, Time};
use std::cmp::Ordering;
use std::fmt;

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

impl PeId {
    /// Returns the first PE of a SIP.
    pub const fn first(sip: u32) -> Self {
        Self { sip, cube: 0, pe: 0 }
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

/// One level of the network: parts of equal size, and what connects them.
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
    pub(crate) fn place(&self, node: u32) -> Option<(usize, Place)> {
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
            Place::Nic { part, .. } if part == there => {
                let port = if level.is_switch() { Resource::switch_in(number) } else { to };
                (to, port, LevelWire::FromNic, Some(small(number)))
            }
            Place::Nic { part, rail } if !level.is_switch() => {
                let part = level.next_part(part, there);
                let next = level.nic(part, rail).expect("NET-3: all parts share their NICs");
                (next, next, LevelWire::Link, None)
            }
            Place::Nic { part, .. } => match level.leaf(part) {
                Some(leaf) => (leaf, out, LevelWire::Link, None),
                None => (into_part().0, out, LevelWire::Link, None),
            },
            Place::Leaf { part } if part == there => {
                let (next, ingress) = into_part();
                (next, Resource::switch_in(number), LevelWire::Down, ingress)
            }
            Place::Leaf { .. } => {
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
pub(crate) enum Place {
    Nic { part: u32, rail: u32 },
    Leaf { part: u32 },
}

impl Place {
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
    fn place_of(&self, node: u32, parts: u32) -> Option<Place> {
        let among = |first: Option<u32>, count: u32| {
            first.and_then(|first| node.checked_sub(first)).filter(|index| *index < count)
        };
        if let Some(index) = among(self.first_nic, parts * self.nics) {
            return Some(Place::Nic { part: index / self.nics, rail: index % self.nics });
        }
        among(self.first_leaf, parts).map(|part| Place::Leaf { part })
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

/// The wires of a level.
struct LevelWires {
    link: WireSpec,
    nic: [WireSpec; 2],
    leaf: [WireSpec; 2],
    ingress: WireSpec,
}

/// Returns the link of messages that a switch copies or combines.
fn in_switch(link: WireSpec, spec: Option<InSwitchSpec>) -> WireSpec {
    let InSwitchSpec { efficiency, start } = spec.unwrap_or_default();
    WireSpec { bandwidth: efficiency.of(link.bandwidth), latency: link.latency + start }
}

impl LevelWires {
    /// Returns the wires of a level (NET-4).
    fn new(spec: &LevelSpec, part: u32) -> Self {
        let WireSpec { bandwidth, latency } = spec.link.wire();
        let pcie = spec.pcie.unwrap_or(WireSpec::FREE);
        let shares = spec.shares_nics(part);
        // A way to a shared NIC without a cost of its own takes a quarter of the latency at each end.
        let side = match spec.pcie {
            Some(pcie) => pcie.latency,
            None if shares => Time::ps(latency.as_ps() / 4),
            None => Time::ZERO,
        };
        let middle = if spec.pcie.is_none() && shares { latency - side - side } else { latency };
        let third = Time::ps(middle.as_ps() / 3);
        let up = bandwidth.scaled(spec.nics.into(), spec.oversubscription.into());
        let own = if shares { bandwidth } else { bandwidth.least(pcie.bandwidth) };
        let end = if shares { Time::ZERO } else { side };
        let is_leafy = spec.oversubscription > 1;
        let link = WireSpec {
            bandwidth: own,
            latency: if is_leafy { third + end } else { middle + end + end },
        };
        let into = if spec.topology == Topology::Switch { bandwidth } else { Rate::UNLIMITED };
        Self {
            link,
            nic: [
                WireSpec { bandwidth: pcie.bandwidth, latency: side },
                WireSpec { bandwidth: into, latency: side },
            ],
            leaf: [
                WireSpec { bandwidth: up, latency: middle - third - third },
                WireSpec { bandwidth: up, latency: third + end },
            ],
            ingress: WireSpec {
                bandwidth: if shares { pcie.bandwidth } else { own },
                latency: Time::ZERO,
            },
        }
    }

    fn in_order(self) -> [WireSpec; 6] {
        let Self { link, nic: [to_nic, from_nic], leaf: [up, down], ingress } = self;
        [link, to_nic, from_nic, up, down, ingress]
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn network(topology: Topology, count: u32) -> Network {
        let mut spec = MachineSpec::preset("bare").unwrap();
        (spec.sips.count, spec.sips.topology) = (count, topology);
        Network::new(&spec)
    }

    /// Returns the nodes from `from` to `to`, both included.
    fn route(network: &Network, from: u32, to: u32) -> Vec<u32> {
        let mut route = vec![from];
        let mut at = from;
        while at != to {
            at = network.hop(at, to).next;
            route.push(at);
        }
        route
    }

    /// Returns the shortest distance of two SIPs.
    fn distance(topology: Topology, count: u32, from: u32, to: u32) -> u32 {
        let (rows, columns) = match topology {
            Topology::Mesh2d { rows, columns } | Topology::Torus2d { rows, columns } => {
                (rows, columns)
            }
            _ => (1, count),
        };
        let wrap = !matches!(topology, Topology::Mesh2d { .. });
        let line = |a: u32, b: u32, n: u32| {
            let direct = a.abs_diff(b);
            if wrap { direct.min(n - direct) } else { direct }
        };
        line(from % columns, to % columns, columns) + line(from / columns, to / columns, rows)
    }

    proptest! {
        #[test]
        fn net_1_routes_are_shortest_and_x_comes_first(rows in 1..6u32, columns in 1..7u32, wrap: bool, seed: u32) {
            let count = rows * columns;
            let topology =
                if wrap { Topology::Torus2d { rows, columns } } else { Topology::Mesh2d { rows, columns } };
            let (from, to) = (seed % count, (seed / 97) % count);
            let route = route(&network(topology, count), from, to);
            prop_assert_eq!(route.len() - 1, distance(topology, count, from, to) as usize, "NET-1: {:?}", route);
            let turns = route.windows(2).map(|w| w[0] % columns == w[1] % columns).collect::<Vec<_>>();
            prop_assert!(turns.is_sorted(), "NET-1: y before x in {:?}", route);
        }
    }

    /// Counts the messages on every link when each SIP sends one message to each other SIP; the key is (from, to).
    fn all_to_all(network: &Network) -> BTreeMap<(u32, u32), u32> {
        let mut load = BTreeMap::new();
        for (from, to) in pairs(network.devices) {
            for hop in route(network, from, to).windows(2) {
                *load.entry((hop[0], hop[1])).or_default() += 1;
            }
        }
        load
    }

    fn pairs(count: u32) -> impl Iterator<Item = (u32, u32)> {
        let ends = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
        ends.filter(|(from, to)| from != to)
    }

    /// Returns the least and the most of some loads.
    fn span(load: impl Iterator<Item = u32> + Clone) -> (u32, u32) {
        (load.clone().min().unwrap_or(0), load.max().unwrap_or(0))
    }

    /// Returns the difference of loads that a ring of `size` cannot avoid, in messages for each pair of ends.
    fn unavoidable(size: u32) -> u32 {
        u32::from(size > 2 && size % 4 == 2)
    }

    proptest! {
        #[test]
        fn net_2_all_links_of_a_ring_carry_the_same(count in 2..40u32) {
            let load = all_to_all(&network(Topology::Ring1d, count));
            let (least, most) = span(load.values().copied());
            prop_assert_eq!(most - least, unavoidable(count), "NET-2: {:?}", load);
            let up = |(from, to): &(u32, u32)| (from + 1) % count == *to;
            let sum = |wanted| load.iter().filter(|(link, _)| up(link) == wanted).map(|(_, n)| n).sum::<u32>();
            prop_assert!(count == 2 || sum(true) == sum(false), "NET-2: {:?}", load);
        }

        #[test]
        fn net_2_all_links_of_a_dimension_of_a_torus_carry_the_same(rows in 1..10u32, columns in 1..10u32) {
            let load = all_to_all(&network(Topology::Torus2d { rows, columns }, rows * columns));
            let is_x = |(from, to): &(u32, u32)| from / columns == to / columns;
            for (x, size, each) in [(true, columns, rows), (false, rows, columns)] {
                let (least, most) = span(load.iter().filter(|(link, _)| is_x(link) == x).map(|(_, n)| *n));
                prop_assert_eq!(most - least, unavoidable(size) * each, "NET-2: x {}: {:?}", x, load);
            }
        }
    }

    /// Returns a machine of three levels; `kinds` choose topologies, `shares` the devices of a NIC.
    fn tower(kinds: [u8; 3], counts: [u32; 3], shares: [u32; 2], ratios: [u32; 2]) -> MachineSpec {
        let mut spec = MachineSpec::preset("bare").unwrap();
        let topology = |kind: u8, count: u32| match kind {
            0 => Topology::Ring1d,
            1 => Topology::FullyConnected,
            2 => Topology::Mesh3d { layers: count, rows: 1, columns: 1 },
            _ => Topology::Switch,
        };
        (spec.sips.count, spec.sips.topology) = (counts[0], topology(kinds[0], counts[0]));
        let mut part = counts[0];
        for number in 0..2 {
            let (kind, count) = (kinds[number + 1], counts[number + 1]);
            let share = if part.is_multiple_of(shares[number]) { shares[number] } else { 1 };
            let pcie = WireSpec { bandwidth: Rate::UNLIMITED, latency: Time::ns(3) };
            spec.levels.push(LevelSpec {
                name: ["node", "pod"][number].to_owned(),
                count,
                topology: topology(kind, count),
                link: WireSpec { bandwidth: Rate::UNLIMITED, latency: Time::ps(7_001) }.into(),
                nics: part / share,
                pcie: (ratios[number] % 2 == 0).then_some(pcie),
                oversubscription: if kind > 2 { ratios[number] } else { 1 },
                multicast: None,
                reduction: None,
            });
            part *= count;
        }
        spec
    }

    fn towers() -> impl Strategy<Value = MachineSpec> {
        let kinds = prop::array::uniform3(0..5u8);
        let counts = prop::array::uniform3(1..5u32);
        let shares = prop::array::uniform2(1..4u32);
        let ratios = prop::array::uniform2(1..4u32);
        (kinds, counts, shares, ratios)
            .prop_map(|(kinds, counts, shares, ratios)| tower(kinds, counts, shares, ratios))
    }

    proptest! {
        #[test]
        fn net_3_every_route_ends_and_stays_inside_the_group_where_its_ends_meet(spec in towers(), seed: u32) {
            let network = Network::new(&spec);
            let (from, to) = (seed % spec.devices(), seed / 97 % spec.devices());
            let nodes = route(&network, from, to);
            let level = (0..spec.level_count()).find(|level| spec.group_of(from, *level) == spec.group_of(to, *level));
            let level = level.unwrap();
            prop_assert!(nodes.len() <= 40, "NET-3: {:?}", nodes);
            for node in nodes {
                let device = match network.place(node) {
                    None => node,
                    Some((number, place)) => place.part() * spec.part_size(number),
                };
                prop_assert_eq!(spec.group_of(device, level), spec.group_of(from, level), "NET-3: node {}", node);
            }
        }

        #[test]
        fn net_4_the_latencies_of_a_way_between_parts_add_up(spec in towers(), seed: u32) {
            let network = Network::new(&spec);
            let (from, to) = (seed % spec.devices(), seed / 97 % spec.devices());
            let lookahead = network.lookahead();
            let mut at = from;
            while at != to {
                let hop = network.hop(at, to);
                prop_assert!(lookahead.unwrap() <= network.wire(hop.class).latency, "NET-4");
                prop_assert!(network.wire(hop.class).latency > Time::ZERO, "NET-4: PAR-1");
                at = hop.next;
            }
            let level = network.level_of(from, to);
            if level > 0 && spec.levels[level - 1].topology == Topology::Switch {
                let LevelSpec { link, pcie, .. } = &spec.levels[level - 1];
                let ends = pcie.map_or(Time::ZERO, |pcie| pcie.latency);
                prop_assert_eq!(network.way(from, to).latency, link.latency + ends + ends, "NET-4");
            }
        }
    }

    #[test]
    fn net_2_both_directions_carry_the_same_between_opposites() {
        for count in (4..40).step_by(2) {
            let ring = network(Topology::Ring1d, count);
            let up =
                |sip: &u32| ring.hop(*sip, (sip + count / 2) % count).next == (sip + 1) % count;
            assert_eq!((0..count).filter(up).count() * 2, count as usize, "NET-2: {count} SIPs");
        }
    }

    #[test]
    fn net_2_ties_go_up_from_even_numbers_and_down_from_odd_ones() {
        let ring = network(Topology::Ring1d, 8);
        assert_eq!(route(&ring, 0, 4), [0, 1, 2, 3, 4], "NET-2");
        assert_eq!(route(&ring, 4, 0), [4, 5, 6, 7, 0], "NET-2");
        assert_eq!(route(&ring, 3, 7), [3, 2, 1, 0, 7], "NET-2");
        assert_eq!(route(&ring, 0, 5), [0, 7, 6, 5]);
        assert_eq!(route(&network(Topology::Ring1d, 2), 1, 0), [1, 0]);
        assert_eq!(network(Topology::Switch, 9).way(3, 7).hops, 1);
    }
}
