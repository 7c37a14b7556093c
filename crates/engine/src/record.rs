//! The record of a run in a recording engine: its tasks, and all dependencies between them, also on tasks that had ended
//! when the dependency was found.

use crate::arena::{NONE, number};
use crate::buffer::BufferId;
use crate::task::{ArgumentOf, State, TaskId};
use crate::tensormap::{Effect, Kinds, TensorMap, Touch};
use crate::view::Region;
use std::collections::BTreeMap;

/// A task that a recording run has seen.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) task: TaskId,
    pub(crate) work: u64,
    pub(crate) members: usize,
    pub(crate) state: State,
    pub(crate) took: u64,
    /// The longest path that ends where it ends; 0 until it has.
    pub(crate) until: u64,
    pub(crate) edges: Vec<Incoming>,
}

/// An edge from an earlier entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) at: ArgumentOf,
    pub(crate) kinds: Kinds,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) entries: Vec<Entry>,
    numbers: BTreeMap<TaskId, u32>,
    /// Regions and their users, by the numbers of entries: no entry ever leaves.
    map: TensorMap,
    /// The map of each buffer.
    maps: BTreeMap<BufferId, u32>,
}

impl Record {
    /// A new task.
    pub(crate) fn add(&mut self, task: TaskId, work: u64, members: usize) -> u32 {
        let at = number(self.entries.len());
        let (state, edges) = (State::Pending, Vec::new());
        self.entries.push(Entry { task, work, members, state, took: 0, until: 0, edges });
        self.numbers.insert(task, at);
        at
    }

    /// The last task has this argument.
    pub(crate) fn access(
        &mut self,
        buffer: BufferId,
        (region, effect): (&Region, Effect),
        at: ArgumentOf,
    ) {
        let first = self.maps.entry(buffer).or_insert(NONE);
        let map = self.map.map(first, (0, 0), |_| false);
        let task = number(self.entries.len().saturating_sub(1));
        let Some(entry) = self.entries.last_mut() else { return };
        let mut accesses = NONE;
        self.map.access(map, &Touch { region, effect, task }, &mut accesses, &mut |from, kinds| {
            if !effect.is_unordered {
                entry.edges.push(Incoming { from, at, kinds });
            }
        });
    }

    /// The last task comes after another one, as the submitter said.
    pub(crate) fn after(&mut self, task: TaskId) {
        let from = self.numbers.get(&task).copied();
        if let (Some(from), Some(entry)) = (from, self.entries.last_mut()) {
            let (at, kinds) = (ArgumentOf::NONE, Kinds::EXPLICIT);
            entry.edges.push(Incoming { from, at, kinds });
        }
    }

    /// All is known of the last task: each producer is listed once for each argument. Returns the longest path through
    /// those that have ended.
    pub(crate) fn finish(&mut self) -> u64 {
        let Some(entry) = self.entries.last_mut() else { return 0 };
        entry.edges.sort_by_key(|edge| (edge.at, edge.from));
        entry.edges.dedup_by(|later, kept| {
            let is_same = (later.at, later.from) == (kept.at, kept.from);
            if is_same {
                kept.kinds = kept.kinds.and(later.kinds);
            }
            is_same
        });
        let producers = self.entries.last().map_or(&[][..], |entry| &entry.edges);
        producers.iter().map(|edge| self.entries[edge.from as usize].until).max().unwrap_or(0)
    }
}
