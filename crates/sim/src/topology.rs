//! The numbers and names of SIPs, cubes and PEs, and the routes between SIPs.
//!
//! - **NET-1 (shortest).** A route has the fewest hops of its topology, along x (columns) first, then y.
//! - **NET-2 (fixed).** Of two routes of equal length, the one whose next SIP has the lower number is taken, so a route is
//!   a function of its ends.

use crate::record::Resource;
use crate::spec::{SipsSpec, Topology};
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

/// The routes between SIPs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    topology: Topology,
    count: u32,
}

impl Network {
    /// Creates the network of a machine.
    pub(crate) fn new(sips: &SipsSpec) -> Self {
        Self { topology: sips.topology, count: sips.count }
    }

    /// True if all messages share one port at each end.
    pub(crate) fn is_switched(&self) -> bool {
        self.topology == Topology::Switch
    }

    /// Returns the number of the port toward the neighbour `next`: its own, or the shared port of a switch.
    pub(crate) fn port(&self, next: u32) -> u32 {
        if self.is_switched() { Resource::SWITCH } else { next }
    }

    /// Returns the next SIP on the route from `from` to `to`.
    ///
    /// # Panics
    ///
    /// If the two are the same.
    pub(crate) fn next_hop(&self, from: u32, to: u32) -> u32 {
        assert!(from != to, "NET-1: no hop from sip{from} to itself");
        match self.topology {
            Topology::Ring1d => around(from, to, self.count),
            Topology::Mesh2d { columns, .. } => {
                grid(from, to, columns, |at, to, _| toward(at, to), columns)
            }
            Topology::Torus2d { rows, columns } => grid(from, to, columns, around, rows),
            Topology::FullyConnected | Topology::Switch => to,
        }
    }

    /// Returns the SIPs from `from` to `to`, both included.
    pub(crate) fn route(&self, from: u32, to: u32) -> Vec<u32> {
        let mut route = vec![from];
        let mut at = from;
        while at != to {
            at = self.next_hop(at, to);
            route.push(at);
        }
        route
    }

    /// Returns the number of links between two SIPs.
    pub(crate) fn hops(&self, from: u32, to: u32) -> u32 {
        u32::try_from(self.route(from, to).len() - 1).expect("fewer hops than SIPs")
    }
}

/// Returns the next number from `at` to `to` on a line.
fn toward(at: u32, to: u32) -> u32 {
    if to > at { at + 1 } else { at - 1 }
}

/// Returns the next number from `at` to `to` on a ring of `count`: the shorter direction, the lower neighbour if equal (NET-2).
fn around(at: u32, to: u32, count: u32) -> u32 {
    let up = (at + 1) % count;
    let down = (at + count - 1) % count;
    let distance_up = (to + count - at) % count;
    match distance_up.cmp(&(count - distance_up)) {
        std::cmp::Ordering::Less => up,
        std::cmp::Ordering::Greater => down,
        std::cmp::Ordering::Equal => up.min(down),
    }
}

/// Returns the next number on a grid, x before y; `step` moves along one row or column of the given length.
fn grid(from: u32, to: u32, columns: u32, step: impl Fn(u32, u32, u32) -> u32, rows: u32) -> u32 {
    let ((y, x), (to_y, to_x)) = ((from / columns, from % columns), (to / columns, to % columns));
    if x == to_x { step(y, to_y, rows) * columns + x } else { y * columns + step(x, to_x, columns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WireSpec;
    use proptest::prelude::*;

    fn network(topology: Topology, count: u32) -> Network {
        Network::new(&SipsSpec { count, topology, link: WireSpec::FREE })
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
            let route = network(topology, count).route(from, to);
            prop_assert_eq!(route.len() - 1, distance(topology, count, from, to) as usize, "NET-1: {:?}", route);
            let turns = route.windows(2).map(|w| w[0] % columns == w[1] % columns).collect::<Vec<_>>();
            prop_assert!(turns.is_sorted(), "NET-1: y before x in {:?}", route);
        }
    }

    #[test]
    fn net_2_ties_go_to_the_lower_neighbour() {
        let ring = network(Topology::Ring1d, 8);
        assert_eq!(ring.route(0, 4), [0, 1, 2, 3, 4], "NET-2");
        assert_eq!(ring.route(3, 7), [3, 2, 1, 0, 7], "NET-2");
        assert_eq!(ring.route(0, 5), [0, 7, 6, 5]);
        assert_eq!(network(Topology::Ring1d, 2).route(1, 0), [1, 0]);
        assert_eq!(network(Topology::Switch, 9).hops(3, 7), 1);
    }
}
