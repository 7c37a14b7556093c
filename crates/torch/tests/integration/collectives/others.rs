//! The other operations, over algorithms, ranks, sizes, roots and splits.

use super::{Case, able, machine_for};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_torch::ccl::Operation;

fn check_all(operation: Operation) {
    for algorithm in able(operation) {
        for ranks in [1, 2, 3, 4, 5, 8] {
            let spec = machine_for(algorithm, ranks);
            for elements in [0, 1, ranks - 1, 16, 17, 50] {
                let roots = if operation.has_root() { ranks } else { 1 };
                for root in 0..roots {
                    for n_slots in [1, 3] {
                        let case = Case::new(operation, algorithm, ranks, elements);
                        let edge = EdgeSpec { n_slots, ..case.edge };
                        let apart = operation.is_elementwise() && n_slots == 3;
                        Case { root, edge, apart, ..case }.check(&spec);
                    }
                }
            }
        }
    }
}

#[test]
fn reduce_scatter() {
    check_all(Operation::ReduceScatter);
}

#[test]
fn all_gather() {
    check_all(Operation::AllGather);
}

#[test]
fn broadcast() {
    check_all(Operation::Broadcast);
}

#[test]
fn reduce() {
    check_all(Operation::Reduce);
}

#[test]
fn scatter() {
    check_all(Operation::Scatter);
}

#[test]
fn gather() {
    check_all(Operation::Gather);
}

#[test]
fn all_to_all() {
    check_all(Operation::AllToAll);
}

#[test]
fn all_to_all_with_splits() {
    for algorithm in able(Operation::AllToAll) {
        for ranks in [1, 2, 3, 5] {
            for seed in 0..4 {
                let count =
                    |from: usize, to: usize| (from * 7 + to * 11 + seed * 5) % 23 * (seed % 3);
                let row = |from| (0..ranks).map(|to| count(from, to)).collect();
                let splits = Some((0..ranks).map(row).collect());
                let case = Case::new(Operation::AllToAll, algorithm, ranks, 0);
                Case { splits, ..case }.check(&machine_for(algorithm, ranks));
            }
        }
    }
}

#[test]
fn all_reduce_of_fewer_elements_than_ranks() {
    check_all(Operation::AllReduce);
}
