//! The least time that the links and the memories allow for a collective, by any algorithm.
//!
//! - **LNK-1 (a bound).** No algorithm is faster. The bound is the largest of these: the bytes that a rank must send or receive
//!   over its links; the bytes that all ranks together must send, over all links, each byte counted on every link of its shortest
//!   way; the bytes that must cross the middle of each dimension.
//! - **LNK-2 (memories).** A rank, the root above all, loads its input and stores its output. Each is in one piece in the memory of one
//!   cube, which serves one after the other. A machine with a cache has no such bound: what was stored last may be in the cache.
//!
//! On a machine with levels, groups of SIPs count like ranks with the bandwidth of their NICs, and a rank has the links of its group and
//! its share of the NICs. A switch that combines and copies messages spares an all-reduce half of the bytes.
//!
//! Latency is not in it, so that a share of it tells how well the bandwidth is used.

use crate::ccl::algorithm::Operation;
use phalanx_sim::spec::{InSwitchSpec, Topology};
use phalanx_sim::{MachineSpec, Time};

/// Returns the least time that links allow for a collective of all SIPs, of `bytes` in the larger of input and output,
/// with root 0; `None` if they set no limit.
pub fn link_limit(machine: &MachineSpec, operation: Operation, bytes: u64) -> Option<Time> {
    let seconds = (0..machine.level_count())
        .filter_map(|level| seconds_for_a_byte(machine, operation, level))
        .fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "a bound is compared, not added up")]
    let picoseconds = seconds * bytes as f64 * 1e12;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a short time")]
    let time = Time::ps(picoseconds as u64);
    (time > Time::ZERO).then_some(time)
}

/// Returns the least time that the memory of a rank allows for a collective of all SIPs out of place, of `bytes` in the larger of
/// input and output (LNK-2); `None` if it sets no limit.
pub fn memory_limit(machine: &MachineSpec, operation: Operation, bytes: u64) -> Option<Time> {
    if machine.cache.is_some() {
        return None;
    }
    let ranks = u64::from(machine.devices()).max(1);
    let shorter = match operation {
        Operation::AllReduce | Operation::Broadcast | Operation::Reduce | Operation::AllToAll => {
            bytes
        }
        Operation::ReduceScatter
        | Operation::AllGather
        | Operation::Scatter
        | Operation::Gather => bytes / ranks,
    };
    let time = machine.hbm.wire().bandwidth.time_for(bytes.saturating_add(shorter));
    (time > Time::ZERO).then_some(time)
}

/// The least time that the links of a level allow for each byte of the vector; `None` if they set no limit.
fn seconds_for_a_byte(machine: &MachineSpec, operation: Operation, level: usize) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a bound is compared, not added up")]
    let bandwidth = |level| Some(machine.link_of(level).bandwidth.as_per_second()? as f64);
    let (topology, count) = machine.topology_of(level);
    let network = Network::of(topology, count);
    let Some(above) = level.checked_sub(1) else {
        let in_switch = |able: &Option<InSwitchSpec>| able.is_some();
        let combines = in_switch(&machine.sips.multicast) && in_switch(&machine.sips.reduction);
        if machine.levels.is_empty() {
            return Some(network?.most_on_a_link(operation, combines) / bandwidth(0)?);
        }
        // A rank has the links of its group, and a share of its NICs.
        let degree = network.map_or(0.0, |network| network.degree);
        let nics = machine.levels.iter().zip(1..).map(|(spec, level)| {
            let devices = f64::from(machine.part_size(level));
            Some(bandwidth(level)? * (f64::from(spec.nics) / devices).min(1.0))
        });
        let own = if degree > 0.0 { degree * bandwidth(0)? } else { 0.0 };
        let all = own + nics.sum::<Option<f64>>()?;
        let flat = Network::of(Topology::Switch, machine.devices())?;
        return Some(flat.most_on_a_link(operation, combines) / all);
    };
    let spec = &machine.levels[above];
    let group = bandwidth(level)? * f64::from(spec.nics) / f64::from(spec.oversubscription.max(1));
    // Every SIP of a group has blocks for every SIP of another group.
    let devices = f64::from(machine.part_size(level));
    let more = if operation == Operation::AllToAll { devices } else { 1.0 };
    let combines = spec.multicast.is_some() && spec.reduction.is_some();
    Some(network?.most_on_a_link(operation, combines) * more / group)
}

