//! The tensor map: the writer and the readers of every byte of a buffer, from which dependencies follow.
//!
//! ```text
//!   buffer ──► trail: its only region, the task that wrote it last, the tasks that have read it since
//!     └──► map of a run ──► nodes, one for each distinct region, in a tree by first byte
//!                             └ users: the access that wrote it last, and a list of those that have read it since
//!   task   ──► its accesses (so that a task that ends leaves no trace in any tree)
//! ```
//!
//! Most buffers are always named whole. Their only region stands in the buffer's record, its trail: no tree is touched,
//! and a task that ends touches nothing, for a trail names tasks in a way that tells whether they have ended. When a
//! second region comes while somebody uses the first, both go to a tree; once that is empty, there is an only region again.
//!
//! Only tasks that have not ended stand in a tree. A region that is written again drops the entries that it covers
//! whole: later tasks wait for the new writer, and the new writer waits for all dropped ones.
//!
//! - **TM-1 (no lost dependency).** Of two accesses to a common byte, of which one writes, the later task waits for the
//!   earlier one, directly or through others (`RaW`, `WaW`, `WaR`).
//! - **TM-2 (no invented dependency).** Tasks whose regions share no byte are independent.
//! - **TM-3 (partial writes).** A write drops only regions it covers whole; a partial write hides nobody.
//! - **TM-4 (owner-checked).** The end of an older writer never removes the entry of a newer one.
//! - **TM-5 (runs apart).** Accesses of one run are invisible to another.
//! - **TM-6 (logarithmic).** An access costs the logarithm of the live regions of its buffer, plus what it meets.

mod access;
pub(crate) mod trail;
mod tree;

use crate::arena::{Arena, NONE};
use crate::view::Region;
use access::{Accesses, Users};
use tree::Tree;

/// One access of a task to a region, and what the access does.
#[derive(Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub(crate) region: &'a Region,
    pub(crate) effect: Effect,
    pub(crate) task: u32,
}

/// The conflicts that cause an edge; a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Reads what the producer writes.
    pub const READ_AFTER_WRITE: Self = Self(1);
    /// Writes what the producer writes.
    pub const WRITE_AFTER_WRITE: Self = Self(2);
    /// Writes what the producer reads.
    pub const WRITE_AFTER_READ: Self = Self(4);
    /// The submitter said so.
    pub const EXPLICIT: Self = Self(8);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// True if all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (Self::READ_AFTER_WRITE, "RaW"),
            (Self::WRITE_AFTER_WRITE, "WaW"),
            (Self::WRITE_AFTER_READ, "WaR"),
        ];
        let names = names.into_iter().chain([(Self::EXPLICIT, "after")]);
        let mut separator = "";
        for (_, name) in names.filter(|(kind, _)| self.contains(*kind)) {
            write!(f, "{separator}{name}")?;
            separator = "+";
        }
        Ok(())
    }
}

/// The effect of one argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Drops nobody, for it waits for nobody.
    pub(crate) is_unordered: bool,
}

impl Effect {
    /// Returns the conflicts of a writer with the writer before it.
    #[inline]
    pub(crate) fn on_write(self) -> Kinds {
        let reads = if self.reads { Kinds::READ_AFTER_WRITE.0 } else { 0 };
        Kinds(Kinds::WRITE_AFTER_WRITE.0 | reads)
    }

    /// True if it is one more writer beside those that are there.
    #[inline]
    pub(crate) fn adds(self) -> bool {
        self.writes && self.is_unordered
    }
}

/// A run's index and its number.
pub(crate) type RunKey = (u32, u64);

/// The regions of one buffer that are told apart by one run.
#[derive(Debug)]
struct Map {
    root: u32,
    run: RunKey,
    /// The next map of the same buffer.
    next: u32,
}

/// Trees of regions: for each buffer that needs them, one for each run that names it.
#[derive(Debug, Default)]
pub(crate) struct TensorMap {
    maps: Arena<Map>,
    tree: Tree,
    accesses: Accesses,
    met: Vec<u32>,
}

impl TensorMap {
    /// The map of `run` among those that hang off `first`; `is_over` tells whether a run has ended and left its map.
    pub(crate) fn map(
        &mut self,
        first: &mut u32,
        run: RunKey,
        is_over: impl Fn(RunKey) -> bool,
    ) -> u32 {
        let (mut at, mut left) = (*first, NONE);
        while at != NONE {
            let map = &self.maps[at];
            if map.run == run {
                return at;
            }
            if is_over(map.run) {
                left = at;
            }
            at = map.next;
        }
        if left != NONE {
            self.maps[left].run = run;
            return left;
        }
        *first = self.maps.add(Map { root: NONE, run, next: *first });
        *first
    }

