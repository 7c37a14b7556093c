//! Routes: shortest, spread, and inside their groups.

use super::*;
use crate::time::Rate;
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
        Topology::Mesh2d { rows, columns } | Topology::Torus2d { rows, columns } => (rows, columns),
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
            pcie: ratios[number].is_multiple_of(2).then_some(pcie),
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
        let up = |sip: &u32| ring.hop(*sip, (sip + count / 2) % count).next == (sip + 1) % count;
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
