//! The messages of tasks that the engine knows.

use phalanx_engine::RunId;
use std::sync::Arc;

/// The message of a task, or of each member of a group, until its slot is used again.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) run: Option<RunId>,
    pub(crate) callable: u32,
    /// True if the task may run again after its worker is lost.
    pub(crate) is_idempotent: bool,
    pub(crate) bytes: Vec<u8>,
    /// End of each member's message, if the task is a group.
    pub(crate) ends: Vec<usize>,
    /// Name of each member; empty if no member has a name of its own.
    pub(crate) names: Vec<Option<Arc<str>>>,
}

impl Job {
    pub(in crate::node) fn message(&self, member: u16) -> &[u8] {
        if self.ends.is_empty() {
            return &self.bytes;
        }
        let member = usize::from(member);
        let from = member.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[member]]
    }

    /// Returns the name of a member, if it has one of its own.
    pub(in crate::node) fn name(&self, member: u16) -> Option<Arc<str>> {
        self.names.get(usize::from(member)).cloned().flatten()
    }
}
