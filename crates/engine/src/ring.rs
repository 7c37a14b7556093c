//! The ring: a bounded number of task slots and a bounded number of bytes.
//!
//! The name is the field's; neither is a circle. Slots are a slab with generational keys, bytes come from
//! [`crate::region`]. So one task that lives long keeps its own place, and nobody else's.
//!
//! - **RING-1 (bounded).** There are never more live tasks than slots, and memory follows live tasks, not history.
//! - **RING-2 (out of order).** A slot is free as soon as its own task is gone, whatever the others do.
//! - **RING-3 (back-pressure).** A full ring is an answer ([`crate::Submit::Blocked`]) and a later action
//!   ([`crate::Action::RoomFreed`]), never a failure and never a wait.
//! - **RING-4 (told at once).** A submitter that waits for room only it can free is told so, with the scope, the bytes
//!   and the knob, before it waits.

use crate::arena::number;
use crate::region::Regions;
use crate::task::{Slot, State, TaskId};
use std::ops::{Index, IndexMut};

/// Vectors of a slot that grew beyond this are given back.
const KEPT: usize = 64;

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Slot>,
    free: Vec<u32>,
    capacity: u32,
    pub(crate) bytes: Regions,
}

impl Ring {
    pub(crate) fn new(capacity: u32, bytes: u64) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), capacity, bytes: Regions::new(bytes) }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn live(&self) -> u32 {
        number(self.slots.len() - self.free.len())
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.capacity as usize
    }

    /// A slot that is free, with a new generation.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(
                self.slots.len() < self.capacity as usize,
                "RING-1: the caller has looked for room"
            );
            self.slots.push(Slot::vacant());
            number(self.slots.len() - 1)
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        slot
    }

    /// The task in `slot` is gone.
    #[inline]
    pub(crate) fn give(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert_eq!(entry.holders.count(), 0, "REF-1");
        entry.state = State::Consumed;
        entry.edges.clear();
        if entry.edges.capacity() > KEPT {
            entry.edges = Vec::new();
        }
        if entry.held.capacity() > KEPT {
            entry.held = Vec::new();
        }
        self.free.push(slot);
    }

    /// Gives an emptied list of consumers back to its slot.
    #[inline]
    pub(crate) fn keep_consumers(&mut self, slot: u32, mut consumers: Vec<u32>) {
        consumers.clear();
        if consumers.capacity() <= KEPT {
            self.slots[slot as usize].consumers = consumers;
        }
    }

    /// The slot of `task`, if it is not gone.
    #[inline]
    pub(crate) fn find(&self, task: TaskId) -> Option<u32> {
        let slot = self.slots.get(task.slot as usize)?;
        (slot.generation == task.generation && slot.state != State::Consumed).then_some(task.slot)
    }

    #[inline]
    pub(crate) fn id(&self, slot: u32) -> TaskId {
        TaskId { slot, generation: self.slots[slot as usize].generation }
    }

    /// All live tasks, by slot.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.state != State::Consumed)
    }
}

impl Index<u32> for Ring {
    type Output = Slot;

    #[inline]
    fn index(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }
}

impl IndexMut<u32> for Ring {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }
}