/// The links between units that are alike: SIPs, or groups of them.
struct Network {
    units: f64,
    /// Links of the unit with the fewest, in one direction.
    degree: f64,
    /// All links, each direction counted.
    links: f64,
    /// Links on all shortest ways between two units, and on those from the first unit.
    hops: f64,
    hops_of_root: f64,
    /// Ways to cut the units into two parts: the units of the first part, and the links out of it.
    cuts: Vec<(f64, f64)>,
}

impl Network {
    fn of(topology: Topology, count: u32) -> Option<Self> {
        if count < 2 {
            return None;
        }
        let p = f64::from(count);
        let flat = |degree: f64| Self {
            units: p,
            degree,
            links: p * degree,
            hops: p * (p - 1.0),
            hops_of_root: p - 1.0,
            cuts: Vec::new(),
        };
        Some(match topology.sides(count) {
            Some(sides) => Self::grid(&sides, topology.wraps()),
            None if topology == Topology::Switch => flat(1.0),
            None => flat(p - 1.0),
        })
    }

    /// A grid with so many places in each dimension, which may be rings.
    fn grid(places: &[u32], wraps: bool) -> Self {
        let units: f64 = places.iter().map(|count| f64::from(*count)).product();
        let mut grid =
            Self { units, degree: 0.0, links: 0.0, hops: 0.0, hops_of_root: 0.0, cuts: Vec::new() };
        for &count in places.iter().filter(|count| **count > 1) {
            let c = f64::from(count);
            let lines = units / c;
            let doubled = wraps && count > 2;
            grid.degree += if doubled { 2.0 } else { 1.0 };
            grid.links += lines * if doubled { 2.0 * c } else { 2.0 * (c - 1.0) };
            let distance = |from: u32, to: u32| {
                let direct = from.abs_diff(to);
                f64::from(if wraps { direct.min(count - direct) } else { direct })
            };
            let from = |from: u32| (0..count).map(|to| distance(from, to)).sum::<f64>();
            grid.hops += (0..count).map(from).sum::<f64>() * lines * lines;
            grid.hops_of_root += from(0) * lines;
            grid.cuts.push((f64::from(count / 2) * lines, lines * if doubled { 2.0 } else { 1.0 }));
        }
        grid
    }

