//! The numbers and names of SIPs, cubes and PEs, and the routes between SIPs.
//!
//! - **NET-1 (shortest).** A route has the fewest hops of its topology, along x (columns) first, then y.
//! - **NET-2 (fixed and spread).** A route is a function of its ends. Of two equal ways round a ring (or a row or a column
//!   of a torus), a sender with an even coordinate goes up and a sender with an odd coordinate goes down. If all SIPs send
//!   alike, both directions carry the same, and so does every link. Rings of 6, 10, 14, ... are the exception: an odd
//!   number of messages between opposites shares each pair of links, so links differ by one message of each such pair.

use crate::record::Resource;
use crate::spec::{SipsSpec, Topology};
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
    use std::collections::BTreeMap;

    fn network(topology: Topology, count: u32) -> Network {
        Network::new(&SipsSpec {
            count,
            topology,
            link: WireSpec::FREE,
            forwarding: crate::spec::Forwarding::default(),
        })
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

    /// Counts the messages on every link when each SIP sends one message to each other SIP; the key is (from, to).
    fn all_to_all(network: Network) -> BTreeMap<(u32, u32), u32> {
        let mut load = BTreeMap::new();
        for (from, to) in pairs(network.count) {
            for hop in network.route(from, to).windows(2) {
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
            let load = all_to_all(network(Topology::Ring1d, count));
            let (least, most) = span(load.values().copied());
            prop_assert_eq!(most - least, unavoidable(count), "NET-2: {:?}", load);
            let up = |(from, to): &(u32, u32)| (from + 1) % count == *to;
            let sum = |wanted| load.iter().filter(|(link, _)| up(link) == wanted).map(|(_, n)| n).sum::<u32>();
            prop_assert!(count == 2 || sum(true) == sum(false), "NET-2: {:?}", load);
        }

        #[test]
        fn net_2_all_links_of_a_dimension_of_a_torus_carry_the_same(rows in 1..10u32, columns in 1..10u32) {
            let load = all_to_all(network(Topology::Torus2d { rows, columns }, rows * columns));
            let is_x = |(from, to): &(u32, u32)| from / columns == to / columns;
            for (x, size, each) in [(true, columns, rows), (false, rows, columns)] {
                let (least, most) = span(load.iter().filter(|(link, _)| is_x(link) == x).map(|(_, n)| *n));
                prop_assert_eq!(most - least, unavoidable(size) * each, "NET-2: x {}: {:?}", x, load);
            }
        }
    }

    #[test]
    fn net_2_both_directions_carry_the_same_between_opposites() {
        for count in (4..40).step_by(2) {
            let ring = network(Topology::Ring1d, count);
            let up =
                |sip: &u32| ring.next_hop(*sip, (sip + count / 2) % count) == (sip + 1) % count;
            assert_eq!((0..count).filter(up).count() * 2, count as usize, "NET-2: {count} SIPs");
        }
    }

    #[test]
    fn net_2_ties_go_up_from_even_numbers_and_down_from_odd_ones() {
        let ring = network(Topology::Ring1d, 8);
        assert_eq!(ring.route(0, 4), [0, 1, 2, 3, 4], "NET-2");
        assert_eq!(ring.route(4, 0), [4, 5, 6, 7, 0], "NET-2");
        assert_eq!(ring.route(3, 7), [3, 2, 1, 0, 7], "NET-2");
        assert_eq!(ring.route(0, 5), [0, 7, 6, 5]);
        assert_eq!(network(Topology::Ring1d, 2).route(1, 0), [1, 0]);
        assert_eq!(network(Topology::Switch, 9).hops(3, 7), 1);
    }
}
