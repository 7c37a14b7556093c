//! The algorithms, one a file.

pub(super) mod bidirectional_ring;
pub(super) mod direct;
pub(super) mod double_tree;
mod folded;
mod forest;
pub(super) mod halving_doubling;
pub(super) mod hierarchical;
mod lines;
pub(super) mod multi_ring;
pub(super) mod nvls;
mod rails;
pub(super) mod recursive_doubling;
pub(super) mod ring;
pub(super) mod torus_2d;
pub(super) mod tree;
pub(super) mod two_hop;
pub(super) mod two_level;

use phalanx_sim::MachineSpec;

/// True if all members are in one group of the innermost level.
fn are_in_one_group(machine: &MachineSpec, members: &[u32]) -> bool {
    let group = |member: &u32| machine.group_of(*member, 0);
    members.windows(2).all(|pair| group(&pair[0]) == group(&pair[1]))
}
