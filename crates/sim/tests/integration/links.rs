//! Wires: the times of routes, computed by hand.

use crate::support::{Outcome, bare, pe, roomy, traffic, wire};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::spec::{Forwarding, GridSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use proptest::prelude::*;

fn on(topology: Topology) -> MachineSpec {
    let mut spec = bare();
    spec.sips.topology = topology;
    spec
}

/// `bare` with a mesh of PEs in each SIP.
fn with_pes(rows: u32, columns: u32) -> MachineSpec {
    let mut spec = bare();
    spec.pes = GridSpec { rows, columns, ..spec.pes };
    spec
}

#[test]
fn noc_1_a_way_over_a_mesh_of_pes_costs_each_latency_and_one_transfer() {
    let mut spec = with_pes(2, 3);
    spec.pes.link = wire(4, 5);
    // Two wires east, one south: 3 * 5 ns and 400 B at 4 B/ns.
    let report = traffic(&spec, roomy(), &[(pe(0, 0, 0), pe(0, 0, 5), &[400])]);
    assert_eq!(report.simulated, Time::ns(15 + 100), "NOC-1");
}

#[test]
fn noc_1_the_slowest_wire_of_a_way_counts_once() {
    let mut spec = with_pes(2, 2);
    spec.pes.link = wire(4, 5);
    spec.cubes = GridSpec { rows: 2, columns: 2, link: wire(2, 20) };
    // One wire to the gateway, two between cubes, one to the PE; 400 B at 2 B/ns.
    let report = traffic(&spec, roomy(), &[(pe(0, 0, 1), pe(0, 3, 2), &[400])]);
    assert_eq!(report.simulated, Time::ns(2 * 5 + 2 * 20 + 200), "NOC-1");
}

#[test]
fn noc_1_each_wire_of_a_way_is_taken_for_its_own_transfer_time() {
    let mut spec = with_pes(1, 3);
    spec.pes.link = wire(4, 0);
    // Both routes end with the wire from PE 1 to PE 2.
    let flows = [(pe(0, 0, 0), pe(0, 0, 2), &[400][..])];
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(100));
    spec.pes = GridSpec { rows: 2, columns: 3, ..spec.pes };
    let both = [(pe(0, 0, 0), pe(0, 0, 2), &[400][..]), (pe(0, 0, 1), pe(0, 0, 5), &[400][..])];
    assert_eq!(traffic(&spec, roomy(), &both).simulated, Time::ns(200), "NOC-1");
}

#[test]
fn a_short_message_behind_a_long_one_pays_for_its_own_length() {
    let mut spec = with_pes(1, 2);
    spec.pes.link = wire(1, 0);
    let report = traffic(&spec, roomy(), &[(pe(0, 0, 0), pe(1, 0, 1), &[1024, 128])]);
    // 8 ns on the link, 500 ns of latency, then 1024 ns and 128 ns on the mesh behind it.
    assert_eq!(report.simulated, Time::ns(508 + 1024 + 128));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn fab_1_hops_pipeline_by_chunk(hops in 1..5u32, chunks in 1..20u64, kib in 1..9u64) {
        let chunk = kib * 1024;
        let edge = EdgeSpec { vc_chunk_size: chunk, ..roomy() };
        let bytes = usize::try_from(chunks * chunk).unwrap();
        let report = traffic(&bare(), edge, &[(pe(0, 0, 0), pe(hops, 0, 0), &[bytes])]);
        let steps = if hops == 1 { chunks } else { u64::from(hops) + chunks - 1 };
        let expected = steps * chunk / 128 + u64::from(hops) * 500;
        prop_assert_eq!(report.simulated, Time::ns(expected), "FAB-1");
    }
}

/// Returns a machine whose SIPs forward the heads of messages.
fn cut_through(mut spec: MachineSpec) -> MachineSpec {
    spec.sips.forwarding = Forwarding::CutThrough;
    spec
}

#[test]
fn fab_2_three_hops_cost_three_latencies_and_one_transfer() {
    for chunk in [0, 1024] {
        let edge = EdgeSpec { vc_chunk_size: chunk, ..roomy() };
        let flows = [(pe(0, 0, 0), pe(3, 0, 0), &[64 * 1024][..])];
        let time = |spec: &MachineSpec| traffic(spec, edge, &flows).simulated;
        assert_eq!(time(&cut_through(bare())), Time::ns(3 * 500 + 512), "FAB-2: no chunks");
        assert!(time(&bare()) > Time::ns(2012), "FAB-1");
    }
}

#[test]
fn fab_2_one_hop_and_a_switch_are_the_same_in_both_modes() {
    for topology in [Topology::Ring1d, Topology::Switch] {
        let flows = [(pe(0, 0, 0), pe(1, 0, 0), &[12_800][..])];
        let time = |spec: &MachineSpec| traffic(spec, roomy(), &flows).simulated;
        let spec = on(topology);
        assert_eq!(time(&spec), Time::ns(100 + 500));
        assert_eq!(time(&cut_through(spec)), Time::ns(100 + 500), "FAB-2");
    }
}

#[test]
fn fab_2_a_head_waits_for_what_the_middle_link_carries() {
    let spec = cut_through(with_pes(1, 2));
    let flows =
        [(pe(1, 0, 0), pe(2, 0, 0), &[128_000][..]), (pe(0, 0, 0), pe(3, 0, 1), &[12_800][..])];
    // The head is at sip1 at 500 ns; the link to sip2 is busy until 1000 ns, and carries the message until 1100 ns.
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(1100 + 2 * 500), "FAB-2");
    let links = ["sip1->sip2 1100 ns", "sip2->sip3 500 ns"];
    assert_eq!(blamed(&spec, &flows), links, "REC-1");
}