    /// True if `run` has regions in a map that hangs off `first`.
    pub(crate) fn has_regions(&self, first: u32, run: RunKey) -> bool {
        let mut at = first;
        while at != NONE {
            let map = &self.maps[at];
            if map.run == run {
                return map.root != NONE;
            }
            at = map.next;
        }
        false
    }

    /// True if a run that is not over has a map that hangs off `first`.
    pub(crate) fn is_named(&self, first: u32, is_over: impl Fn(RunKey) -> bool) -> bool {
        let mut at = first;
        while at != NONE {
            if !is_over(self.maps[at].run) {
                return true;
            }
            at = self.maps[at].next;
        }
        false
    }

    /// Enters one argument of a task and tells `found` each task it conflicts with, perhaps more than once; `first` is the
    /// first of the task's accesses.
    pub(crate) fn access(
        &mut self,
        map: u32,
        touch: &Touch<'_>,
        first: &mut u32,
        found: &mut dyn FnMut(u32, Kinds),
    ) {
        let access = self.accesses.open(touch.task, first);
        if touch.effect.writes {
            self.write(map, touch, access, found);
        } else {
            self.read(map, touch, access, found);
        }
    }

    fn read(
        &mut self,
        map: u32,
        &Touch { region, task, .. }: &Touch<'_>,
        access: u32,
        found: &mut dyn FnMut(u32, Kinds),
    ) {
        let met = self.meeting(map, region);
        let mut same = NONE;
        for &node in &met {
            self.accesses.meet_writer(self.tree[node].users, task, Kinds::READ_AFTER_WRITE, found);
            if self.tree[node].region.is_same(region) {
                same = node;
            }
        }
        self.met = met;
        if same == NONE {
            same = self.add_node(map, region);
        }
        self.accesses.add_reader(&mut self.tree[same].users, same, access);
    }

    fn write(
        &mut self,
        map: u32,
        &Touch { region, effect, task }: &Touch<'_>,
        access: u32,
        found: &mut dyn FnMut(u32, Kinds),
    ) {
        let met = self.meeting(map, region);
        let mut same = NONE;
        for &node in &met {
            let users = self.tree[node].users;
            self.tree.visits += self.accesses.meet_all(users, task, effect, found);
            if effect.is_unordered || !region.covers(&self.tree[node].region) {
                continue;
            }
            let users = std::mem::replace(&mut self.tree[node].users, Users::NOBODY);
            self.accesses.drop_all(users);
            if same == NONE && self.tree[node].region.is_same(region) {
                same = node;
            } else {
                self.remove_node(node);
            }
        }
        self.met = met;
        if same == NONE {
            same = self.add_node(map, region);
        }
        self.accesses.set_writer(&mut self.tree[same].users, same, access);
    }

    /// The nodes that share a byte with `region`, in the vector that is kept for them.
    fn meeting(&mut self, map: u32, region: &Region) -> Vec<u32> {
        let mut met = std::mem::take(&mut self.met);
        met.clear();
        self.tree.meeting(self.maps[map].root, region, &mut met);
        met
    }

    fn add_node(&mut self, map: u32, region: &Region) -> u32 {
        let node = self.tree.add(region, map);
        let root = self.maps[map].root;
        self.maps[map].root = self.tree.insert(root, node);
        node
    }

    fn remove_node(&mut self, node: u32) {
        let map = self.tree[node].map;
        let root = self.maps[map].root;
        self.maps[map].root = self.tree.remove(root, node);
    }

    /// The task with these accesses has ended.
    pub(crate) fn retire(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            let access = self.accesses.get(at);
            if access.node != NONE {
                let users = &mut self.tree[access.node].users;
                self.accesses.leave(users, at, access);
                if users.is_nobody() {
                    self.remove_node(access.node);
                }
            }
            self.accesses.close(at);
            at = access.sibling;
        }
    }

    /// Returns the number of regions and conflicts visited so far.
    pub(crate) fn visits(&self) -> u64 {
        self.tree.visits
    }

    /// Returns the number of regions.
    pub(crate) fn live(&self) -> usize {
        self.tree.live()
    }
}
