//! Who wrote and who reads which bytes of a buffer: where dependencies come from.
//!
//! ```text
//!   buffer ──► map of a run ──► nodes, one per distinct region, in a tree by first byte
//!                                 │ writer: the access that wrote it last
//!                                 └ readers: accesses since then, a linked list
//!   task   ──► its accesses (so that a task that ends leaves no trace in any node)
//! ```
//!
//! Only tasks that have not ended stand in a map. A region that is written again drops what it covers whole: whoever
//! comes later waits for the new writer, and the new writer waits for all it dropped.
//!
//! - **TM-1 (no lost dependency).** Of two accesses to a common byte, of which one writes, the later task waits for the
//!   earlier one, directly or through others (`RaW`, `WaW`, `WaR`).
//! - **TM-2 (no invented dependency).** Tasks whose regions share no byte are independent.
//! - **TM-3 (partial writes).** A write drops only regions it covers whole; a partial write hides nobody.
//! - **TM-4 (owner-checked).** The end of an older writer never removes the entry of a newer one.
//! - **TM-5 (runs apart).** Accesses of one run are invisible to another.
//! - **TM-6 (logarithmic).** An access costs the logarithm of the live regions of its buffer, plus what it meets.

mod tree;

use crate::arena::{Arena, NONE};
use crate::view::Region;
use tree::Tree;

/// How an edge came about; a set of bits.
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

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
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

/// What one argument does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Drops nobody, for it waits for nobody.
    pub(crate) is_unordered: bool,
}

/// One argument of one task that has not ended.
#[derive(Clone, Copy, Debug)]
struct Access {
    task: u32,
    /// The region it stands in, if it was not dropped.
    node: u32,
    previous: u32,
    next: u32,
    /// The next access of the same task.
    sibling: u32,
}

/// The accesses of one run to one buffer.
#[derive(Debug)]
struct Map {
    root: u32,
    /// The run's index and its number.
    run: (u32, u64),
    /// The next map of the same buffer.
    next: u32,
}

/// A task that accesses, and the first of its accesses.
#[derive(Debug)]
pub(crate) struct Accessor<'a> {
    pub(crate) task: u32,
    pub(crate) accesses: &'a mut u32,
}

#[derive(Debug, Default)]
pub(crate) struct TensorMap {
    maps: Arena<Map>,
    tree: Tree,
    accesses: Arena<Access>,
    met: Vec<u32>,
}

impl TensorMap {
    /// The map of `run` that hangs off `first`; `is_over` tells whether a run has ended and left its map.
    #[inline]
    pub(crate) fn of(
        &mut self,
        first: &mut u32,
        run: (u32, u64),
        is_over: impl Fn((u32, u64)) -> bool,
    ) -> u32 {
        if *first != NONE && self.maps[*first].run == run {
            return *first;
        }
        let (mut at, mut left) = (*first, NONE);
        while at != NONE {
            if self.maps[at].run == run {
                return at;
            }
            if is_over(self.maps[at].run) {
                left = at;
            }
            at = self.maps[at].next;
        }
        if left != NONE {
            self.maps[left].run = run;
            return left;
        }
        *first = self.maps.add(Map { root: NONE, run, next: *first });
        *first
    }

    /// Whether a run that is not over has a map hanging off `first`.
    pub(crate) fn is_named(&self, first: u32, is_over: impl Fn((u32, u64)) -> bool) -> bool {
        let mut at = first;
        while at != NONE {
            if !is_over(self.maps[at].run) {
                return true;
            }
            at = self.maps[at].next;
        }
        false
    }

    /// Enters one argument and tells `found` each task it conflicts with, perhaps more than once.
    #[inline]
    pub(crate) fn access(
        &mut self,
        map: u32,
        region: &Region,
        effect: Effect,
        accessor: &mut Accessor<'_>,
        found: impl FnMut(u32, Kinds),
    ) {
        let access = Access {
            task: accessor.task,
            node: NONE,
            previous: NONE,
            next: NONE,
            sibling: *accessor.accesses,
        };
        let access = self.accesses.add(access);
        *accessor.accesses = access;
        let root = self.maps[map].root;
        if root == NONE {
            let node = self.tree.add(region, map);
            self.maps[map].root = node;
            if effect.writes {
                self.set_writer(node, access);
            } else {
                self.add_reader(node, access);
            }
            return;
        }
        if self.tree.is_single(root) {
            let adds = effect.writes && effect.is_unordered;
            if !adds && self.tree[root].region.is_same(region) {
                return self.enter_same(root, access, effect, found);
            }
        }
        if effect.writes {
            self.write(map, region, effect, access, found);
        } else {
            self.read(map, region, access, found);
        }
    }

    /// The usual case: the region is there already.
    #[inline]
    fn enter_same(
        &mut self,
        node: u32,
        access: u32,
        effect: Effect,
        mut found: impl FnMut(u32, Kinds),
    ) {
        let task = self.accesses[access].task;
        if effect.writes {
            self.meet_all(node, task, effect, &mut found);
            self.drop_all(node);
            self.set_writer(node, access);
        } else {
            self.meet_writer(node, task, Kinds::READ_AFTER_WRITE, &mut found);
            self.add_reader(node, access);
        }
    }

