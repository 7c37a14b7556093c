//! Scenarios whose times are computed by hand, in the slow simulator and in the product.

use super::script::{Piece, Queue, Scenario, Script, Step};
use super::{product, simulator};
use crate::support::{bare, pe, rate, roomy, wire};
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::spec::{GridSpec, Topology, WireSpec};
use phalanx_sim::topology::PeId;
use phalanx_sim::{MachineSpec, Time};

/// Returns a machine with DMA of 2 B/ns and 10 ns, HBM of 4 B/ns and 20 ns, and meshes of 1 x 2 parts that cost nothing.
fn machine() -> MachineSpec {
    let mut spec = bare();
    (spec.dma, spec.hbm.bandwidth, spec.hbm.latency) = (wire(2, 10), rate(4), Time::ns(20));
    let grid = GridSpec { rows: 1, columns: 2, link: WireSpec::FREE };
    MachineSpec { cubes: grid, pes: grid, ..spec }
}

/// Returns links of 1 B/ns and 100 ns between four SIPs of two PEs.
fn links(topology: Topology) -> MachineSpec {
    let mut spec = bare();
    (spec.sips.count, spec.sips.topology, spec.sips.link) = (4, topology, wire(1, 100).into());
    spec.pes.columns = 2;
    spec
}

fn load(cube: u16, waits: bool) -> Step {
    Step::Load { piece: Piece { cube, bytes: 400 }, waits }
}

/// Checks the ends of the steps of each script, in nanoseconds.
#[track_caller]
fn check(
    spec: MachineSpec,
    queues: &[(PeId, PeId, EdgeSpec)],
    scripts: &[(PeId, &[Step], &[u64])],
) {
    let queue = |&(from, to, edge)| Queue { from, to, edge };
    let script = |&(pe, steps, _): &(PeId, &[Step], _)| Script { pe, steps: steps.to_vec() };
    let scenario = Scenario {
        spec,
        queues: queues.iter().map(queue).collect(),
        scripts: scripts.iter().map(script).collect(),
        hosts: Vec::new(),
        apart: false,
    };
    let times =
        |(_, _, ends): &(PeId, &[Step], &[u64])| ends.iter().copied().map(Time::ns).collect();
    let expected: Vec<Vec<Time>> = scripts.iter().map(times).collect();
    assert_eq!(simulator::run(&scenario).steps, expected);
    assert_eq!(product::run(&scenario, PartitionOrder::Queued).steps, expected);
}

#[test]
fn a_load_alone_takes_each_latency_and_the_slowest_transfer() {
    check(machine(), &[], &[(pe(0, 0, 1), &[load(0, true)], &[10 + 20 + 200])]);
}

#[test]
fn a_load_from_another_cube_crosses_both_meshes() {
    let mut spec = machine();
    (spec.cubes.link, spec.pes.link) = (wire(1, 5), wire(8, 3));
    check(spec, &[], &[(pe(0, 0, 1), &[load(1, true)], &[10 + 20 + 5 + 3 + 400])]);
}

#[test]
fn a_pair_asks_for_the_second_piece_after_the_first() {
    let pieces = [Piece { cube: 0, bytes: 400 }, Piece { cube: 0, bytes: 200 }];
    // The DMA asks for the first piece from 10 ns to 210 ns, and for the second until 310 ns.
    check(machine(), &[], &[(pe(0, 0, 0), &[Step::Pair { pieces, waits: true }], &[310 + 20])]);
}

#[test]
fn a_store_ends_after_the_latency_of_the_memory() {
    let store = Step::Store { piece: Piece { cube: 0, bytes: 400 }, waits: true };
    check(machine(), &[], &[(pe(0, 0, 0), &[store], &[10 + 200 + 20])]);
}

#[test]
fn wir_4_a_load_that_waits_for_its_channel_leaves_the_memory_to_others() {
    let first: &[Step] = &[load(0, false), load(0, true)];
    let mut spec = machine();
    spec.hbm.bandwidth = rate(1);
    // The first load has the HBM from 10 ns to 410 ns, the other PE until 810 ns. The second load begins at 430 ns and
    // comes to the HBM at 440 ns.
    let scripts = [
        (pe(0, 0, 0), first, &[0, 810 + 400 + 20][..]),
        (pe(0, 0, 1), &[load(0, true)], &[410 + 400 + 20]),
    ];
    check(spec, &[], &scripts);
}

