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

use crate::arena::{NONE, number};
use crate::inline_list::{InlineList, Overflow};
use crate::region::Regions;
use crate::task::{ArgumentOf, Edge, Extra, Rare, Route, Slot, State, TaskId};
use crate::tensormap::Kinds;
use std::ops::{Index, IndexMut};

/// A vector of a slot that grew beyond this is given back.
pub(crate) const KEPT: usize = 64;

/// Consumers of a task that are stored inline.
const CONSUMERS: usize = 13;

/// Tasks that wait for one, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Consumers(InlineList<u32, CONSUMERS>);

const _: () = assert!(size_of::<Consumers>() == 64, "one cache line");

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Slot>,
    /// Of each slot, the tasks that wait for it.
    consumers: Vec<Consumers>,
    extras: Vec<Extra>,
    rares: Vec<Rare>,
    /// Consumers and edges beyond those stored inline.
    consumer_overflow: Overflow<u32>,
    edge_overflow: Overflow<Edge>,
    free: Vec<u32>,
    capacity: u32,
    pub(crate) bytes: Regions,
}

impl Ring {
    pub(crate) fn new(capacity: u32, bytes: u64) -> Self {
        Self {
            slots: Vec::new(),
            consumers: Vec::new(),
            extras: Vec::new(),
            rares: Vec::new(),
            consumer_overflow: Overflow::default(),
            edge_overflow: Overflow::default(),
            free: Vec::new(),
            capacity,
            bytes: Regions::new(bytes),
        }
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

    /// A free slot for a task of `run` that is submitted as number `sequence`.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "on the way of every task: a call costs a tenth of it"
    )]
    pub(crate) fn take(&mut self, run: u32, route: Route, sequence: u64) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1).max(1);
        entry.under_way = entry.generation;
        entry.state = State::Pending;
        entry.priority = 0;
        entry.is_failing = false;
        entry.route = route;
        entry.run = run;
        (entry.waits, entry.path) = (0, 0);
        entry.work = 0;
        // A task never waits for itself.
        entry.mark = sequence;
        entry.itself = Some(entry.holders.itself(slot));
        let extra = &mut self.extras[slot as usize];
        extra.sequence = sequence;
        (extra.expected, extra.record, extra.deferred) = (0, NONE, 0);
        extra.entered = 0;
        extra.edges.clear(&mut self.edge_overflow);
        slot
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        assert!(
            self.slots.len() < self.capacity as usize,
            "RING-1: the caller has looked for room"
        );
        self.slots.push(Slot::vacant());
        self.consumers.push(Consumers::default());
        self.extras.push(Extra::vacant());
        self.rares.push(Rare::default());
        number(self.slots.len() - 1)
    }

    /// The task in `slot` is gone.
    #[inline]
    pub(crate) fn give(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert_eq!(entry.holders.count(), 0, "REF-1");
        entry.state = State::Consumed;
        if entry.is_bulky {
            entry.is_bulky = false;
            self.shrink(slot);
        }
        self.free.push(slot);
    }

    #[cold]
    fn shrink(&mut self, slot: u32) {
        self.extras[slot as usize].edges.clear(&mut self.edge_overflow);
        let rare = &mut self.rares[slot as usize];
        if rare.held.capacity() > KEPT {
            rare.held = Vec::new();
        }
    }

    /// True if `task` has not ended.
    #[inline]
    pub(crate) fn is_under_way(&self, task: TaskId) -> bool {
        self.slots.get(task.slot()).is_some_and(|entry| entry.under_way == task.generation())
    }

    /// Begins to look for what the task in `slot`, which was submitted as number `sequence`, must wait for.
    #[inline]
    pub(crate) fn joining(&mut self, slot: u32, sequence: u64) -> Joining<'_> {
        let Self { slots, consumers, extras, consumer_overflow, edge_overflow, .. } = self;
        let extra = &mut extras[slot as usize];
        let long = (consumer_overflow, edge_overflow);
        Joining { slots, consumers, extra, long, slot, sequence }
    }

    /// The task that waits for `slot` as number `at` among the first ones.
    #[inline]
    pub(crate) fn consumer(&self, slot: u32, at: usize) -> Option<u32> {
        self.consumers[slot as usize].0.inline(at)
    }

    /// The list of the tasks that wait for `slot` and are not among the first ones.
    #[inline]
    pub(crate) fn others(&self, slot: u32) -> u32 {
        self.consumers[slot as usize].0.more()
    }

    /// True if any task waits for `slot`.
    #[inline]
    pub(crate) fn has_consumers(&self, slot: u32) -> bool {
        self.consumers[slot as usize].0.len() > 0
    }

    /// Returns some of the further consumers, and the index of the next ones.
    pub(crate) fn more_consumers(
        &self,
        at: u32,
    ) -> Option<(impl Iterator<Item = u32> + use<>, u32)> {
        let (some, next) = self.consumer_overflow.next(at)?;
        Some((some.into_iter().filter(|consumer| *consumer != NONE), next))
    }

    /// Removes one producer from the count of `slot`. Returns true if it was the last.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32, until: u64) -> bool {
        let entry = &mut self.slots[slot as usize];
        entry.waits -= 1;
        entry.path = entry.path.max(until);
        entry.waits == 0
    }

    /// Nobody waits for `slot` any more.
    #[inline]
    pub(crate) fn clear_consumers(&mut self, slot: u32) {
        self.consumers[slot as usize].0.clear(&mut self.consumer_overflow);
    }

    #[inline]
    pub(crate) fn extra(&self, slot: u32) -> &Extra {
        &self.extras[slot as usize]
    }

    #[inline]
    pub(crate) fn extra_mut(&mut self, slot: u32) -> &mut Extra {
        &mut self.extras[slot as usize]
    }

    /// The slot of `task`, if it is not gone.
    #[inline]
    pub(crate) fn find(&self, task: TaskId) -> Option<u32> {
        let slot = self.slots.get(task.slot())?;
        (slot.generation == task.generation() && slot.state != State::Consumed)
            .then_some(task.place())
    }

    #[inline]
    pub(crate) fn id(&self, slot: u32) -> TaskId {
        TaskId::new(slot, self.slots[slot as usize].generation)
    }

    /// Returns the edges of a task to all that it waited for, if all of them are stored inline.
    #[inline]
    pub(crate) fn inline_edges(&self, slot: u32) -> Option<&[Edge]> {
        self.extras[slot as usize].edges.whole()
    }

    /// Returns the edges of a task to all that it waited for.
    pub(crate) fn edges(&self, slot: u32) -> impl Iterator<Item = Edge> {
        self.extras[slot as usize].edges.iter(&self.edge_overflow)
    }

    #[inline]
    pub(crate) fn rare(&self, slot: u32) -> &Rare {
        &self.rares[slot as usize]
    }

    #[inline]
    pub(crate) fn rare_mut(&mut self, slot: u32) -> &mut Rare {
        &mut self.rares[slot as usize]
    }

    /// All live tasks, by slot.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u32, &Slot, &Extra)> {
        let slots = (0..).zip(&self.slots).zip(&self.extras);
        let live = slots.filter(|((_, slot), _)| slot.state != State::Consumed);
        live.map(|((at, slot), extra)| (at, slot, extra))
    }
}

