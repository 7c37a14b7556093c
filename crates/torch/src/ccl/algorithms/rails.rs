//! Trees by rails: operations with a root on a machine of groups, over all NICs of a group at once.
//!
//! There is a tree for each place of a group, its rail, with a part of the vector. The root gives a part to the SIP at that place of its
//! own group; from there the part goes to the SIPs at the same place of the other groups, one after the other, and in each group round
//! the places. So a NIC carries only the part of its rail, and a SIP sends each byte to at most one SIP of its group.
//! Reductions and gathers go the same ways back; `forest.rs` says in which order a tree combines.

use super::super::algorithm::Operation;
use super::super::part::Part;
use super::forest::{self, Tree};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};

/// Runs one rank's part of an operation with a root, on groups of so many ranks.
pub(super) async fn run(part: &Part, tl: &Tl, each: usize) -> Result<(), KernelError> {
    let rails = of_lane(part.lane, part.lanes, each);
    let trees: Vec<Tree> = rails.map(|rail| tree(rail, each, part.root, part.ranks)).collect();
    // A rank receives from the one above it, or from the next of its group and the next of its rail.
    let spreads = matches!(part.operation, Operation::Broadcast | Operation::Scatter);
    let receivers = trees.len() * if spreads { 1 } else { 2 };
    let mut part = part.clone();
    part.peers.edge.n_slots = part.peers.edge.n_slots.max(slots(&part, tl.machine()));
    part.peers.channel ^= RAILS;
    forest::run_with(&part, tl, trees, receivers).await
}

/// The bit that tells the channel numbers of rails, whose queues have slots of their own number.
const RAILS: u32 = 1 << 19;

/// The slots that keep a NIC busy while a credit comes home, whatever the number of PEs, so that equal channels have equal queues.
fn slots(part: &Part, machine: &MachineSpec) -> u32 {
    let (link, pcie) = (machine.link_of(1), machine.levels[0].pcie);
    let once = link.latency.as_ps() + 2 * pcie.map_or(0, |pcie| pcie.latency.as_ps());
    let bandwidth = link.bandwidth.as_per_second().unwrap_or(0);
    let bytes = u128::from(bandwidth) * 2 * u128::from(once) / 1_000_000_000_000;
    let own = bytes / u128::from(part.peers.edge.slot_size.max(1));
    // One is being filled, and one emptied.
    u32::try_from(own).unwrap_or(u32::MAX).saturating_add(2)
}

/// The rails of a PE: with many PEs one, with few several, so that all rails have the same number of PEs.
fn of_lane(lane: usize, lanes: usize, each: usize) -> impl Iterator<Item = usize> {
    let trees = each / common_divisor(lanes, each);
    (0..trees).map(move |tree| (lane * trees + tree) % each)
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one.max(1) } else { common_divisor(other, one % other) }
}

/// The tree of a rail.
fn tree(rail: usize, each: usize, root: usize, ranks: usize) -> Tree {
    Tree((0..ranks).map(|rank| parent(rank, rail, each, root, ranks)).collect())
}

/// The rank that a rank gets the part of a rail from; `None` for the root.
fn parent(rank: usize, rail: usize, each: usize, root: usize, ranks: usize) -> Option<usize> {
    let (group, place) = (rank / each, rank % each);
    if rank == root {
        return None;
    }
    let at = |group: usize, place: usize| group * each + place;
    if place != rail {
        // Round the places from the rail on; the root has the whole vector, and is not on the way.
        let before = at(group, (place + each - 1) % each);
        let is_passed = before == root && before != at(group, rail);
        return Some(if is_passed { at(group, (place + each - 2) % each) } else { before });
    }
    if group == root / each {
        return Some(root);
    }
    let groups = ranks / each;
    Some(at((group + groups - 1) % groups, rail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rail_carries_its_part_between_groups_and_reaches_every_rank() {
        for (groups, each) in [(2, 8), (8, 8), (2, 1), (5, 1), (3, 2), (2, 3), (4, 5)] {
            let ranks = groups * each;
            for (root, rail) in (0..ranks).flat_map(|root| (0..each).map(move |rail| (root, rail)))
            {
                let tree = tree(rail, each, root, ranks);
                let mut inside = vec![0; ranks];
                for rank in 0..ranks {
                    assert!(
                        tree.depth(rank) < ranks,
                        "{rank} is on a circle: rail {rail}, root {root}"
                    );
                    let Some(parent) = tree.0[rank] else {
                        assert_eq!(rank, root);
                        continue;
                    };
                    if parent / each == rank / each {
                        inside[parent] += 1;
                    } else {
                        assert_eq!((parent % each, rank % each), (rail, rail), "root {root}");
                    }
                }
                assert!(
                    inside.iter().all(|children| *children <= 1),
                    "rail {rail}, root {root}: {inside:?}"
                );
            }
        }
    }

    #[test]
    fn rails_have_the_same_number_of_lanes() {
        for (lanes, each) in [(1, 8), (2, 8), (12, 8), (24, 8), (32, 8), (3, 4), (5, 1)] {
            let mut count = vec![0; each];
            for lane in 0..lanes {
                of_lane(lane, lanes, each).for_each(|rail| count[rail] += 1);
            }
            assert!(
                count.iter().all(|one| *one == count[0] && *one > 0),
                "{lanes}, {each}: {count:?}"
            );
        }
    }
}
