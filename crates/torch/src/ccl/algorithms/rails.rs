//! Trees by rails: operations with a root on a machine of groups, over all NICs of a group at once.
//!
//! There is a tree for each place of a group, its rail, with a part of the vector. The root gives a part to the SIP at that place of its
//! own group; from there the part goes to the SIPs at the same place of the other groups, one after the other, and in each group round
//! the places. So a NIC carries only the part of its rail, and a SIP sends each byte to at most one SIP of its group.
//! Reductions and gathers go the same ways back; `forest.rs` says in which order a tree combines.

use super::super::algorithm::Operation;
use super::super::part::{FITTED, Part};
use super::super::streams::Stream;
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
    let way = Way::of(tl.machine(), part.ranks / each);
    let pes = part.lanes * trees.len() / each;
    let (mut part, streams) = (part.clone(), trees.len());
    let own = way.message(pes).filter(|own| *own < part.peers.edge.slot_size && streams == 1);
    part.peers.edge.slot_size = own.unwrap_or(part.peers.edge.slot_size);
    let sharing = if own.is_some() { pes } else { 1 };
    let slots = way.slots(sharing, part.peers.edge.slot_size);
    part.peers.edge.n_slots = part.peers.edge.n_slots.max(slots);
    part.peers.channel ^= channel(sharing);
    // A rank passes on what the ranks behind it gather, one after the other: many slots let them go on meanwhile.
    let fills = own.is_some() || (part.operation == Operation::Gather && streams == 1);
    let part_of = |index| {
        let stream = Stream { index, streams, receivers };
        if fills {
            return part.only_stream(tl, stream);
        }
        part.stream(tl, stream, &(index..index + 1), streams)
    };
    forest::run_on((0..streams).map(part_of), tl, trees).await
}

/// The bit that tells the channel numbers of rails, whose queues have slots of their own number. Rails are streams: the bit of streams tells
/// them from messages, which have this bit too.
const RAILS: u32 = 1 << 29;

/// The bits of a channel number that say how many PEs share a rail, beside those of one stream.
const SHARING: u32 = FITTED + 2;

/// The most PEs of a rail that the bits hold.
const MOST_SHARING: usize = (1 << 6) - 1;

/// The channel of queues for rails that so many PEs share.
fn channel(sharing: usize) -> u32 {
    let sharing = if sharing > 1 { sharing.min(MOST_SHARING) } else { 0 };
    RAILS | u32::try_from(sharing).unwrap_or(0) << SHARING
}

/// The smallest message that a rail is cut into, in bytes.
const LEAST: u64 = 4 << 10;

/// The way of a rail from group to group.
struct Way {
    /// Bytes that a NIC sends in the time that a message takes to the next group.
    under_way: u64,
    /// The NICs that a message passes, one after the other.
    hops: u64,
}

impl Way {
    fn of(machine: &MachineSpec, groups: usize) -> Self {
        let (link, pcie) = (machine.link_of(1), machine.levels[0].pcie);
        let once = link.latency.as_ps() + 2 * pcie.map_or(0, |pcie| pcie.latency.as_ps());
        let bandwidth = link.bandwidth.as_per_second().unwrap_or(0);
        let bytes = u128::from(bandwidth) * u128::from(once) / 1_000_000_000_000;
        let under_way = u64::try_from(bytes).unwrap_or(u64::MAX);
        Self { under_way, hops: groups.saturating_sub(1) as u64 }
    }

    /// The bytes of a message such that those of all PEs of a rail, at every NIC on the way, take no longer than one hop: the first message
    /// waits for them at each NIC. `None` if it waits at one NIC alone.
    fn message(&self, pes: usize) -> Option<u64> {
        let waits = self.hops.saturating_mul(pes.max(1) as u64);
        (self.hops > 1).then(|| (self.under_way / waits / 16 * 16).max(LEAST))
    }

    /// The slots that keep a NIC busy while a credit comes home, if so many PEs share it.
    fn slots(&self, sharing: usize, slot_size: u64) -> u32 {
        let own = self.under_way.saturating_mul(2) / (sharing.max(1) as u64) / slot_size.max(1);
        // One is being filled, and one emptied.
        u32::try_from(own).unwrap_or(u32::MAX).saturating_add(2)
    }
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
    use crate::distributed::unreceived;
    use phalanx_sim::ipcq::EdgeName;
    use phalanx_sim::topology::PeId;

    #[test]
    fn the_channels_of_rails_are_those_of_no_group_and_of_no_message() {
        let pe = PeId::first(0);
        for (sharing, stream) in (1..=MOST_SHARING).flat_map(|one| [(one, 1), (one, 2)]) {
            let own = channel(sharing);
            assert_eq!(own & ((1 << FITTED) - 1), 0, "the bits of groups and settings");
            assert_eq!(own & (3 << FITTED | 1 << 28), 0, "the bits of streams");
            let channel = own ^ (1 << 8 | stream) << FITTED;
            assert!(unreceived(&EdgeName { from: pe, to: pe, channel }).is_none());
        }
    }

    #[test]
    fn messages_are_short_where_many_nics_follow_each_other() {
        let message =
            |name: &str, groups| Way::of(&MachineSpec::preset(name).unwrap(), groups).message(4);
        assert_eq!(message("b200-roce-16", 2), None);
        // 300 KB are under way to the next of eight nodes.
        assert_eq!(message("h100-pod-64", 8), Some(300_000 / 28 / 16 * 16));
        assert_eq!(message("h100-pod-64", 1 << 20), Some(LEAST));
    }

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
