//! The event queues: one agenda of future events for each partition.
//!
//! A window begins with a search for the partitions that are due. During its turn, a partition touches its own agenda
//! and the agendas of the partitions it sends events to.
//!
//! - **AGD-1 (order).** The events of a partition leave the agenda by time, and at equal times by key (SIM-2). Events of one
//!   key, such as the chunks of a message, leave in the order in which they were added.
//! - **AGD-2 (due).** A partition is due at the time of its first event or of its alarm.
//! - **AGD-3 (alarm).** A partition has at most one alarm. The alarm fires before the events of its instant.

use super::action::{Action, Key};
use super::{Partition, PartitionOrder};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A future action.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) time: u64,
    pub(super) key: Key,
    pub(super) action: Action,
}

impl Entry {
    const NONE: Self = Self { time: u64::MAX, key: Key::NONE, action: Action::NONE };

    /// True if this event fires before `other`. The times nearly always differ.
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        self.time < other.time || (self.time == other.time && self.key < other.key)
    }
}

/// The future events of one partition.
///
/// A partition rarely has more than a few events, and most new events are the last to fire. A short sorted ring holds
/// those; a heap holds the events that do not fit into the ring.
///
/// Its parts are cells: the executor keeps a reference to the agenda of the turn while processes and devices add to it.
#[repr(C, align(64))]
pub(super) struct Agenda {
    /// Time of the first event or of the alarm. During the partition's turn, the value from before the turn.
    due: Cell<u64>,
    /// Time of the alarm, `u64::MAX` if there is none.
    alarm: Cell<u64>,
    /// Number of events created by the partition, for itself and for others.
    created: Cell<u64>,
    /// Position of the first event of `soon`; its slot is the position modulo `SOON`.
    head: Cell<usize>,
    len: Cell<usize>,
    /// Number of events in `later`.
    later_len: Cell<usize>,
    /// Events that fire after all events of `soon`; empty if `soon` is empty.
    later: RefCell<BinaryHeap<Reverse<LaterEntry>>>,
    /// Number of events that were ever put into `later`.
    moved: Cell<i64>,
    soon: [Cell<Entry>; SOON],
}

/// A future action in the heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LaterEntry {
    time: u64,
    key: Key,
    /// Order of events of one time and key: new events after those of the heap, events of the ring before them.
    order: i64,
    action: Action,
}

/// Capacity of the ring: a power of two, so that slots need no bounds check.
const SOON: usize = 16;

impl Agenda {
    fn new() -> Self {
        Self {
            due: Cell::new(u64::MAX),
            alarm: Cell::new(u64::MAX),
            created: Cell::new(0),
            head: Cell::new(0),
            len: Cell::new(0),
            later_len: Cell::new(0),
            later: RefCell::default(),
            moved: Cell::new(0),
            soon: [const { Cell::new(Entry::NONE) }; SOON],
        }
    }

    /// Removes every event and the alarm. The count goes on.
    fn clear(&self) {
        self.due.set(u64::MAX);
        self.alarm.set(u64::MAX);
        self.head.set(0);
        self.len.set(0);
        self.later.borrow_mut().clear();
        self.later_len.set(0);
    }

    /// Returns the slot of a position.
    #[inline]
    fn slot(&self, position: usize) -> &Cell<Entry> {
        &self.soon[position % SOON]
    }

    /// Returns the time of the first event, `u64::MAX` if there is none.
    #[inline]
    pub(super) fn first_event(&self) -> u64 {
        if self.len.get() == 0 { u64::MAX } else { self.slot(self.head.get()).get().time }
    }

    /// Takes the alarm and returns its time, if it fires before `end` and before the first event, which is at `first`, or at
    /// the time of that event (AGD-3).
    #[inline]
    pub(super) fn take_alarm(&self, first: u64, end: u64) -> Option<u64> {
        let alarm = self.alarm.get();
        (alarm < end && alarm <= first).then(|| self.alarm.replace(u64::MAX))
    }

