//! What a recording engine remembers of each task of a run.

use crate::task::{ArgumentOf, State, TaskId};
use crate::tensormap::Kinds;

/// A task that a recording run has seen.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) task: TaskId,
    pub(crate) work: u64,
    pub(crate) members: usize,
    pub(crate) state: State,
    pub(crate) took: u64,
    pub(crate) edges: Vec<Incoming>,
}

/// An edge from an earlier entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) at: ArgumentOf,
    pub(crate) kinds: Kinds,
}
