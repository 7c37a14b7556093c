//! References that keep a task's slab: values that are given back exactly once.
//!
//! A [`Holders`] counts nothing by hand: each reference is a value that cannot be copied, made here and consumed here.
//!
//! - **REF-1 (no reuse under reference).** A slot and its slab are free only when the task itself, its scope and all
//!   consumers of its slab have let go.

use std::num::NonZeroU32;

/// Held by a task that names the slab of another until it has ended.
#[derive(Debug)]
#[must_use]
pub(crate) struct ConsumerRef(u32);

/// Held by a scope on each slab that was made in it.
#[derive(Debug)]
#[must_use]
pub(crate) struct ScopeRef(u32);

/// Held by a task on itself until it has ended; one more than its slot, so that none needs no room.
#[derive(Debug)]
#[must_use]
pub(crate) struct SelfRef(NonZeroU32);

/// A reference of any kind, and whose it is.
pub(crate) trait Reference {
    /// The slot it holds.
    fn slot(&self) -> u32;
}

impl Reference for ConsumerRef {
    #[inline]
    fn slot(&self) -> u32 {
        self.0
    }
}

impl Reference for ScopeRef {
    #[inline]
    fn slot(&self) -> u32 {
        self.0
    }
}

impl Reference for SelfRef {
    #[inline]
    fn slot(&self) -> u32 {
        self.0.get() - 1
    }
}

/// The number of references to one slot.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    count: u32,
}

impl Holders {
    pub(crate) fn consumer(&mut self, slot: u32) -> ConsumerRef {
        self.count += 1;
        ConsumerRef(slot)
    }

    pub(crate) fn scope(&mut self, slot: u32) -> ScopeRef {
        self.count += 1;
        ScopeRef(slot)
    }

    #[inline]
    pub(crate) fn itself(&mut self, slot: u32) -> SelfRef {
        self.count += 1;
        SelfRef(NonZeroU32::MIN.saturating_add(slot))
    }

    /// Releases a reference. Returns true if it was the last.
    #[inline]
    pub(crate) fn release(&mut self, reference: impl Reference) -> bool {
        drop(reference);
        self.count = self.count.checked_sub(1).expect("REF-1: every reference was given out here");
        self.count == 0
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}