    /// Returns the key of the first event if it fires at `time`.
    pub(super) fn key_at(&self, time: u64) -> Option<Key> {
        (self.first_event() == time).then(|| self.slot(self.head.get()).get().key)
    }

    /// Takes the first event; there is one.
    #[inline]
    pub(super) fn pop(&self) -> Entry {
        let (head, left) = (self.head.get(), self.len.get() - 1);
        let entry = self.slot(head).get();
        self.len.set(left);
        self.head.set(head + 1);
        if left == 0 {
            self.refill();
        }
        entry
    }

    /// Takes the first event, if it fires before `end`.
    #[cfg(test)]
    fn pop_before(&self, end: u64) -> Option<Entry> {
        (self.first_event() < end).then(|| self.pop())
    }

    /// Refills the empty ring from its first slot, which is most likely in the cache.
    #[inline]
    fn refill(&self) {
        self.head.set(0);
        if self.later_len.get() > 0 {
            self.take_later();
        }
    }

    #[cold]
    fn take_later(&self) {
        let mut later = self.later.borrow_mut();
        for slot in self.soon.iter().take(SOON / 2) {
            let Some(Reverse(first)) = later.pop() else { break };
            let LaterEntry { time, key, action, .. } = first;
            slot.set(Entry { time, key, action });
            self.len.set(self.len.get() + 1);
        }
        self.later_len.set(later.len());
    }

    /// Returns the key of an event that the partition, which is `own`, creates now.
    #[inline]
    pub(super) fn next_key(&self, now: u64, own: Partition) -> Key {
        let created = self.created.get() + 1;
        self.created.set(created);
        Key::new(now, own, created)
    }

    /// Adds an event. The due time stays: the caller updates it, unless the partition has its turn.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "an entry passed to a function is written, read and written again"
    )]
    pub(super) fn push(&self, entry: Entry) {
        let len = self.len.get();
        if (len == SOON || self.later_len.get() > 0) && self.keep_for_later(entry) {
            return;
        }
        let (head, len) = (self.head.get(), self.len.get());
        let mut at = head + len;
        self.len.set(len + 1);
        while at > head {
            let before = self.slot(at - 1).get();
            if !entry.is_before(&before) {
                break;
            }
            self.slot(at).set(before);
            at -= 1;
        }
        self.slot(at).set(entry);
    }

    /// Makes room in the ring, or puts the entry into the heap if it belongs there; true for the heap.
    #[cold]
    fn keep_for_later(&self, entry: Entry) -> bool {
        while self.len.get() >= SOON {
            let left = self.len.get() - 1;
            self.len.set(left);
            self.put_later(self.slot(self.head.get() + left).get(), -1);
        }
        let is_later = self
            .later
            .borrow()
            .peek()
            .is_some_and(|Reverse(first)| (first.time, first.key) <= (entry.time, entry.key));
        if is_later {
            self.put_later(entry, 1);
        }
        is_later
    }

    /// Puts an event into the heap, before (-1) or after (1) those of the same time and key.
    fn put_later(&self, entry: Entry, side: i64) {
        let Entry { time, key, action } = entry;
        let moved = self.moved.get() + 1;
        self.moved.set(moved);
        let order = side * moved;
        self.later.borrow_mut().push(Reverse(LaterEntry { time, key, order, action }));
        self.later_len.set(self.later_len.get() + 1);
    }
}

/// The agendas of all partitions.
pub(super) struct Agendas {
    list: Box<[Agenda]>,
    /// A lower bound of the first due time of each `BLOCK` partitions: a search skips blocks that cannot be due.
    blocks: Box<[Cell<u64>]>,
}

const BLOCK: usize = 32;

impl Agendas {
    pub(super) fn new(partitions: u32) -> Self {
        let partitions = partitions as usize;
        Self {
            list: std::iter::repeat_with(Agenda::new).take(partitions).collect(),
            blocks: vec![Cell::new(u64::MAX); partitions.div_ceil(BLOCK)].into(),
        }
    }

