//! The least time that the links allow for a collective, by any algorithm.
//!
//! - **LIM-1 (a bound).** No algorithm is faster. The bound is the largest of these: the bytes that a rank must send or receive
//!   over its links; the bytes that all ranks together must send, over all links, each byte counted on every link of its shortest
//!   way; the bytes that must cross the middle of each dimension.
//!
//! Latency is not in it, so that a share of it tells how well the bandwidth is used.

use crate::ccl::algorithm::Operation;
use phalanx_sim::spec::{SipsSpec, Topology};
use phalanx_sim::{MachineSpec, Time};

/// The least time that links allow for a collective of all SIPs, of `bytes` in the larger of input and output, with root 0; `None` if
/// they set no limit.
pub fn link_limit(machine: &MachineSpec, operation: Operation, bytes: u64) -> Option<Time> {
    let bandwidth = machine.sips.link.bandwidth.as_per_second()?;
    let network = Network::of(&machine.sips)?;
    #[expect(clippy::cast_precision_loss, reason = "a bound is compared, not added up")]
    let seconds = network.most_on_a_link(operation) * bytes as f64 / bandwidth as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a short time")]
    let time = Time::ps((seconds * 1e12) as u64);
    Some(time)
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
    fn of(sips: &SipsSpec) -> Option<Self> {
        let count = sips.count;
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
        Some(match sips.topology {
            Topology::Ring1d => Self::grid(&[count], true),
            Topology::Torus2d { rows, columns } => Self::grid(&[columns, rows], true),
            Topology::Mesh2d { rows, columns } => Self::grid(&[columns, rows], false),
            Topology::FullyConnected => flat(p - 1.0),
            Topology::Switch => flat(1.0),
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

    /// The bytes on the most loaded link, at best, for each byte of the vector.
    fn most_on_a_link(&self, operation: Operation) -> f64 {
        let Self { units, degree, links, hops, hops_of_root, .. } = *self;
        let rest = (units - 1.0) / units;
        // What a unit must send or receive, what all must send, and what must leave a part of so many units.
        let (one, all, cut): (f64, f64, &dyn Fn(f64) -> f64) = match operation {
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
        let mut sips = MachineSpec::preset("bare").unwrap().sips;
        (sips.topology, sips.count) = (topology, count);
        Network::of(&sips).unwrap().most_on_a_link(operation)
    }

    #[test]
    fn lim_1_the_bounds_of_the_field() {
        let near = |topology, count, operation, expected: f64| {
            let got = most(topology, count, operation);
            assert!((got - expected).abs() < 1e-9, "LIM-1: {topology:?}, {operation}: {got}");
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
    }
}
