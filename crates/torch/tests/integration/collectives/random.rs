//! Any operation, by any algorithm, with any settings.

use super::{Case, GRIDS, able, machine_for, torus};
use crate::ranks::machine;
use phalanx_sim::MachineSpec;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::time::Time;
use phalanx_sim::value::DType;
use phalanx_torch::ccl::{Operation, ReduceOp};
use proptest::prelude::*;
use proptest::sample::select;

fn edges() -> impl Strategy<Value = EdgeSpec> {
    let kinds = select(vec![BufferKind::Tcm, BufferKind::Hbm]);
    let backpressure = select(vec![Backpressure::Sleep, Backpressure::Poll(Time::ns(70))]);
    (1..6u32, 4..200u64, kinds, backpressure, select(vec![0, 24, 64]), select(vec![0, 16]))
        .prop_map(|(n_slots, slot_size, buffer_kind, backpressure, vc_chunk_size, credit)| {
            EdgeSpec {
                n_slots,
                slot_size,
                buffer_kind,
                backpressure,
                vc_chunk_size,
                ipcq_credit_size_bytes: credit,
                ..EdgeSpec::default()
            }
        })
}

fn cases() -> impl Strategy<Value = Case> {
    let dtypes = vec![DType::F32, DType::F16, DType::Bf16, DType::I32];
    let combines = vec![ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max];
    (
        select(Operation::ALL.to_vec()),
        any::<prop::sample::Index>(),
        (1..11usize, any::<prop::sample::Index>()),
        0..120usize,
        (select(combines), select(dtypes)),
        edges(),
        prop::option::of(prop::collection::vec(0..30usize, 100)),
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |(operation, which, (ranks, root), elements, (combine, dtype), edge, counts, ways)| {
                let (apart, in_loops) = ways;
                let able: Vec<&'static str> = able(operation).collect();
                let splits = counts.filter(|_| operation == Operation::AllToAll).map(|counts| {
                    counts.chunks(10).take(ranks).map(|row| row[..ranks].to_vec()).collect()
                });
                let case = Case::new(operation, able[which.index(able.len())], ranks, elements);
                let root = root.index(ranks);
                Case { root, combine, dtype, edge, splits, apart, in_loops, ..case }
            },
        )
}

/// A machine that fits, wired in some way.
fn wired(case: &Case, kind: usize, tcm: &str) -> MachineSpec {
    if GRIDS.contains(&case.algorithm) {
        return machine_for(case.algorithm, case.ranks);
    }
    let topology = ["ring_1d", "fully_connected", "switch", "torus_2d"][kind];
    if topology == "torus_2d" {
        return torus(2, case.ranks.div_ceil(2));
    }
    let count = format!("system.sips.count={}", case.ranks);
    let tcm = format!("pe.tcm.capacity={tcm}");
    machine("bare", &[&count, &format!("system.sips.topology={topology}"), &tcm])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_collective_gives_what_it_should(
        case in cases(),
        kind in 0..4usize,
        tcm in select(vec!["unlimited", "4 KiB"]),
    ) {
        case.check(&wired(&case, kind, tcm));
    }
}