/// A task that finds out whom it must wait for.
pub(crate) struct Joining<'a> {
    slots: &'a mut [Slot],
    consumers: &'a mut [Consumers],
    extra: &'a mut Extra,
    long: (&'a mut Overflow<u32>, &'a mut Overflow<Edge>),
    slot: u32,
    sequence: u64,
}

impl Joining<'_> {
    /// Waits for `producer` if that has not ended.
    #[inline]
    pub(crate) fn meet(&mut self, producer: TaskId, at: ArgumentOf, kinds: Kinds) {
        if let Some(entry) = self.slots.get(producer.slot())
            && entry.under_way == producer.generation()
        {
            self.wait(producer, at, kinds);
        }
    }

    /// Waits for a task, unless for itself: once, however many arguments say so.
    #[inline(never)]
    fn wait(&mut self, producer: TaskId, at: ArgumentOf, kinds: Kinds) {
        if producer.place() == self.slot {
            return;
        }
        let consumers = &mut self.consumers[producer.slot()].0;
        let (edge, edges) = (Edge::new(producer, at, kinds), &mut self.extra.edges);
        if !consumers.has_inline_room() || !edges.has_inline_room() {
            return self.wait_long(edge);
        }
        edges.push_inline(edge);
        let entry = &mut self.slots[producer.slot()];
        if entry.mark != self.sequence {
            entry.mark = self.sequence;
            consumers.push_inline(self.slot);
            self.slots[self.slot as usize].waits += 1;
        }
    }

    /// The same if one of the two lists may be long.
    #[cold]
    #[inline(never)]
    fn wait_long(&mut self, edge: Edge) {
        let producer = edge.producer.slot();
        self.extra.edges.push(edge, self.long.1);
        self.slots[self.slot as usize].is_bulky = true;
        if self.slots[producer].mark != self.sequence {
            self.slots[producer].mark = self.sequence;
            self.consumers[producer].0.push(self.slot, self.long.0);
            self.slots[self.slot as usize].waits += 1;
        }
    }

    /// More arguments that others may have to wait for.
    #[inline]
    pub(crate) fn enter(&mut self, count: u32) {
        self.extra.entered += count;
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
