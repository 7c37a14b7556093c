//! `multi_ring`: rings along every dimension of a ring, torus or mesh, in both directions, each with a part of the vector.
//!
//! A reduction or a gather has a stream for each order of the dimensions (x y, y x) and each direction; a stream goes through the
//! dimensions as `lines.rs` says. A stream loads the links of its first dimension the most, so that the streams together load all
//! links alike. Operations with a root follow trees that share no link: one for each dimension and direction, along a line of this
//! dimension first and along the others then; the ranks that are left, beyond the root, are reached round the first dimension. An
//! all-to-all runs like `direct`, but sends, copies and receives at the same time.

use super::super::algorithm::{Algorithm, Operation, Running, never, unknown_work};
use super::super::channels::Channels;
use super::super::part::Part;
use super::super::streams::{Stream, UNITS, side_by_side};
use super::direct;
use super::forest::{self, Tree};
use super::lines::{Dimension, Lines};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "multi_ring",
    summary: "rings along every dimension in both directions, each with a part of the vector; all links at once",
    operations: &Operation::ALL,
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits,
    symmetry: never,
    work: unknown_work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// The places of SIPs in each dimension of the machine, x first, if it is a ring or a grid.
pub(super) fn grid(machine: &MachineSpec) -> Option<Vec<usize>> {
    if machine.level_count() > 1 {
        return None;
    }
    let sides = machine.sips.topology.sides(machine.sips.count)?;
    Some(sides.into_iter().map(|places| places as usize).collect())
}

fn fits(machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
    let Some(places) = grid(machine) else {
        let levels = machine.level_count() > 1;
        let here = if levels { "one with levels" } else { machine.sips.topology.name() };
        return Err(format!(
            "`multi_ring` needs SIPs in a ring or a grid, and this machine is {here}"
        ));
    };
    let count = machine.sips.count;
    let is_ring = places.iter().filter(|places| **places > 1).count() < 2;
    if !is_ring && !members.iter().copied().eq(0..count) {
        return Err(format!(
            "`multi_ring` needs a group of all {count} SIPs of the grid in their order"
        ));
    }
    Ok(())
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    if part.operation == Operation::AllToAll {
        // Routes are the shortest, and use all links alike.
        return direct::all_to_all(part, tl).await;
    }
    let mut places = grid(tl.machine()).unwrap_or_default();
    if places.iter().product::<usize>() != part.ranks {
        places = vec![part.ranks];
    }
    let dimensions = dimensions(&places);
    if part.operation.is_elementwise() && part.operation != Operation::AllReduce
        || part.operation.has_root()
    {
        return forest::run(&part, &tl, trees(&dimensions, part.root, part.ranks)).await;
    }
    let ways = ways(&dimensions);
    let receivers = ways.len() * dimensions.len();
    let (mut running, mut start) = (Vec::new(), 0);
    for (index, way) in ways.iter().enumerate() {
        let stream = Stream { index, streams: ways.len(), receivers };
        let own = part.stream(&tl, stream, &(start..start + way.share), UNITS);
        start += way.share;
        running.push(one_way(own, tl.clone(), way.dimensions.clone()));
    }
    side_by_side(running).await
}

fn one_way(part: Part, tl: Tl, dimensions: Vec<Dimension>) -> Running<'static> {
    Box::pin(async move {
        let lines = Lines::open(&part, &tl, &dimensions)?;
        let slices = slices(&part);
        for slice in 0..slices {
            lines.run(&part.slice(slice, slices)).await?;
        }
        Ok(())
    })
}

/// The slices of a part, one after the other. A rank sends its first block before it receives: with few ranks this block is a large part
/// of the vector, and a slice has no more of it than the slots of the next rank hold.
fn slices(part: &Part) -> usize {
    let block = part.input.len.max(part.output.len) / part.ranks;
    let slots = part.peers.edge.n_slots as usize;
    let chunks = part.chunks(&(0..block)).take(MOST_SLICES.saturating_mul(slots)).count();
    if part.ranks <= FEW { chunks.div_ceil(slots).max(1) } else { 1 }
}

/// Most slices of a part.
const MOST_SLICES: usize = 256;

/// So many ranks are few.
const FEW: usize = 4;

/// The dimensions with more than one place.
fn dimensions(places: &[usize]) -> Vec<Dimension> {
    let mut stride = 1;
    let mut dimensions = Vec::new();
    for &count in places {
        if count > 1 {
            dimensions.push(Dimension { stride, count, up: true });
        }
        stride *= count;
    }
    dimensions
}

/// The way of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    /// The dimensions in the order of a reduction.
    dimensions: Vec<Dimension>,
    /// The part of the vector, in [`UNITS`].
    share: usize,
}

/// The dimensions from `first` on, round, in one direction.
fn turned(dimensions: &[Dimension], first: usize, up: bool) -> Vec<Dimension> {
    let count = dimensions.len();
    (0..count).map(|at| Dimension { up, ..dimensions[(first + at) % count] }).collect()
}