fn in_chunks() -> EdgeSpec {
    EdgeSpec { vc_chunk_size: 100, ..roomy() }
}

fn sent(queue: usize) -> [Step; 1] {
    [Step::Send { queue, bytes: 400, waits: true }]
}

fn received(queue: usize) -> [Step; 1] {
    [Step::Receive { queue, bytes: 400, hold: Time::ZERO }]
}

#[test]
fn fab_1_chunks_follow_each_other_over_two_links() {
    let (from, to) = (pe(0, 0, 0), pe(2, 0, 0));
    let scripts = [(from, &sent(0)[..], &[0][..]), (to, &received(0), &[400 + 100 + 100 + 100])];
    check(links(Topology::Ring1d), &[(from, to, in_chunks())], &scripts);
}

#[test]
fn fab_1_a_chunk_goes_on_when_its_last_byte_has_left_the_pe() {
    let mut spec = links(Topology::Ring1d);
    (spec.dma, spec.sips.link) = (wire(1, 10), wire(2, 100).into());
    let (from, to) = (pe(0, 0, 0), pe(2, 0, 0));
    // The last chunk is at the gateway at 410 ns, at the next SIP at 510 ns, and takes 50 ns of the second link.
    let scripts = [(from, &sent(0)[..], &[0][..]), (to, &received(0), &[510 + 50 + 100])];
    check(spec, &[(from, to, in_chunks())], &scripts);
}

#[test]
fn two_messages_share_the_switch_port_of_their_receiver() {
    let ends = [(pe(0, 0, 0), pe(2, 0, 0), roomy()), (pe(1, 0, 0), pe(2, 0, 1), roomy())];
    let scripts = [
        (pe(0, 0, 0), &sent(0)[..], &[0][..]),
        (pe(1, 0, 0), &sent(1), &[0]),
        (pe(2, 0, 0), &received(0), &[400 + 100]),
        (pe(2, 0, 1), &received(1), &[2 * 400 + 100]),
    ];
    check(links(Topology::Switch), &ends, &scripts);
}

#[test]
fn flt_1_a_message_into_memory_goes_before_a_load_issued_after_it() {
    let mut spec = links(Topology::Ring1d);
    spec.hbm.bandwidth = rate(1);
    let (from, to) = (pe(0, 0, 1), pe(0, 0, 0));
    let edge = EdgeSpec { buffer_kind: BufferKind::Hbm, ..roomy() };
    let steps = [sent(0)[0], load(0, true)];
    // The receiver reads the message back behind the load.
    let scripts = [(from, &steps[..], &[0, 400 + 400][..]), (to, &received(0), &[800 + 400])];
    check(spec, &[(from, to, edge)], &scripts);
}

#[test]
fn sim_1_a_sip_does_not_see_the_clock_of_another_one() {
    let mut spec = links(Topology::Ring1d);
    (spec.sips.count, spec.sips.link.latency) = (2, Time::ns(24));
    spec.pes = GridSpec { rows: 1, columns: 4, link: wire(1, 8) };
    // The messages are in their slots at 38 ns and 52 ns. The way of the second one is known before 38 ns, when the other
    // SIP may already have worked until 52 ns.
    let (from, to) = (pe(1, 0, 3), pe(1, 0, 0));
    let send = |bytes| Step::Send { queue: 0, bytes, waits: false };
    let receive = |bytes| Step::Receive { queue: 0, bytes, hold: Time::ZERO };
    let sends = [send(14), Step::Compute(Time::ns(20)), send(8)];
    let scripts = [
        (pe(0, 0, 0), &[Step::Compute(Time::ns(52))][..], &[52][..]),
        (from, &sends, &[0, 20, 20]),
        (to, &[receive(14), receive(8)], &[38, 52]),
    ];
    check(spec, &[(from, to, roomy())], &scripts);
}
