//! Groups: one task with several members that run at the same time.
//!
//! Groups of one run start in the order in which they became ready. Groups of different runs have no order among them:
//! of runs that share a worker only the first starts anything (RUN-2), and others have no worker in common.
//!
//! - **GRP-1 (all or nothing).** No member starts before every worker it needs is idle, then all do.
//! - **GRP-2 (reservation).** While the first group of a run waits, its workers start no single task; other workers do,
//!   and later groups reserve nothing. So a group waits for running tasks, never for later ones.
//! - **GRP-3 (one ending).** The group ends when all its members have; the first failure is its cause. Members that run
//!   are waited for, members that never started are skipped.
//! - **GRP-4 (possible).** A group that could never start is refused when it is submitted, or fails when the workers it
//!   needs are gone.

use crate::run::Cause;

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The worker of each member; of a pool's group, once it runs.
    pub(crate) targets: Vec<u32>,
    /// The pool it takes any workers of.
    pub(crate) pool: Option<u32>,
    pub(crate) members: usize,
    /// Members that have not ended.
    pub(crate) remaining: usize,
    /// The first failure.
    pub(crate) cause: Option<Cause>,
    /// The longest of the members' durations.
    pub(crate) took: u64,
}
