//! The way between two SIPs of a machine of levels, leg by leg, from "What things cost" alone.

use super::routes::{Stage, Wire, step_on_grid};
use phalanx_sim::spec::{LevelSpec, Topology, WireSpec};
use phalanx_sim::{Bandwidth, MachineSpec, Time};

/// A part of the way between two SIPs: a wire, and where it leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) stage: Stage,
    pub(crate) next: u32,
    /// The wire into the next SIP, if several wires lead there through it.
    pub(crate) ingress: Option<Stage>,
}

/// The other end of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beyond {
    Node(u32),
    /// The switch of a level.
    Switch(usize),
    /// The NIC or the leaf switch itself: the wire comes from the switch of a level.
    Inward(usize),
}

/// The wires of a level.
#[derive(Clone, Copy)]
struct Costs {
    link: WireSpec,
    to_nic: WireSpec,
    from_nic: WireSpec,
    up: WireSpec,
    down: WireSpec,
    ingress: WireSpec,
}

fn wire(bandwidth: Bandwidth, ps: u64) -> WireSpec {
    WireSpec { bandwidth, latency: Time::ps(ps) }
}

fn slower(one: Bandwidth, other: Bandwidth) -> Bandwidth {
    let rate = |bandwidth: Bandwidth| bandwidth.as_per_second().unwrap_or(u64::MAX);
    if rate(other) < rate(one) { other } else { one }
}

/// Returns the wires of the level above the SIPs whose parts have `part` SIPs.
fn costs(level: &LevelSpec, part: u32) -> Costs {
    let WireSpec { bandwidth, latency } = level.link.wire();
    let (shared, leafy) = (level.nics < part, level.oversubscription > 1);
    let pcie = level.pcie.map_or(Bandwidth::UNLIMITED, |pcie| pcie.bandwidth);
    let (end, between) = match level.pcie {
        Some(pcie) => (pcie.latency.as_ps(), latency.as_ps()),
        None if shared => {
            let end = latency.as_ps() / 4;
            (end, latency.as_ps() - 2 * end)
        }
        None => (0, latency.as_ps()),
    };
    let all = bandwidth.as_per_second().map(|rate| {
        let sum = u128::from(rate) * u128::from(level.nics) / u128::from(level.oversubscription);
        Bandwidth::per_second(u64::try_from(sum).unwrap().max(1)).unwrap()
    });
    let all = all.unwrap_or(Bandwidth::UNLIMITED);
    let third = between / 3;
    // Without a NIC of its own, the first and the last wire include the way to the NIC.
    let (own, extra) = if shared { (bandwidth, 0) } else { (slower(bandwidth, pcie), end) };
    let into = if level.topology == Topology::Switch { bandwidth } else { Bandwidth::UNLIMITED };
    Costs {
        link: wire(own, if leafy { third + extra } else { between + 2 * extra }),
        to_nic: wire(pcie, end),
        from_nic: wire(into, end),
        up: wire(all, between - 2 * third),
        down: wire(all, third + extra),
        ingress: wire(if shared { pcie } else { own }, 0),
    }
}

/// A level of a machine, as the way sees it.
struct View<'a> {
    spec: &'a MachineSpec,
    number: usize,
    topology: Topology,
    count: u32,
    part: u32,
    nics: u32,
    shared: bool,
    leafy: bool,
    costs: Costs,
}

impl<'a> View<'a> {
    fn new(spec: &'a MachineSpec, number: usize) -> Self {
        let (topology, count) = spec.topology_of(number);
        let part = spec.part_size(number);
        let Some(above) = number.checked_sub(1) else {
            let link = spec.sips.link.wire();
            let costs =
                Costs { link, to_nic: link, from_nic: link, up: link, down: link, ingress: link };
            return Self {
                spec,
                number,
                topology,
                count,
                part,
                nics: 1,
                shared: false,
                leafy: false,
                costs,
            };
        };
        let level = &spec.levels[above];
        let (shared, leafy) = (level.nics < part, level.oversubscription > 1);
        let costs = costs(level, part);
        Self { spec, number, topology, count, part, nics: level.nics, shared, leafy, costs }
    }

    fn parts(&self) -> u32 {
        self.spec.devices() / self.part
    }

    fn rail(&self, sip: u32) -> u32 {
        sip % self.part * self.nics / self.part
    }

    /// Returns the number of the first station: levels in order, each its NICs and then its leaf switches.
    fn first_station(&self) -> u32 {
        let below = (1..self.number).map(|number| View::new(self.spec, number));
        below.fold(self.spec.devices(), |sum, level| sum + level.stations())
    }

    fn stations(&self) -> u32 {
        let nics = if self.shared { self.parts() * self.nics } else { 0 };
        nics + if self.leafy { self.parts() } else { 0 }
    }

    fn nic(&self, part: u32, rail: u32) -> u32 {
        self.first_station() + part * self.nics + rail
    }

    fn leaf(&self, part: u32) -> u32 {
        let nics = if self.shared { self.parts() * self.nics } else { 0 };
        self.first_station() + nics + part
    }

