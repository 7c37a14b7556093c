//! The order in which numbers are combined, as every algorithm states it.

use super::{Case, able, machine_for, rows_of, share};
use phalanx_torch::ccl::{Operation, ReduceOp};

/// The segment, of `count`, that holds an element of `len`.
pub(super) fn segment(len: usize, at: usize, count: usize) -> usize {
    (0..count).find(|index| share(len, *index, count).contains(&at)).unwrap()
}

/// From the one behind `owner` round to it.
pub(super) fn round(x: &[f32], owner: usize) -> f32 {
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

/// Inside groups first, then between them; every other stream goes the other way.
fn by_group(x: &[f32], stream: usize, owner: usize) -> f32 {
    let each = rows_of(x.len());
    let turn =
        |x: &[f32], owner| if stream.is_multiple_of(2) { round(x, owner) } else { back(x, owner) };
    let sums: Vec<f32> = x.chunks(each).map(|group| turn(group, owner % each)).collect();
    turn(&sums, owner / each)
}

/// The others in the order of ranks, then the owner.
fn owner_last(x: &[f32], owner: usize) -> f32 {
    let others = x.iter().enumerate().filter(|(rank, _)| *rank != owner).map(|(_, one)| *one);
    others.reduce(|sum, one| sum + one).map_or(x[owner], |sum| sum + x[owner])
}

/// From the one before `owner` round to it, the other way.
pub(super) fn back(x: &[f32], owner: usize) -> f32 {
    let turn = (1..=x.len()).map(|step| x[(owner + x.len() - step) % x.len()]);
    turn.reduce(|sum, one| sum + one).unwrap()
}

/// From `owner` down to the one behind it: the order in which messages of a mesh come.
fn down(x: &[f32], owner: usize) -> f32 {
    let turn = (0..x.len()).map(|step| x[(owner + x.len() - step) % x.len()]);
    turn.reduce(|sum, one| sum + one).unwrap()
}

/// The sum of one of two trees of the numbers from 1 on, and number 0 above.
fn double(x: &[f32], tree: usize) -> f32 {
    let others = x.len() - 1;
    let rank = |number: usize| match (tree, others % 2) {
        (0, _) => number,
        (_, 0) => others + 1 - number,
        // Each is moved by one: the last number stands for the first rank.
        _ => (number + others - 2) % others + 1,
    };
    (if others == 0 { None } else { Some(1 << others.ilog2()) })
        .map_or(x[0], |top: usize| in_order(x, &rank, top, top) + x[0])
}

/// The number `at` of a binary tree, whose children are `step / 2` away, and all below; the child with the lower rank first.
fn in_order(x: &[f32], rank: &dyn Fn(usize) -> usize, at: usize, step: usize) -> f32 {
    let others = x.len() - 1;
    let low = (step > 1).then(|| (at - step / 2, step / 2));
    // A child beyond the last number is replaced by its own lower child.
    let high = std::iter::successors(Some(step / 2), |half| Some(half / 2))
        .take_while(|half| *half > 0)
        .find(|half| at + half <= others)
        .map(|half| (at + half, half));
    let mut children: Vec<(usize, usize)> = low.into_iter().chain(high).collect();
    children.sort_by_key(|(child, _)| rank(*child));
    let sums = children.into_iter().map(|(child, step)| in_order(x, rank, child, step));
    sums.reduce(|sum, one| sum + one).map_or(x[rank(at)], |sum| sum + x[rank(at)])
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
        "direct" => down(x, segment(len, at, ranks)),
        "two_hop" => x.iter().copied().reduce(|sum, one| sum + one).unwrap(),
        "recursive_doubling" => pairwise(&folded(x)),
        "halving_doubling" => {
            let x = folded(x);
            apart(&x, segment(len, at, x.len()), 1)
        }
        "tree" => below(x, 0),
        "multi_ring" => {
            let half = segment(len, at, 2);
            let range = share(len, half, 2);
            let owner = segment(range.len(), at - range.start, ranks);
            if half == 0 { round(x, owner) } else { back(x, owner) }
        }
        "double_tree" => double(x, segment(len, at, 2)),
        "two_level" if ranks / rows_of(ranks) >= 16 => {
            let sum = |group: &[f32]| {
                let x = folded(group);
                apart(&x, segment(len, at, x.len()), 1)
            };
            let sums: Vec<f32> = x.chunks(rows_of(ranks)).map(sum).collect();
            pairwise(&folded(&sums))
        }
        "two_level" => {
            let stream = segment(len, at, 4);
            let range = share(len, stream, 4);
            by_group(x, stream, segment(range.len(), at - range.start, ranks))
        }
        "nvls" => owner_last(x, segment(len, at, ranks)),
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
fn ccl_1_many_groups_combine_a_small_vector_in_few_steps() {
    for (ranks, elements, combine) in
        [(34, 61, ReduceOp::Sum), (51, 7, ReduceOp::Sum), (68, 130, ReduceOp::Avg)]
    {
        let case = Case::new(Operation::AllReduce, "two_level", ranks, elements);
        let case = Case { exact: false, combine, ..case };
        let inputs: Vec<Vec<f32>> = (0..ranks).map(|rank| case.input(rank)).collect();
        let wanted = (0..elements).map(|at| {
            let x: Vec<f32> = inputs.iter().map(|input| input[at]).collect();
            let sum = stated("two_level", &x, elements, at);
            if combine == ReduceOp::Avg {
                sum / f32::from(u16::try_from(ranks).unwrap())
            } else {
                sum
            }
        });
        let wanted: Vec<f32> = wanted.collect();
        for (rank, value) in case.run(&machine_for("two_level", ranks)).1.iter().enumerate() {
            assert_eq!(value.to_f32(), wanted, "{case}: rank {rank}");
        }
    }
}

/// The sum of the double tree at another root, which counts first; children are in the order of ranks.
fn rooted(x: &[f32], root: usize, at: usize) -> f32 {
    let ranks = x.len();
    let others = ranks - 1;
    let tree = segment(40, at, 2);
    let number = |index: usize| match (tree, others % 2) {
        (0, _) => index,
        (_, 0) => others + 1 - index,
        _ => (index + others - 2) % others + 1,
    };
    let rank = |of: usize| (root + number(of)) % ranks;
    let top = 1 << others.ilog2();
    in_order(x, &rank, top, top) + x[root]
}

/// The sum of the tree of a rail: round the places of each group, then from group to group toward the root's.
fn by_rail(x: &[f32], root: usize, rail: usize) -> f32 {
    let each = rows_of(x.len());
    let (groups, own) = (x.len() / each, root / each);
    let mut beyond: Option<(usize, f32)> = None;
    for group in (0..groups).map(|step| (own + groups - 1 - step) % groups) {
        let places = (0..each).map(|step| group * each + (rail + step) % each);
        let line: Vec<usize> = places.filter(|rank| *rank != root).collect();
        let is_roots = group == own;
        // The rail's own SIP, if it is not the root, joins the rest of its line and the groups behind.
        let rest = if is_roots && root % each == rail { &line[..] } else { &line[1..] };
        let inside = rest.iter().rev().map(|rank| x[*rank]).reduce(|sum, one| sum + one);
        let mut sums: Vec<(usize, f32)> =
            inside.map(|sum| (rest[0], sum)).into_iter().chain(beyond).collect();
        sums.sort_by_key(|(rank, _)| *rank);
        let sum = sums.into_iter().map(|(_, sum)| sum).reduce(|sum, one| sum + one);
        let top = if rest.len() == line.len() { root } else { line[0] };
        beyond = Some((top, sum.map_or(x[top], |sum| sum + x[top])));
    }
    let (top, sum) = beyond.unwrap();
    if top == root { sum } else { sum + x[root] }
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
                        "direct" if operation == Operation::Reduce => {
                            let others = (0..ranks).filter(|rank| *rank != owner);
                            others.fold(x[owner], |sum, rank| sum + x[rank])
                        }
                        "direct" => down(&x, owner),
                        "double_tree" => rooted(&x, root, at),
                        "two_level" if operation == Operation::Reduce => {
                            by_rail(&x, root, segment(40, at, rows_of(ranks)))
                        }
                        "two_level" => by_group(&x, segment(40, at % 40, 4), owner),
                        "nvls" => owner_last(&x, owner),
                        "two_hop" if operation == Operation::Reduce => owner_last(&x, owner),
                        "two_hop" => stated("two_hop", &x, 1, 0),
                        // The second half of a scattered segment goes the other way; a reduction to a root, the first.
                        "multi_ring" if (at % 40 < 20) == (operation == Operation::Reduce) => {
                            back(&x, owner)
                        }
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

#[test]
fn pro_8_loops_combine_in_the_same_order() {
    for operation in [Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather] {
        for (ranks, elements) in [(2, 999), (3, 1000), (5, 64), (8, 4096)] {
            let whole = Case { exact: false, ..Case::new(operation, "ring", ranks, elements) };
            let spec = machine_for("ring", ranks);
            let (_, values) = whole.run(&spec);
            let (_, in_loops) = Case { in_loops: true, ..whole.clone() }.run(&spec);
            for (rank, (one, other)) in values.iter().zip(&in_loops).enumerate() {
                assert_eq!(one.to_f32(), other.to_f32(), "PRO-8: {whole}, rank {rank}");
            }
        }
    }
}