    fn read(&mut self, map: u32, region: &Region, access: u32, mut found: impl FnMut(u32, Kinds)) {
        let task = self.accesses[access].task;
        let met = self.meeting(map, region);
        let mut same = NONE;
        for &node in &met {
            self.meet_writer(node, task, Kinds::READ_AFTER_WRITE, &mut found);
            if self.tree[node].region.is_same(region) {
                same = node;
            }
        }
        self.met = met;
        if same == NONE {
            same = self.add_node(map, region);
        }
        self.add_reader(same, access);
    }

    fn write(
        &mut self,
        map: u32,
        region: &Region,
        effect: Effect,
        access: u32,
        mut found: impl FnMut(u32, Kinds),
    ) {
        let task = self.accesses[access].task;
        let met = self.meeting(map, region);
        let mut same = NONE;
        for &node in &met {
            self.meet_all(node, task, effect, &mut found);
            if effect.is_unordered || !region.covers(&self.tree[node].region) {
                continue;
            }
            self.drop_all(node);
            if same == NONE && self.tree[node].region.is_same(region) {
                same = node;
            } else {
                self.remove_node(map, node);
            }
        }
        self.met = met;
        if same == NONE {
            same = self.add_node(map, region);
        }
        self.set_writer(same, access);
    }

    /// The nodes that share a byte with `region`, in the vector that is kept for them.
    fn meeting(&mut self, map: u32, region: &Region) -> Vec<u32> {
        let mut met = std::mem::take(&mut self.met);
        met.clear();
        self.tree.meeting(self.maps[map].root, region, &mut met);
        met
    }

    #[inline]
    fn meet_writer(&self, node: u32, task: u32, kinds: Kinds, found: &mut impl FnMut(u32, Kinds)) {
        let writer = self.tree[node].writer;
        if writer != NONE && self.accesses[writer].task != task {
            found(self.accesses[writer].task, kinds);
        }
    }

    #[inline]
    fn meet_all(&self, node: u32, task: u32, effect: Effect, found: &mut impl FnMut(u32, Kinds)) {
        let kinds = Kinds::WRITE_AFTER_WRITE;
        let kinds = if effect.reads { kinds.and(Kinds::READ_AFTER_WRITE) } else { kinds };
        self.meet_writer(node, task, kinds, found);
        let mut reader = self.tree[node].readers;
        while reader != NONE {
            let access = &self.accesses[reader];
            if access.task != task {
                found(access.task, Kinds::WRITE_AFTER_READ);
            }
            reader = access.next;
        }
    }

    #[inline]
    fn set_writer(&mut self, node: u32, access: u32) {
        self.tree[node].writer = access;
        self.accesses[access].node = node;
    }

    #[inline]
    fn add_reader(&mut self, node: u32, access: u32) {
        let first = std::mem::replace(&mut self.tree[node].readers, access);
        let entry = &mut self.accesses[access];
        (entry.node, entry.next) = (node, first);
        if first != NONE {
            self.accesses[first].previous = access;
        }
    }

    /// All accesses of `node` stand in no node any more.
    #[inline]
    fn drop_all(&mut self, node: u32) {
        let writer = std::mem::replace(&mut self.tree[node].writer, NONE);
        if writer != NONE {
            self.accesses[writer].node = NONE;
        }
        let mut reader = std::mem::replace(&mut self.tree[node].readers, NONE);
        while reader != NONE {
            let access = &mut self.accesses[reader];
            access.node = NONE;
            reader = access.next;
        }
    }

    #[inline]
    fn is_vacant(&self, node: u32) -> bool {
        self.tree[node].writer == NONE && self.tree[node].readers == NONE
    }

    fn add_node(&mut self, map: u32, region: &Region) -> u32 {
        let node = self.tree.add(region, map);
        let root = self.maps[map].root;
        self.maps[map].root = self.tree.insert(root, node);
        node
    }

    fn remove_node(&mut self, map: u32, node: u32) {
        let root = self.maps[map].root;
        self.maps[map].root = self.tree.remove(root, node);
    }

    /// The task with these accesses has ended.
    #[inline]
    pub(crate) fn retire(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            let access = self.accesses[at];
            if access.node != NONE {
                self.leave(at, access);
            }
            self.accesses.remove(at);
            at = access.sibling;
        }
    }

    #[inline]
    fn leave(&mut self, at: u32, access: Access) {
        let node = access.node;
        if self.tree[node].writer == at {
            self.tree[node].writer = NONE;
        } else {
            if access.next != NONE {
                self.accesses[access.next].previous = access.previous;
            }
            if access.previous == NONE {
                self.tree[node].readers = access.next;
            } else {
                self.accesses[access.previous].next = access.next;
            }
        }
        let map = self.tree[node].map;
        if self.is_vacant(node) {
            if self.maps[map].root == node && self.tree.is_single(node) {
                self.maps[map].root = NONE;
                return self.tree.free(node);
            }
            self.remove_node(map, node);
        }
    }

    /// How many accesses and regions there are.
    pub(crate) fn live(&self) -> (usize, usize) {
        (self.accesses.live(), self.tree.live())
    }
}
