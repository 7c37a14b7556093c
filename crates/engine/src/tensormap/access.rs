//! One argument of one task that has not ended, and the lists such accesses stand in.

use super::{Effect, Kinds};
use crate::arena::{Arena, NONE};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) task: u32,
    /// The region it stands in, if it was not dropped.
    pub(crate) node: u32,
    previous: u32,
    next: u32,
    /// The next access of the same task.
    pub(crate) sibling: u32,
}

/// The last writer of a region, and the first of the list of its readers since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Users {
    writer: u32,
    readers: u32,
}

impl Users {
    pub(crate) const NOBODY: Self = Self { writer: NONE, readers: NONE };

    pub(crate) fn is_nobody(self) -> bool {
        self == Self::NOBODY
    }
}

#[derive(Debug, Default)]
pub(crate) struct Accesses {
    all: Arena<Access>,
}

impl Accesses {
    /// A new access of `task` that stands in no region yet.
    pub(crate) fn open(&mut self, task: u32, first: &mut u32) -> u32 {
        let access =
            self.all.add(Access { task, node: NONE, previous: NONE, next: NONE, sibling: *first });
        *first = access;
        access
    }

    pub(crate) fn get(&self, at: u32) -> Access {
        self.all[at]
    }

    pub(crate) fn close(&mut self, at: u32) {
        self.all.remove(at);
    }

    /// Tells `found` the writer, unless it is `task`.
    pub(crate) fn meet_writer(
        &self,
        users: Users,
        task: u32,
        kinds: Kinds,
        found: &mut dyn FnMut(u32, Kinds),
    ) {
        if users.writer != NONE {
            let other = self.all[users.writer].task;
            if other != task {
                found(other, kinds);
            }
        }
    }

    /// Tells `found` all whom a writer must wait for, and returns how many readers it looked at.
    pub(crate) fn meet_all(
        &self,
        users: Users,
        task: u32,
        effect: Effect,
        found: &mut dyn FnMut(u32, Kinds),
    ) -> u64 {
        self.meet_writer(users, task, effect.on_write(), found);
        let (mut reader, mut count) = (users.readers, 0);
        while reader != NONE {
            let access = &self.all[reader];
            if access.task != task {
                found(access.task, Kinds::WRITE_AFTER_READ);
            }
            count += 1;
            reader = access.next;
        }
        count
    }

    pub(crate) fn set_writer(&mut self, users: &mut Users, node: u32, access: u32) {
        users.writer = access;
        self.all[access].node = node;
    }

    pub(crate) fn add_reader(&mut self, users: &mut Users, node: u32, access: u32) {
        let first = std::mem::replace(&mut users.readers, access);
        let entry = &mut self.all[access];
        (entry.node, entry.next) = (node, first);
        if first != NONE {
            self.all[first].previous = access;
        }
    }

    /// All of `users` stand in no region any more.
    pub(crate) fn drop_all(&mut self, users: Users) {
        if users.writer != NONE {
            self.all[users.writer].node = NONE;
        }
        let mut reader = users.readers;
        while reader != NONE {
            let access = &mut self.all[reader];
            access.node = NONE;
            reader = access.next;
        }
    }

    /// `access`, which is number `at`, leaves `users`.
    pub(crate) fn leave(&mut self, users: &mut Users, at: u32, access: Access) {
        if users.writer == at {
            users.writer = NONE;
            return;
        }
        if access.next != NONE {
            self.all[access.next].previous = access.previous;
        }
        if access.previous == NONE {
            users.readers = access.next;
        } else {
            self.all[access.previous].next = access.next;
        }
    }
}
