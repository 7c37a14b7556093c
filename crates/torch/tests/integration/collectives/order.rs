//! The order in which numbers are combined, as every algorithm states it.

use super::{Case, able, machine_for, rows_of, share};
use phalanx_torch::ccl::Operation;

/// Which segment of `count` an element of `len` is in.
fn segment(len: usize, at: usize, count: usize) -> usize {
    (0..count).find(|index| share(len, *index, count).contains(&at)).unwrap()
}

/// From the one behind `owner` round to it.
fn round(x: &[f32], owner: usize) -> f32 {
    let turn = (1..=x.len()).map(|step| x[(owner + step) % x.len()]);
    turn.reduce(|sum, one| sum + one).unwrap()
}

/// Neighbours first, then pairs of them.
fn pairwise(x: &[f32]) -> f32 {
    match x {
        [one] => *one,
        _ => pairwise(&x[..x.len() / 2]) + pairwise(&x[x.len() / 2..]),
    }
}

/// Those far apart first.
fn apart(x: &[f32], rank: usize, distance: usize) -> f32 {
    if distance == x.len() {
        return x[rank];
    }
    let (low, high) = (rank & !distance, rank | distance);
    apart(x, low, 2 * distance) + apart(x, high, 2 * distance)
}

/// A node and all below it.
fn below(x: &[f32], node: usize) -> f32 {
    let children = (0..).map(|level| 1 << level).take_while(|step| {
        node + step < x.len() && (node == 0 || *step < node & node.wrapping_neg())
    });
    children.fold(x[node], |sum, step| sum + below(x, node + step))
}

/// The first ranks, each with one beyond the largest power of two.
fn folded(x: &[f32]) -> Vec<f32> {
    let power = 1 << x.len().ilog2();
    (0..power).map(|rank| x.get(rank + power).map_or(x[rank], |beyond| x[rank] + beyond)).collect()
}

/// Element `at` of `len` of the sum.
fn stated(algorithm: &str, x: &[f32], len: usize, at: usize) -> f32 {
    let ranks = x.len();
    match algorithm {
        "ring" | "hierarchical" => round(x, segment(len, at, ranks)),
        "bidirectional_ring" if ranks == 2 => round(x, segment(len, at, ranks)),
        "bidirectional_ring" => {
            let half = segment(len, at, 2);
            let range = share(len, half, 2);
            let owner = segment(range.len(), at - range.start, ranks);
            let turned: Vec<f32> = (0..ranks).map(|rank| x[(ranks - rank) % ranks]).collect();
            if half == 0 { round(x, owner) } else { round(&turned, owner) }
        }
        "direct" => x.iter().copied().reduce(|sum, one| sum + one).unwrap(),
        "recursive_doubling" => pairwise(&folded(x)),
        "halving_doubling" => {
            let x = folded(x);
            apart(&x, segment(len, at, x.len()), 1)
        }
        "tree" => below(x, 0),
        "torus_2d" => {
            let rows = rows_of(ranks);
            let columns = ranks / rows;
            let column = segment(len, at, columns);
            let range = share(len, column, columns);
            let sums: Vec<f32> = x.chunks(columns).map(|row| round(row, column)).collect();
            round(&sums, segment(range.len(), at - range.start, rows))
        }
        other => panic!("say in which order `{other}` combines"),
    }
}

#[test]
fn ccl_1_the_same_on_all_in_the_order_that_is_stated() {
    let mut differ = 0;
    for algorithm in able(Operation::AllReduce) {
        for (ranks, elements) in [(2, 9), (3, 100), (4, 64), (6, 5), (7, 61), (8, 130), (12, 99)] {
            let case = Case::new(Operation::AllReduce, algorithm, ranks, elements);
            let case = Case { exact: false, ..case };
            let inputs: Vec<Vec<f32>> = (0..ranks).map(|rank| case.input(rank)).collect();
            let wanted = (0..elements).map(|at| {
                let x: Vec<f32> = inputs.iter().map(|input| input[at]).collect();
                differ += usize::from(round(&x, 0).to_bits() != pairwise(&folded(&x)).to_bits());
                stated(algorithm, &x, elements, at).to_bits()
            });
            let wanted: Vec<u32> = wanted.collect();
            for (rank, value) in case.run(&machine_for(algorithm, ranks)).1.iter().enumerate() {
                let got: Vec<u32> = value.to_f32().into_iter().map(f32::to_bits).collect();
                assert_eq!(got, wanted, "{case}: rank {rank}");
            }
        }
    }
    assert!(differ > 1000, "the numbers must tell orders apart: {differ}");
}

#[test]
fn reductions_are_combined_in_the_same_order() {
    for operation in [Operation::ReduceScatter, Operation::Reduce] {
        for algorithm in able(operation) {
            for (ranks, root) in [(3, 1), (5, 4), (8, 2)] {
                let case = Case::new(operation, algorithm, ranks, 40);
                let case = Case { exact: false, root, ..case };
                let inputs: Vec<Vec<f32>> = (0..ranks).map(|rank| case.input(rank)).collect();
                let sum = |at: usize, owner: usize| {
                    let x: Vec<f32> = inputs.iter().map(|input| input[at]).collect();
                    let turned: Vec<f32> = (0..ranks).map(|v| x[(v + root) % ranks]).collect();
                    match algorithm {
                        "tree" => below(&turned, 0),
                        "direct" => stated("direct", &x, 1, 0),
                        _ => round(&x, owner),
                    }
                };
                let (_, values) = case.run(&machine_for(algorithm, ranks));
                if operation == Operation::Reduce {
                    let wanted: Vec<f32> = (0..40).map(|at| sum(at, root)).collect();
                    assert_eq!(values[root].to_f32(), wanted, "{case}");
                    continue;
                }
                for (rank, value) in values.iter().enumerate() {
                    let wanted: Vec<f32> = (0..40).map(|at| sum(rank * 40 + at, rank)).collect();
                    assert_eq!(value.to_f32(), wanted, "{case}: rank {rank}");
                }
            }
        }
    }
}