    /// The bytes on the most loaded link, at best, for each byte of the vector; a switch may combine and copy messages.
    fn most_on_a_link(&self, operation: Operation, combines: bool) -> f64 {
        let Self { units, degree, links, hops, hops_of_root, .. } = *self;
        let rest = (units - 1.0) / units;
        // The data that one unit must send or receive, that all must send, and that must leave a part of so many units.
        let (one, all, cut): (f64, f64, &dyn Fn(f64) -> f64) = match operation {
            Operation::AllReduce if combines => (1.0, units, &|_| 1.0),
            Operation::AllReduce => (1.0, 2.0 * (units - 1.0), &|_| 1.0),
            Operation::ReduceScatter | Operation::AllGather => {
                (rest, units - 1.0, &|inside| (units - inside) / units)
            }
            Operation::Broadcast | Operation::Reduce => (1.0, units - 1.0, &|_| 1.0),
            Operation::Scatter | Operation::Gather => {
                (rest, hops_of_root / units, &|inside| (units - inside) / units)
            }
            Operation::AllToAll => {
                (rest, hops / units, &|inside| inside * (units - inside) / units)
            }
        };
        let through_cuts = self.cuts.iter().map(|(inside, links)| cut(*inside) / links);
        through_cuts.fold((one / degree).max(all / links), f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes on the most loaded link for each byte of the vector.
    fn most(topology: Topology, count: u32, operation: Operation) -> f64 {
        Network::of(topology, count).unwrap().most_on_a_link(operation, false)
    }

    #[test]
    fn lnk_1_the_bounds_of_the_field() {
        let near = |topology, count, operation, expected: f64| {
            let got = most(topology, count, operation);
            assert!((got - expected).abs() < 1e-9, "LNK-1: {topology:?}, {operation}: {got}");
        };
        near(Topology::Switch, 8, Operation::AllReduce, 2.0 * 7.0 / 8.0);
        near(Topology::Switch, 8, Operation::AllGather, 7.0 / 8.0);
        near(Topology::Switch, 8, Operation::AllToAll, 7.0 / 8.0);
        near(Topology::FullyConnected, 8, Operation::AllReduce, 2.0 / 8.0);
        near(Topology::FullyConnected, 8, Operation::Broadcast, 1.0 / 7.0);
        near(Topology::Ring1d, 8, Operation::AllReduce, 7.0 / 8.0);
        near(Topology::Ring1d, 8, Operation::ReduceScatter, 7.0 / 16.0);
        near(Topology::Ring1d, 8, Operation::Scatter, 7.0 / 16.0);
        near(Topology::Ring1d, 8, Operation::AllToAll, 1.0);
        near(Topology::Ring1d, 2, Operation::AllReduce, 1.0);
        let torus = Topology::Torus2d { rows: 4, columns: 4 };
        near(torus, 16, Operation::AllReduce, 2.0 * 15.0 / 16.0 / 4.0);
        near(torus, 16, Operation::AllGather, 15.0 / 16.0 / 4.0);
        near(torus, 16, Operation::Broadcast, 1.0 / 4.0);
        near(torus, 16, Operation::AllToAll, 0.5);
        let mesh = Topology::Mesh2d { rows: 4, columns: 4 };
        near(mesh, 16, Operation::AllGather, 15.0 / 16.0 / 2.0);
        near(mesh, 16, Operation::AllReduce, 2.0 * 15.0 / 48.0);
        near(mesh, 16, Operation::AllToAll, 1.0);
        let cube = Topology::Torus3d { layers: 4, rows: 4, columns: 4 };
        near(cube, 64, Operation::AllReduce, 2.0 * 63.0 / 64.0 / 6.0);
        near(cube, 64, Operation::AllGather, 63.0 / 64.0 / 6.0);
        near(cube, 64, Operation::Broadcast, 1.0 / 6.0);
    }

    #[test]
    fn lnk_2_a_memory_loads_the_input_and_stores_the_output() {
        let limit = |name: &str, operation| {
            let machine = MachineSpec::preset(name).unwrap();
            let limits =
                [link_limit, memory_limit].map(|limit| limit(&machine, operation, 1 << 30));
            limits.map(|limit| limit.map_or(0, |time| time.as_ps() / 1_000))
        };
        // A stack has 1 TB/s, a port 512 GB/s.
        let [links, memory] = limit("pod-64", Operation::AllToAll);
        assert_eq!(memory, (2 << 30) / 1_000, "LNK-2");
        assert!(links < memory, "LNK-2: {links}");
        let [links, memory] = limit("pod-64", Operation::AllGather);
        assert_eq!(memory, ((1 << 30) + (1 << 24)) / 1_000, "LNK-2");
        assert!(links > memory, "LNK-2: {links}");
        assert_eq!(limit("hgx-h100", Operation::AllToAll)[1], 0, "LNK-2: a cache");
        assert_eq!(limit("bare", Operation::AllToAll)[1], 0, "LNK-2: no limit");
    }

    #[test]
    fn lnk_1_groups_have_the_bandwidth_of_their_nics() {
        let nodes = "system.levels=[{name: node, count: 4, topology: switch, nics: 8, \
                     link: {bandwidth: 16 GB/s, latency: 5 us}}]";
        let bare = MachineSpec::preset("bare").unwrap().with("system.sips.topology=switch");
        let machine = bare.unwrap().with(nodes).unwrap();
        let limit = |operation| link_limit(&machine, operation, 1 << 30).unwrap().as_ps() / 1_000;
        let near = |operation, bytes: u64, gigabytes: u64| {
            let (got, expected) = (limit(operation), bytes / gigabytes);
            assert!(got.abs_diff(expected) <= 2, "LNK-1: {operation}: {got} and {expected} ns");
        };
        // A rank has 128 GB/s inside its group and 16 GB/s beyond it, a group has 128 GB/s.
        near(Operation::AllReduce, (2 << 30) * 31 / 32, 144);
        near(Operation::AllToAll, (1 << 30) * 3 / 4 * 8, 128);
    }
}