    /// Removes every event. The counts continue, so that no key is used twice.
    pub(super) fn clear(&self) {
        self.list.iter().for_each(Agenda::clear);
        self.blocks.iter().for_each(|block| block.set(u64::MAX));
    }

    /// Returns the agenda of one partition.
    #[inline]
    pub(super) fn of(&self, partition: Partition) -> &Agenda {
        &self.list[partition.0 as usize]
    }

    /// Returns the key of an event that `origin` creates now.
    #[inline]
    pub(super) fn next_key(&self, now: u64, origin: Partition) -> Key {
        self.of(origin).next_key(now, origin)
    }

    /// Adds an event of a partition.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "an entry passed to a function is written, read and written again"
    )]
    pub(super) fn push(&self, partition: Partition, entry: Entry) {
        let agenda = self.of(partition);
        agenda.push(entry);
        if entry.time < agenda.due.get() {
            self.due_at(partition, agenda, entry.time);
        }
    }

    /// Sets the alarm of a partition; `u64::MAX` for none.
    #[inline]
    pub(super) fn set_alarm(&self, partition: Partition, time: u64) {
        let agenda = self.of(partition);
        agenda.alarm.set(time);
        if time < agenda.due.get() {
            self.due_at(partition, agenda, time);
        }
    }

    /// Sets the due time of a partition to an earlier time.
    #[inline]
    fn due_at(&self, partition: Partition, agenda: &Agenda, time: u64) {
        agenda.due.set(time);
        let block = &self.blocks[partition.0 as usize / BLOCK];
        block.set(time.min(block.get()));
    }

    /// Updates the due time of a partition after its turn.
    #[inline]
    pub(super) fn end_turn(&self, partition: Partition) {
        let agenda = self.of(partition);
        agenda.due.set(agenda.first_event().min(agenda.alarm.get()));
    }

    /// Returns the time of the first event of all partitions, `u64::MAX` if there is none.
    pub(super) fn first_due(&self) -> u64 {
        // After a turn a block's bound may be too low, but never too high.
        loop {
            let first = self.blocks.iter().map(Cell::get).min().unwrap_or(u64::MAX);
            if first == u64::MAX {
                return first;
            }
            let mut exact = false;
            for (block, agendas) in self.blocks.iter().zip(self.list.chunks(BLOCK)) {
                if block.get() == first {
                    let due = agendas.iter().map(|agenda| agenda.due.get()).min();
                    block.set(due.unwrap_or(u64::MAX));
                    exact |= block.get() == first;
                }
            }
            if exact {
                return first;
            }
        }
    }

    /// Writes the partitions that are due before `end` to `out`, in the order of their turns.
    pub(super) fn due_before(&self, end: u64, order: PartitionOrder, out: &mut Vec<Partition>) {
        out.clear();
        let blocks = (0..).step_by(BLOCK).zip(&self.blocks).zip(self.list.chunks(BLOCK));
        for ((first, block), agendas) in blocks {
            if block.get() < end {
                let due = (first..).zip(agendas).filter(|(_, agenda)| agenda.due.get() < end);
                out.extend(due.map(|(partition, _)| Partition(partition)));
            }
        }
        if let PartitionOrder::Shuffled(seed) = order {
            out.sort_by_key(|partition| (turn_of(seed, end, *partition), *partition));
        }
    }
}