    /// Returns the parts on the way from one to another, without the first.
    fn parts_between(&self, from: u32, to: u32) -> Vec<u32> {
        let Some([columns, rows, layers]) = self.topology.sides(self.count) else {
            return vec![to];
        };
        let first = from / self.count * self.count;
        let (mut at, mut parts) = (from - first, Vec::new());
        while at != to - first {
            at = step_on_box(at, to - first, [columns, rows, layers], self.topology.wraps());
            parts.push(first + at);
        }
        parts
    }

    fn leg(node: u32, beyond: Beyond, cost: WireSpec, next: u32) -> Leg {
        Leg { stage: Stage { wire: Wire::Port { node, beyond }, cost }, next, ingress: None }
    }

    fn entering(&self, leg: Leg) -> Leg {
        let wire = Wire::Ingress { sip: leg.next, level: self.number };
        Leg { ingress: Some(Stage { wire, cost: self.costs.ingress }), ..leg }
    }

    /// Returns the way through the switch of this level.
    fn through_switch(&self, from: u32, to: u32) -> Vec<Leg> {
        let (out, inward) = (Beyond::Switch(self.number), Beyond::Inward(self.number));
        let (here, there) = (from / self.part, to / self.part);
        let mut nodes = vec![(from, out, self.costs.link)];
        if self.shared {
            let nic = self.nic(here, self.rail(from));
            nodes = vec![(from, Beyond::Node(nic), self.costs.to_nic), (nic, out, self.costs.link)];
        }
        if self.leafy {
            nodes.push((self.leaf(here), out, self.costs.up));
            nodes.push((self.leaf(there), inward, self.costs.down));
        }
        if self.shared {
            nodes.push((self.nic(there, self.rail(to)), inward, self.costs.from_nic));
        }
        self.chain(&nodes, to)
    }

    /// Returns the way over shared NICs that links connect.
    fn over_nics(&self, from: u32, to: u32) -> Vec<Leg> {
        let rail = self.rail(from);
        let mut nics = vec![self.nic(from / self.part, rail)];
        let between = self.parts_between(from / self.part, to / self.part);
        nics.extend(between.into_iter().map(|part| self.nic(part, rail)));
        let mut nodes = vec![(from, Beyond::Node(nics[0]), self.costs.to_nic)];
        nodes.extend(nics.windows(2).map(|pair| (pair[0], Beyond::Node(pair[1]), self.costs.link)));
        nodes.push((*nics.last().unwrap(), Beyond::Node(to), self.costs.from_nic));
        self.chain(&nodes, to)
    }

    /// Returns the legs over some nodes to a SIP.
    fn chain(&self, nodes: &[(u32, Beyond, WireSpec)], to: u32) -> Vec<Leg> {
        let next = |at: usize| nodes.get(at + 1).map_or(to, |(node, ..)| *node);
        let leg = |(at, (node, beyond, cost)): (usize, &(u32, Beyond, WireSpec))| {
            Self::leg(*node, *beyond, *cost, next(at))
        };
        let mut legs: Vec<Leg> = nodes.iter().enumerate().map(leg).collect();
        let last = legs.pop().unwrap();
        legs.push(self.entering(last));
        legs
    }
}

/// Returns the next number in a box, x before y before z.
fn step_on_box(at: u32, to: u32, [columns, rows, layers]: [u32; 3], wraps: bool) -> u32 {
    let flat = rows * columns;
    if at % flat == to % flat {
        // The stacks are lines of their own: columns of a grid of layers.
        return step_on_grid(at, to, layers, flat, wraps);
    }
    at / flat * flat + step_on_grid(at % flat, to % flat, rows, columns, wraps)
}

/// Returns the number of SIPs, shared NICs and leaf switches.
pub(crate) fn nodes(spec: &MachineSpec) -> u32 {
    let levels = (1..spec.level_count()).map(|number| View::new(spec, number).stations());
    spec.devices() + levels.sum::<u32>()
}

/// Returns the way between two SIPs.
pub(crate) fn way(spec: &MachineSpec, from: u32, to: u32) -> Vec<Leg> {
    if from == to {
        return Vec::new();
    }
    let meets = |number: &usize| spec.group_of(from, *number) == spec.group_of(to, *number);
    let view = View::new(spec, (0..spec.level_count()).find(meets).unwrap());
    if view.topology == Topology::Switch {
        return view.through_switch(from, to);
    }
    if view.rail(from) != view.rail(to) {
        // Inside the part, as far as the first SIP that has the NIC of the end.
        let exit = from / view.part * view.part + to % view.part;
        let mut legs = way(spec, from, exit);
        let is_exit = |leg: &Leg| leg.next < spec.devices() && view.rail(leg.next) == view.rail(to);
        let last = legs.iter().position(is_exit).unwrap();
        legs.truncate(last + 1);
        return [legs.clone(), way(spec, legs[last].next, to)].concat();
    }
    if view.shared {
        return view.over_nics(from, to);
    }
    let between = view.parts_between(from / view.part, to / view.part);
    let mut at = from;
    let mut legs = Vec::new();
    for part in between {
        let next = part * view.part + from % view.part;
        legs.push(View::leg(at, Beyond::Node(next), view.costs.link, next));
        at = next;
    }
    legs
}