#[test]
fn two_flows_over_one_link_take_turns() {
    let spec = with_pes(1, 2);
    let flows =
        [(pe(0, 0, 0), pe(1, 0, 0), &[12_800][..]), (pe(0, 0, 1), pe(1, 0, 1), &[12_800][..])];
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(2 * 100 + 500));
}

#[test]
fn what_is_forwarded_waits_for_what_the_link_already_carries() {
    let spec = with_pes(1, 2);
    let flows =
        [(pe(1, 0, 0), pe(2, 0, 0), &[128_000][..]), (pe(0, 0, 0), pe(2, 0, 1), &[12_800][..])];
    // The whole message is at sip1 at 600 ns; the link to sip2 is busy until 1000 ns.
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(1000 + 100 + 500));
}

#[test]
fn two_senders_into_one_receiver_share_its_switch_port() {
    let mut spec = with_pes(1, 2);
    spec.sips.topology = Topology::Switch;
    let flows =
        [(pe(0, 0, 0), pe(2, 0, 0), &[12_800][..]), (pe(1, 0, 0), pe(2, 0, 1), &[12_800][..])];
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(2 * 100 + 500));
}

#[test]
fn two_receivers_of_one_sender_share_its_switch_port() {
    let mut spec = with_pes(1, 2);
    spec.sips.topology = Topology::Switch;
    let flows =
        [(pe(0, 0, 0), pe(1, 0, 0), &[12_800][..]), (pe(0, 0, 1), pe(2, 0, 0), &[12_800][..])];
    let report = traffic(&spec, roomy(), &flows);
    assert_eq!(report.simulated, Time::ns(2 * 100 + 500));
    let named = |name: &str| {
        report.utilisation.iter().filter(|usage| usage.resource.to_string() == name).count()
    };
    assert_eq!((named("sip0->switch"), named("switch->sip1"), named("switch->sip2")), (1, 1, 1));
}

/// Sends in steps, each at another distance, so that no two messages share a port.
async fn staggered(tl: Tl, ranks: u32, bytes: usize) -> Outcome {
    let me = tl.pe().sip;
    let mut receivers = Vec::new();
    for step in 1..ranks {
        receivers.push(tl.receiver(PeId::first((me + ranks - step) % ranks), roomy())?);
        let sender = tl.sender(PeId::first((me + step) % ranks), roomy())?;
        drop(tl.send(&sender, &tl.zeros(DType::F32, bytes / 4)?));
    }
    for receiver in &receivers {
        drop(tl.recv(receiver, DType::F32, bytes / 4).await?);
    }
    Ok(())
}

#[test]
fn a_staggered_all_to_all_on_a_switch_is_as_fast_as_its_ports() {
    let mut machine = Machine::new(on(Topology::Switch), Options::default());
    for rank in 0..8 {
        machine.launch(rank, "all-to-all", &[PeId::first(rank)], |tl| staggered(tl, 8, 128 * 1024));
    }
    // (P - 1) (n / P) / b + a with n = 1 MiB.
    assert_eq!(machine.run().unwrap().simulated, Time::ns(7 * 1024 + 500));
}

#[test]
fn a_fully_connected_machine_has_a_link_for_each_pair() {
    let mut spec = with_pes(1, 2);
    spec.sips.topology = Topology::FullyConnected;
    let flows =
        [(pe(0, 0, 0), pe(1, 0, 0), &[12_800][..]), (pe(0, 0, 1), pe(2, 0, 0), &[12_800][..])];
    assert_eq!(traffic(&spec, roomy(), &flows).simulated, Time::ns(100 + 500));
}

#[test]
fn a_credit_takes_the_same_way_with_a_size_as_without() {
    let mut spec = with_pes(1, 4);
    spec.pes.link = wire(1 << 20, 30);
    let time = |credit| {
        let edge = EdgeSpec {
            n_slots: 1,
            slot_size: 128,
            ipcq_credit_size_bytes: credit,
            ..EdgeSpec::default()
        };
        traffic(&spec, edge, &[(pe(0, 0, 3), pe(1, 0, 2), &[128; 5])]).simulated
    };
    // Four credits come home before the last message leaves; each of 128 B takes 1 ns of the link.
    assert_eq!(time(128), time(0) + Time::ns(4));
}

/// Returns the parts of the critical path: resource and duration.
fn blamed(spec: &MachineSpec, flows: &[(PeId, PeId, &[usize])]) -> Vec<String> {
    let path = traffic(spec, roomy(), flows).critical_path;
    assert!(path.complete);
    path.parts.iter().map(|part| format!("{} {}", part.resource, part.time)).collect()
}

#[test]
fn rec_1_the_path_goes_over_every_hop() {
    let flows = [(pe(0, 0, 0), pe(2, 0, 0), &[12_800][..])];
    let hops = ["sip0->sip1 100 ns", "sip1->sip2 100 ns"];
    assert_eq!(blamed(&with_pes(1, 2), &flows), hops, "REC-1");
}

#[test]
fn rec_1_the_path_names_the_switch_port_that_was_taken() {
    let mut spec = with_pes(1, 2);
    spec.sips.topology = Topology::Switch;
    let flows =
        [(pe(0, 0, 0), pe(2, 0, 0), &[12_800][..]), (pe(1, 0, 0), pe(2, 0, 1), &[12_800][..])];
    let ports = ["sip0->switch 100 ns", "switch->sip2 100 ns"];
    assert_eq!(blamed(&spec, &flows), ports, "REC-1");
}
