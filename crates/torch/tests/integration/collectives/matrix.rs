//! All-reduce by every algorithm, over ranks, slots, sizes around a slot, places of slots and types.

use super::{Case, able, machine_for};
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::value::DType;
use phalanx_torch::ccl::{Operation, ReduceOp};

/// Elements of a slot.
const SLOT: usize = 8;

fn check_all(ranks: &[usize], dtypes: &[DType], kinds: &[BufferKind]) {
    for algorithm in able(Operation::AllReduce) {
        for &ranks in ranks {
            let spec = machine_for(algorithm, ranks);
            // Around one slot, and around one slot a segment.
            let sizes =
                [SLOT - 1, SLOT, SLOT + 1, (SLOT - 1) * ranks, SLOT * ranks, SLOT * ranks + 1];
            for elements in sizes {
                for n_slots in [1, 2, 4] {
                    for (&dtype, &buffer_kind) in
                        dtypes.iter().flat_map(|d| kinds.iter().map(move |kind| (d, kind)))
                    {
                        let slot_size = (SLOT * dtype.size()) as u64;
                        let edge =
                            EdgeSpec { n_slots, slot_size, buffer_kind, ..EdgeSpec::default() };
                        let case = Case::new(Operation::AllReduce, algorithm, ranks, elements);
                        Case { dtype, edge, ..case }.check(&spec);
                    }
                }
            }
        }
    }
}

const TYPES: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::I32];
const BOTH: [BufferKind; 2] = [BufferKind::Tcm, BufferKind::Hbm];

#[test]
fn t7_all_reduce_matrix_few_ranks() {
    check_all(&[1, 2, 3, 4, 5], &TYPES, &BOTH);
}

#[test]
fn t7_all_reduce_matrix_many_ranks() {
    check_all(&[8, 16], &TYPES, &BOTH);
}

#[test]
fn every_way_of_combining() {
    for algorithm in able(Operation::AllReduce) {
        for (ranks, apart) in [(3, false), (6, true), (8, false)] {
            for combine in ReduceOp::ALL {
                let case = Case::new(Operation::AllReduce, algorithm, ranks, 37);
                Case { combine, apart, ..case }.check(&machine_for(algorithm, ranks));
            }
        }
    }
}