/// A way for each dimension that can be the first, in each direction.
fn ways(dimensions: &[Dimension]) -> Vec<Way> {
    let shares = match dimensions {
        [x, y] => {
            let first = first_share(*x, *y);
            vec![first, UNITS - first]
        }
        _ => (0..dimensions.len()).map(|_| UNITS / dimensions.len()).collect(),
    };
    let mut ways = Vec::new();
    for (first, share) in shares.into_iter().enumerate().filter(|(_, share)| *share > 0) {
        let up = Way { dimensions: turned(dimensions, first, true), share: share - share / 2 };
        let down = Way { dimensions: turned(dimensions, first, false), share: share / 2 };
        ways.extend([up, down]);
    }
    // The remainder of the division.
    let all: usize = ways.iter().map(|way| way.share).sum();
    if let Some(last) = ways.last_mut() {
        last.share += UNITS - all;
    }
    ways
}

/// Links of a rank along a dimension: two neighbours, or one.
fn links(dimension: Dimension) -> usize {
    if dimension.count > 2 { 2 } else { 1 }
}

/// The part of the vector that goes along `x` first, so that the links of both dimensions carry the same. In units of a block, the
/// part `a` loads x with `(x-1)y` and y with `y-1`, the rest loads y with `(y-1)x` and x with `x-1`.
fn first_share(x: Dimension, y: Dimension) -> usize {
    let (in_x, in_y) = (links(x), links(y));
    let (x, y) = (x.count, y.count);
    let above = ((y - 1) * x * in_x).saturating_sub((x - 1) * in_y);
    let below = (x - 1) * (y - 1) * (in_x + in_y);
    (above * UNITS / below).min(UNITS)
}

/// Trees from `root` that share no link: one for each dimension that can be the first, in each direction.
fn trees(dimensions: &[Dimension], root: usize, ranks: usize) -> Vec<Tree> {
    let directions =
        |first: usize| if dimensions[first].count > 2 { &[true, false][..] } else { &[true] };
    let firsts = (0..dimensions.len())
        .flat_map(|first| directions(first).iter().map(move |up| turned(dimensions, first, *up)));
    let tree =
        |way: Vec<Dimension>| Tree((0..ranks).map(|rank| parent(&way, root, rank)).collect());
    firsts.map(tree).collect()
}

/// The parent of a rank in the tree along these dimensions.
fn parent(way: &[Dimension], root: usize, rank: usize) -> Option<usize> {
    let distance = |dimension: &Dimension| {
        let count = dimension.count;
        (dimension.position(rank) + count - dimension.position(root)) % count
    };
    let back =
        |dimension: &Dimension| dimension.at(rank, dimension.position(rank) + dimension.count - 1);
    let (first, others) = way.split_first()?;
    let last = others.iter().rev().find(|dimension| distance(dimension) > 0);
    match (distance(first), last) {
        (0, None) => None,
        (0, Some(_)) | (_, None) => Some(back(first)),
        (_, Some(last)) => Some(back(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn grids() -> Vec<Vec<usize>> {
        vec![vec![3], vec![8], vec![4, 4], vec![3, 5], vec![8, 3], vec![4, 4, 4], vec![3, 4, 5]]
    }

    #[test]
    fn trees_reach_every_rank_and_share_no_link() {
        for places in grids() {
            let ranks = places.iter().product();
            for root in [0, 1, ranks - 1] {
                let mut used = BTreeMap::new();
                for tree in trees(&dimensions(&places), root, ranks) {
                    for rank in 0..ranks {
                        assert!(tree.depth(rank) < ranks, "{places:?}: {rank} is on a circle");
                        let Some(parent) = tree.0[rank] else {
                            assert_eq!(rank, root, "{places:?}");
                            continue;
                        };
                        assert_ne!(rank, root, "{places:?}");
                        let count = used.entry((parent, rank)).or_insert(0);
                        *count += 1;
                        assert_eq!(*count, 1, "{places:?}, root {root}: {parent} to {rank} twice");
                    }
                }
            }
        }
    }

    #[test]
    fn streams_load_all_links_of_a_torus_alike() {
        for places in [[4, 4], [8, 8], [2, 8], [8, 2], [3, 5], [16, 4]] {
            let dimensions = dimensions(&places);
            let mut loads = [0, 0];
            for way in ways(&dimensions) {
                let [first, second] = [way.dimensions[0], way.dimensions[1]];
                let x_first = usize::from(first.stride != 1);
                loads[x_first] += way.share * (first.count - 1) * second.count / links(first);
                loads[1 - x_first] += way.share * (second.count - 1) / links(second);
            }
            let (most, least) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
            assert!(most - least <= UNITS / 100, "{places:?}: {loads:?}");
        }
    }

    #[test]
    fn the_parts_of_all_streams_are_the_vector() {
        for places in grids() {
            let all: usize = ways(&dimensions(&places)).iter().map(|way| way.share).sum();
            assert_eq!(all, UNITS, "{places:?}");
        }
    }
}
