//! The messages of tasks that the engine knows.

use phalanx_engine::RunId;
use std::sync::Arc;

/// The message of a task, or of each member of a group, until its slot is used again: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Job {
    pub(crate) run: Option<RunId>,
    pub(crate) bytes: Vec<u8>,
    /// Parts that few jobs have.
    pub(in crate::node) rare: Option<Box<Rare>>,
    pub(crate) callable: u32,
    /// True if the task may run again after its worker is lost.
    pub(crate) is_idempotent: bool,
}

const _: () = assert!(size_of::<Job>() == 64, "one cache line");

/// Parts that few jobs have.
#[derive(Debug, Default)]
pub(in crate::node) struct Rare {
    /// End of each member's message, if the task is a group.
    ends: Vec<usize>,
    /// Name of each member; empty if no member has a name of its own.
    names: Vec<Option<Arc<str>>>,
}

impl Job {
    /// Sets the ends of the members' messages of a group.
    pub(crate) fn set_ends(&mut self, ends: Vec<usize>) {
        self.rare.get_or_insert_default().ends = ends;
    }

    /// Sets the name of each member.
    pub(crate) fn set_names(&mut self, names: Vec<Option<Arc<str>>>) {
        self.rare.get_or_insert_default().names = names;
    }

    #[inline]
    pub(in crate::node) fn message(&self, member: u16) -> &[u8] {
        match &self.rare {
            None => &self.bytes,
            Some(rare) => self.message_of(member, rare),
        }
    }

    #[inline(never)]
    fn message_of(&self, member: u16, Rare { ends, .. }: &Rare) -> &[u8] {
        if ends.is_empty() {
            return &self.bytes;
        }
        let member = usize::from(member);
        let from = member.checked_sub(1).map_or(0, |before| ends[before]);
        &self.bytes[from..ends[member]]
    }

    /// Returns the name of a member, if it has one of its own.
    pub(in crate::node) fn name(&self, member: u16) -> Option<Arc<str>> {
        self.rare.as_ref()?.names.get(usize::from(member)).cloned().flatten()
    }
}