/// Returns a hash of a seed, a time and a partition.
fn turn_of(seed: u64, now: u64, partition: Partition) -> u64 {
    let mut x = seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(partition.0) << 32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn entry(time: u64, count: u64) -> Entry {
        Entry { time, key: Key::new(0, Partition(0), count), action: Action::resume(count) }
    }

    proptest! {
        #[test]
        fn agd_1_agd_2_an_agenda_is_a_sorted_set(
            script in prop::collection::vec((0..40usize, prop_oneof![0..3u64, 0..5_000u64], 0..3u8), 0..400)
        ) {
            let agendas = Agendas::new(40);
            let mut models = vec![BTreeSet::new(); 40];
            for (count, (partition, delay, pops)) in (0..).zip(script) {
                let (at, model) = (Partition(u32::try_from(partition).unwrap()), &mut models[partition]);
                agendas.push(at, entry(delay, count));
                model.insert(entry(delay, count));
                for _ in 0..pops {
                    let popped = agendas.of(at).pop_before(u64::MAX).map(|entry| (entry.time, entry.action.payload()));
                    let expected = model.pop_first().map(|entry| (entry.time, entry.action.payload()));
                    prop_assert_eq!(popped, expected, "AGD-1");
                }
                agendas.end_turn(at);
                let due = models.iter().filter_map(|model| model.first()).map(|entry| entry.time);
                prop_assert_eq!(agendas.first_due(), due.min().unwrap_or(u64::MAX), "AGD-2");
                let (end, mut turns) = (agendas.first_due().saturating_add(100), Vec::new());
                agendas.due_before(end, PartitionOrder::Queued, &mut turns);
                let expected = (0..).zip(&models).filter(|(_, model)| model.first().is_some_and(|e| e.time < end));
                prop_assert!(turns.into_iter().eq(expected.map(|(partition, _)| Partition(partition))), "AGD-2");
            }
        }

        #[test]
        fn agd_1_many_events_come_out_in_order(times in prop::collection::vec(0..1_000u64, 0..300)) {
            let agenda = Agenda::new();
            for (count, time) in (0..).zip(&times) {
                agenda.push(entry(*time, count));
            }
            let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let popped = std::iter::from_fn(|| agenda.pop_before(u64::MAX));
            prop_assert!(popped.map(|entry| (entry.time, entry.action.payload())).eq(expected), "AGD-1");
        }
    }

    #[test]
    fn agd_1_events_of_one_key_leave_in_the_order_of_adding() {
        let agenda = Agenda::new();
        let event = |time, action| Entry { action: Action::resume(action), ..entry(time, 0) };
        for action in (0..40).rev() {
            agenda.push(event(7, action));
            if action % 9 == 0 {
                agenda.push(event(3, 100 + action));
            }
        }
        let popped = std::iter::from_fn(|| agenda.pop_before(u64::MAX));
        let popped: Vec<u64> = popped.map(|entry| entry.action.payload()).collect();
        let early = (0..40).rev().filter(|action| action % 9 == 0).map(|action| 100 + action);
        assert_eq!(popped, early.chain((0..40).rev()).collect::<Vec<_>>(), "AGD-1");
    }

    #[test]
    fn agd_1_what_comes_later_stays() {
        let agenda = Agenda::new();
        for (time, count) in [(5, 0), (7, 1), (5, 2)] {
            agenda.push(entry(time, count));
        }
        assert!(agenda.pop_before(5).is_none());
        let popped =
            std::iter::from_fn(|| agenda.pop_before(6)).map(|entry| entry.action.payload());
        assert!(popped.eq([0, 2]), "AGD-1");
        assert_eq!(agenda.first_event(), 7);
    }

    #[test]
    fn agd_2_agd_3_an_alarm_comes_before_the_events_of_its_instant() {
        let (agendas, at) = (Agendas::new(1), Partition(0));
        agendas.push(at, entry(5, 0));
        agendas.set_alarm(at, 5);
        let take = |alarm: Option<u64>, end| {
            if let Some(alarm) = alarm {
                agendas.set_alarm(at, alarm);
            }
            let first = agendas.of(at).first_event();
            agendas.of(at).take_alarm(first, end)
        };
        assert_eq!(take(None, 5), None, "AGD-3: its time has not come");
        assert_eq!(take(None, 6), Some(5), "AGD-3: before the event of that instant");
        assert_eq!(take(None, 6), None, "AGD-3: once");
        assert_eq!(take(Some(7), 100), None, "AGD-3: the event at 5 comes first");
        agendas.of(at).pop_before(6);
        agendas.end_turn(at);
        assert_eq!(agendas.first_due(), 7, "AGD-2");
    }
}
