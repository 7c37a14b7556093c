//! `double_tree`: two binary trees, each with half of the vector; a rank with children in one has none in the other.
//!
//! The root (rank 0 for an all-reduce) stands above both trees. The other ranks are numbered from 1. In the first tree, a
//! number with the lowest bit `b` has the children `b/2` below and above it: odd numbers have none. The second tree has the ranks
//! in the reverse order, or, if their number is odd, each moved by one: even numbers have none. So each rank sends and receives about
//! as much as the others. Each half is combined as `forest.rs` says.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere, never};
use super::super::channels::Channels;
use super::super::part::Part;
use super::forest::{self, Tree};
use phalanx_sim::kernel::{KernelError, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "double_tree",
    summary: "two binary trees, each with half of the vector; few steps and the least traffic",
    operations: &[Operation::AllReduce, Operation::Broadcast, Operation::Reduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: never,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// Number 2 of the first tree sends its half up and down to two children, and the other half up; it stores everything.
fn work(shape: &Shape) -> LeastWork {
    let Shape { operation, ranks, elements, slot, .. } = *shape;
    let half = elements / 2;
    if operation != Operation::AllReduce || ranks < 4 || half == 0 {
        return LeastWork::default();
    }
    let chunks = half.div_ceil(slot.max(1));
    LeastWork {
        messages: chunks.saturating_mul(4),
        sent: half.saturating_mul(4),
        stores: chunks.saturating_mul(2),
        stored: elements,
        // Some number is so far below the root, and what it adds comes back to it.
        steps: 2 * ranks.ilog2() as usize,
    }
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let root = if part.operation.has_root() { part.root } else { 0 };
    forest::run(&part, &tl, trees(root, part.ranks)).await
}

/// The parent of number `at` in the binary tree of the numbers from 1 to `count`; `None` for the top.
fn above(at: usize, count: usize) -> Option<usize> {
    let bit = at & at.wrapping_neg();
    // A number is half a step below or above its parent; without the one above, the one below stands in.
    let parent = (at ^ bit) | bit << 1;
    if parent <= count { Some(parent) } else { Some(at ^ bit).filter(|parent| *parent > 0) }
}

fn trees(root: usize, ranks: usize) -> Vec<Tree> {
    let others = ranks - 1;
    let reversed =
        |at: usize| if others.is_multiple_of(2) { others + 1 - at } else { at % others + 1 };
    let numbers: [Vec<usize>; 2] = [(1..=others).collect(), (1..=others).map(reversed).collect()];
    let tree = |numbers: &Vec<usize>| {
        // The rank of each number, counted from the root on.
        let mut ranked = vec![root; ranks];
        for (index, number) in numbers.iter().enumerate() {
            ranked[*number] = (root + 1 + index) % ranks;
        }
        let mut parents = vec![None; ranks];
        for number in 1..=others {
            parents[ranked[number]] =
                Some(above(number, others).map_or(root, |above| ranked[above]));
        }
        Tree(parents)
    };
    numbers.iter().map(tree).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_children_in_one_tree_only() {
        for ranks in 2..70 {
            for root in [0, ranks - 1] {
                let trees = trees(root, ranks);
                let children =
                    |tree: &Tree, rank| tree.0.iter().filter(|up| **up == Some(rank)).count();
                for rank in 0..ranks {
                    let [one, two] = [0, 1].map(|tree| children(&trees[tree], rank));
                    if rank == root {
                        assert_eq!([one, two], [1, 1], "{ranks} ranks");
                    } else {
                        assert!(
                            one == 0 || two == 0 || ranks % 2 == 0,
                            "{rank} of {ranks}: {one}, {two}"
                        );
                        assert!(one <= 2 && two <= 2 && one + two <= 3, "{rank} of {ranks}");
                    }
                    for tree in &trees {
                        let most = 2 + ranks.ilog2() as usize;
                        assert!(tree.depth(rank) <= most, "{rank} of {ranks}");
                    }
                }
            }
        }
    }
}
