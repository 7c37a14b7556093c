//! Machines of levels: the times of ways between groups, computed by hand.

use crate::support::{bare, roomy, traffic, wire};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::spec::{LevelSpec, LinkSpec, SipsSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::{MachineSpec, Time};

/// Two nodes of four SIPs: 100 B/ns and 10 ns inside, 10 B/ns and 120 ns between NICs.
fn nodes(topology: Topology) -> MachineSpec {
    let node = LevelSpec {
        name: "node".to_owned(),
        count: 2,
        topology,
        link: wire(10, 120).into(),
        nics: 4,
        pcie: None,
        oversubscription: 1,
        multicast: None,
        reduction: None,
    };
    let sips = SipsSpec::new(4, Topology::FullyConnected, wire(100, 10));
    MachineSpec { sips, levels: vec![node], ..bare() }
}

fn with(topology: Topology, change: impl FnOnce(&mut LevelSpec)) -> MachineSpec {
    let mut spec = nodes(topology);
    change(&mut spec.levels[0]);
    spec
}

/// Returns the end of flows of one message each, in nanoseconds.
fn end(spec: &MachineSpec, flows: &[(u32, u32, usize)]) -> u64 {
    let sizes: Vec<[usize; 1]> = flows.iter().map(|(.., bytes)| [*bytes]).collect();
    let flows: Vec<_> = flows
        .iter()
        .zip(&sizes)
        .map(|((from, to, _), sizes)| (PeId::first(*from), PeId::first(*to), &sizes[..]))
        .collect();
    let report = traffic(spec, roomy(), &flows);
    assert_eq!(report.simulated.as_ps() % 1_000, 0);
    report.simulated.as_ps() / 1_000
}

#[test]
fn net_4_a_switch_between_nodes_costs_the_link_of_a_nic() {
    let spec = nodes(Topology::Switch);
    assert_eq!(end(&spec, &[(0, 1, 1_000)]), 10 + 10, "inside a node");
    assert_eq!(end(&spec, &[(0, 6, 1_000)]), 120 + 100, "NET-4");
    // Two NICs send to one: its port is taken twice. Two pairs of NICs do not meet.
    assert_eq!(end(&spec, &[(0, 6, 1_000), (1, 6, 1_000)]), 120 + 200, "NET-4");
    assert_eq!(end(&spec, &[(0, 6, 1_000), (1, 7, 1_000)]), 120 + 100, "NET-4");
}

#[test]
fn net_4_the_way_to_a_nic_adds_its_latency_at_both_ends_and_may_be_the_slowest() {
    let spec = with(Topology::Switch, |node| node.pcie = Some(wire(20, 30)));
    assert_eq!(end(&spec, &[(0, 6, 1_000)]), 30 + 120 + 30 + 100, "NET-4");
    let slow = with(Topology::Switch, |node| node.pcie = Some(wire(5, 30)));
    assert_eq!(end(&slow, &[(0, 6, 1_000)]), 30 + 120 + 30 + 200, "NET-4");
}

#[test]
fn fab_3_devices_that_share_a_nic_share_its_bandwidth() {
    let spec = with(Topology::Switch, |node| node.nics = 2);
    assert_eq!(end(&spec, &[(0, 6, 1_000)]), 120 + 100, "FAB-3: alone, as with a NIC of its own");
    assert_eq!(end(&spec, &[(0, 6, 1_000), (1, 7, 1_000)]), 120 + 200, "FAB-3: SIPs 0 and 1 share");
    assert_eq!(
        end(&spec, &[(0, 4, 1_000), (2, 6, 1_000)]),
        120 + 100,
        "FAB-3: SIPs 0 and 2 do not"
    );
    let pcie = with(Topology::Switch, |node| (node.nics, node.pcie) = (1, Some(wire(20, 30))));
    assert_eq!(end(&pcie, &[(0, 6, 1_000)]), 30 + 120 + 30 + 100, "FAB-3");
    assert_eq!(end(&pcie, &[(0, 6, 1_000), (3, 7, 1_000)]), 30 + 120 + 30 + 200, "FAB-3");
}

#[test]
fn fab_3_an_oversubscribed_group_shares_its_way_up() {
    let all: Vec<(u32, u32, usize)> = (0..4).map(|sip| (sip, sip + 4, 1_000)).collect();
    assert_eq!(end(&nodes(Topology::Switch), &all), 120 + 100, "each NIC has its own way");
    // Four NICs of 10 B/ns share 20 or 10 B/ns. A way of 10 B/ns is as slow as a NIC.
    let half = with(Topology::Switch, |node| node.oversubscription = 2);
    assert_eq!(end(&half, &all[..1]), 120 + 100, "FAB-3: one NIC alone has its bandwidth");
    assert_eq!(
        end(&half, &all),
        120 + 3 * 50 + 100,
        "FAB-3: the fourth waits for three at 20 B/ns"
    );
    let quarter = with(Topology::Switch, |node| node.oversubscription = 4);
    assert_eq!(end(&quarter, &all), 120 + 400, "FAB-3");
}

#[test]
fn net_3_links_between_nodes_connect_equal_positions() {
    let ring = nodes(Topology::Ring1d);
    assert_eq!(end(&ring, &[(1, 5, 1_000)]), 120 + 100, "NET-3");
    // To another position: inside the first node, whole, and then over the link.
    assert_eq!(end(&ring, &[(1, 6, 1_000)]), 10 + 10 + 120 + 100, "NET-3");
    assert_eq!(
        end(&ring, &[(1, 6, 1_000), (2, 6, 1_000)]),
        120 + 200,
        "NET-3: both take the link of SIP 2"
    );
}

#[test]
fn lanes_and_efficiency_scale_a_link() {
    let spec = with(Topology::Ring1d, |node| node.link = LinkSpec { lanes: 4, ..node.link });
    assert_eq!(end(&spec, &[(1, 5, 1_000)]), 120 + 25);
    let half = phalanx_sim::spec::Efficiency::millionths(500_000).unwrap();
    let spec =
        with(Topology::Ring1d, |node| node.link = LinkSpec { efficiency: half, ..node.link });
    assert_eq!(end(&spec, &[(1, 5, 1_000)]), 120 + 200);
}

#[test]
fn a_torus_of_three_dimensions_goes_x_then_y_then_z() {
    let topology = Topology::Torus3d { layers: 4, rows: 4, columns: 4 };
    let spec = MachineSpec { sips: SipsSpec::new(64, topology, wire(10, 50)), ..bare() };
    assert_eq!(spec.neighbours(0, 0), [1, 3, 4, 12, 16, 48]);
    // One hop in each dimension, the long way round in none; 100 ns for each.
    assert_eq!(end(&spec, &[(0, 63, 1_000)]), 3 * (50 + 100));
    assert_eq!(end(&spec, &[(0, 42, 1_000)]), 6 * (50 + 100));
    let mesh = Topology::Mesh3d { layers: 4, rows: 4, columns: 4 };
    let spec = MachineSpec { sips: SipsSpec { topology: mesh, ..spec.sips.clone() }, ..spec };
    assert_eq!(end(&spec, &[(0, 63, 1_000)]), 9 * (50 + 100));
}

#[test]
fn credits_take_the_way_back() {
    // One slot: the second message waits for the credit of the first.
    let edge = EdgeSpec { n_slots: 1, slot_size: 1_000, ..EdgeSpec::default() };
    for (change, back) in [(4, 120), (2, 120)] {
        let spec = with(Topology::Switch, |node| node.nics = change);
        let flows = [(PeId::first(0), PeId::first(6), &[1_000, 1_000][..])];
        let report = traffic(&spec, edge, &flows);
        assert_eq!(report.simulated, Time::ns(2 * (120 + 100) + back));
    }
}

#[test]
fn reports_and_timelines_name_the_levels() {
    let spec = with(Topology::Switch, |node| (node.nics, node.oversubscription) = (2, 2));
    let flows = [(PeId::first(1), PeId::first(6), &[1_000][..])];
    let report = crate::support::traffic_with(crate::support::recorded(), &spec, roomy(), &flows);
    let text = report.to_string();
    let wires = [
        "node0.nic0->node-switch",
        "node0.leaf->node-switch",
        "node-switch->node1.leaf",
        "node-switch->node1.nic1",
        "to the end of node1.sip2.cube0.pe0",
    ];
    for wire in wires {
        assert!(text.contains(wire), "{wire} is not in\n{text}");
    }
    assert!(
        report.op_log().contains(" node0.sip1->node0.nic0 transfer 1000"),
        "{}",
        report.op_log()
    );
}
